"""What was found of one change or none, and whether it names what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench.drift.injections import Injection
from triage.model.decision import NodeId
from triage.ports import WatchFinding, WatchKind
from triage.watching.retest import Seen

WITHIN = 30

OF_KIND: Mapping[str, frozenset[WatchKind]] = {
    "unit": frozenset({WatchKind.VALUES_MOVED}),
    "renamed": frozenset({WatchKind.SCHEMA_CHANGED, WatchKind.FAILURES, WatchKind.RETEST_FAILED}),
    "dead": frozenset({WatchKind.SOURCE_DEAD}),
    "moved": frozenset({WatchKind.VALUES_MOVED}),
}


class Quiet(NamedTuple):
    """A world in which nothing was changed."""

    seed: int
    alerts: int
    evaluations: int
    findings: tuple[WatchFinding, ...]


class Named(NamedTuple):
    """One injection and one node that asks what it changes.

    `after` evaluations of the node that asked it, at whichever site, it was named; None for not
    within those that there were, `seen`. `at_site` and `concerned` count only those at a site where
    it was made. `retested` is whether one re-test of the node names it, None without a case that
    asked it; `cases` are how many were tried.
    """

    seed: int
    injection: str
    kind: str
    node: NodeId
    seen: int
    after: int | None
    at_site: int | None
    finding: str
    concerned: int = 0
    retested: bool | None = None
    cases: int = 0

    @property
    def within_30(self) -> bool:
        return self.after is not None and self.after <= WITHIN

    @property
    def in_time(self) -> bool:
        """Within one re-test or 30 evaluations of the node."""
        return bool(self.retested) or self.within_30

    @property
    def untold(self) -> bool:
        """Neither named, nor was there a case or 30 evaluations for it to be named in."""
        return not self.in_time and self.retested is None and self.seen < WITHIN

    @property
    def why(self) -> str:
        """In words, what did not name it in time, and what did."""
        told = []
        if self.after is not None and not self.within_30:
            told.append(f"no monitor before {self.after} evaluations of the node")
        elif self.after is None:
            told.append(f"no monitor in the {self.seen} evaluations of the node that asked it")
            if self.seen != self.concerned:
                told.append(f"{self.concerned} of them where it was made")
            if not self.seen and self.kind == "dead":
                told.append("it is not reached once what comes before it fails")
        if self.retested is None:
            told.append("no case asked it")
        elif not self.retested:
            told.append(f"not by a re-test of {self.cases} cases")
        if self.in_time:
            told.append("named by one re-test" if self.retested else f"named after {self.after}")
        return "; ".join(told)


def names(finding: WatchFinding | Seen, injection: Injection) -> bool:
    """Whether the finding says which field or source it is: not only that something is wrong."""
    if finding.kind not in OF_KIND[injection.change.kind]:
        return False
    said = f"{finding.subject} {finding.detail}"
    words = injection.words
    if finding.kind in (WatchKind.FAILURES, WatchKind.RETEST_FAILED):
        return words[-1] in finding.detail
    return all(word in said for word in words)
