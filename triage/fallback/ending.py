"""How an attempt ends."""

from __future__ import annotations

from typing import NamedTuple

from triage.errors import FallbackFailure
from triage.model.verdict import Verdict

OWN_LIMITS = frozenset(
    {
        FallbackFailure.TIMEOUT,
        FallbackFailure.TURNS,
        FallbackFailure.TOKENS,
        FallbackFailure.REPEATED,
        FallbackFailure.NO_CODE,
    }
)
"""Ends that are limits of the attempt's own: then what is known is taken."""


class Ending(NamedTuple):
    """`reason` is a FallbackFailure and `detail` one line for people; both are empty when there
    is a verdict."""

    verdict: Verdict | None = None
    reason: str = ""
    detail: str = ""


class NoVerdict(Exception):
    """The attempt is over and nobody has said anything that counts. Never leaves it."""

    def __init__(self, failure: FallbackFailure, detail: str) -> None:
        self.failure = failure
        self.detail = detail
        super().__init__(detail)


def outage(down: set[str], then: str = "") -> NoVerdict:
    """`down` are the sources that did not answer."""
    names = ", ".join(map(repr, sorted(down)))
    return NoVerdict(FallbackFailure.SOURCE, f"source {names} did not answer{then}")
