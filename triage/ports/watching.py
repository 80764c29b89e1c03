"""The record of what is watched: comparisons of shadows, and findings about tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from triage.model.alert import AlertId
from triage.model.decision import NodeId


class Compared(StrEnum):
    """How a shadow compares with the active version on one decision.

    Only the first two count towards agreement. `UNRECORDED`: it asked what the active one had not.
    `FAILED`: it raised, or gave no verdict. `DROPPED`: there was no time for it.
    """

    AGREES = "agrees"
    DIFFERS = "differs"
    UNRECORDED = "unrecorded"
    FAILED = "failed"
    DROPPED = "dropped"


class Pair(NamedTuple):
    """Which two are compared: by content, so that a new shadow starts from nothing."""

    node: NodeId
    shadow_version: int
    shadow_sha256: str
    active_version: int
    active_sha256: str


class Comparison(NamedTuple):
    """`active` and `shadow` are verdict documents (value, subject, explanation, clauses), `shadow`
    with `failure` and `detail` in their place when it failed; `answers` in each are the digests of
    what it saw, and `evidence` all of them. Bodies are the decision's evidence. Kept in full unless
    it AGREES. `other_clauses` says that value and subject agree and the clauses do not."""

    pair: Pair
    result: Compared
    alert_id: AlertId
    at: datetime
    site: str = ""
    active: Mapping[str, Any] = {}
    shadow: Mapping[str, Any] = {}
    evidence: tuple[str, ...] = ()
    other_clauses: bool = False


class Tally(NamedTuple):
    """Counts of one pair, over all replicas. `other_clauses` of those that agree came to it by
    other clauses. Times are aware UTC."""

    pair: Pair
    counts: Mapping[Compared, int]
    first_at: datetime
    last_at: datetime
    other_clauses: int = 0


class ComparisonPage(NamedTuple):
    """The newest first. `cursor` is "" on the last page."""

    comparisons: Sequence[Comparison]
    cursor: str


class ShadowLog(Protocol):
    async def compared(self, comparisons: Sequence[Comparison]) -> None:
        """Counted, and kept in full those that do not agree; all in one transaction. The same alert
        compared twice for the same pair counts once, but for DROPPED. Raises StoreError."""

    async def tallies(self, node: str = "") -> Sequence[Tally]:
        """Of one node, or of all; the newest pair of a node first."""

    async def comparison_page(
        self, pair: Pair, *, result: Compared | None, cursor: str, limit: int
    ) -> ComparisonPage:
        """Those kept in full. Raises PayloadError for a cursor that this store did not make."""


class WatchKind(StrEnum):
    """What is wrong with a tool, or under it."""

    VALUES_MOVED = "values_moved"
    NULLS = "nulls"
    GAPS = "gaps"
    SCHEMA_CHANGED = "schema_changed"
    VERDICTS_MOVED = "verdicts_moved"
    FAILURES = "failures"
    SOURCE_DEAD = "source_dead"
    RETEST_FAILED = "retest_failed"
    AMBIGUOUS_TEXT = "ambiguous_text"


class WatchFinding(NamedTuple):
    """`finding_id` is of kind, node, subject and tool: the same trouble is one finding, however
    often it is seen. `subject` is what it is about: a source, a query, a field, a sentence.
    `detail` is one line for people with figures; `evidence` more of it, as JSON types. `closed_at`
    is None while it holds."""

    finding_id: str
    kind: WatchKind
    node: NodeId
    subject: str
    tool_sha256: str
    detail: str
    first_at: datetime
    last_at: datetime
    count: int = 1  # type: ignore[assignment]  # a field, and no longer the method of tuples
    evidence: Mapping[str, Any] = {}
    closed_at: datetime | None = None


class WatchLog(Protocol):
    async def found(self, findings: Sequence[WatchFinding]) -> None:
        """New ones are kept, known ones counted and their `last_at`, detail and evidence renewed;
        a closed one that comes back is open again. Raises StoreError."""

    async def ended(self, finding_ids: Sequence[str], *, at: datetime) -> None:
        """They no longer hold."""

    async def findings(self, *, node: str = "", closed: bool = False) -> Sequence[WatchFinding]:
        """The newest first, at most a thousand."""

    async def save_state(self, watcher: str, states: Mapping[NodeId, bytes]) -> None:
        """What a watcher (a replica) has learned of each node, to go on from after a restart.
        Raises StoreError."""

    async def load_state(self, watcher: str) -> Mapping[NodeId, bytes]:
        """Empty for one that was never saved."""
