"""One request that gave no completion, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from triage.errors import ModelFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """`problem` and `fix` are our words; `said` are the endpoint's or the library's, as they came:
    not to be shown before they were scrubbed.

    `repeat` says that asking again is safe, `wait_s` how long the endpoint wants to be left alone
    first, if it said so. `counts` is False when the endpoint is not to blame. `unsupported` names
    a parameter of the request that this model does not take.
    """

    failure: ModelFailure
    problem: str
    said: str = ""
    fix: str = ""
    repeat: bool = False
    wait_s: float | None = None
    counts: bool = True
    unsupported: str = ""
