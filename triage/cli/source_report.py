"""What became of asking a source who it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """`version` is what the server says it is, empty when it told none or `problem` is set."""

    name: str
    type: str
    version: str = ""
    problem: str = ""
    elapsed_ms: float = 0.0
