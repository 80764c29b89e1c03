"""What became of asking a server who it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """`version` is what the server says it is, empty when it told none or `problem` is set."""

    name: str
    type: str
    version: str = ""
    problem: str = ""
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """Of the store, the queue, a stream or the fallback's endpoint. `where` is its section of the
    configuration, `label` its address without a password. `weaknesses` are ways in which a crash
    loses what it holds, one sentence each."""

    where: str
    label: str
    state: str = ""
    problem: str = ""
    fix: str = ""
    weaknesses: tuple[str, ...] = ()
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """`servers` are all that is no source."""

    sources: Sequence[SourceReport]
    servers: Sequence[ServerReport]
