"""The record: alerts, decisions, gaps, and the ledger over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from triage.model.alert import Accepted, Alert, AlertId, Arrival, Severity
from triage.model.decision import Decision, NodeId
from triage.model.gap import Gap


class AlertStatus(StrEnum):
    PENDING = "pending"
    DECIDED = "decided"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    alert: Alert
    status: AlertStatus
    attempts: int
    """Attempts begun before this load, this one not counted."""


class AlertLog(Protocol):
    """Accepted alerts. All changes are durable when the call returns."""

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        """All or none, one answer an arrival, in order. Raises Overloaded or StoreError."""

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        """The alert as it now is, its attempt counted; None when it is unknown."""

    async def release_attempt(self, alert_id: AlertId) -> None:
        """An attempt that was begun is not made just now: it does not count."""

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        """False when the alert is no longer pending."""

    async def hold(self, alert_ids: Sequence[AlertId]) -> None:
        """They are still worked on: the sweeper leaves them alone for another lease."""

    async def to_wake(self, *, limit: int) -> list[tuple[AlertId, Severity]]:
        """Pending alerts that nobody seems to hold, for the caller to publish.

        An alert is due when it was neither begun, held nor handed out here for a while; each one
        handed out is put off by as long as it has waited, so that a long backlog is not published
        over and over. Of callers at the same time each gets others.
        """

    async def wake_all(self) -> None:
        """The queue lost its memory: every pending alert that nobody holds is due at once."""


class AlertView(Protocol):
    """Reads alerts beside whoever decides them."""

    async def stored(self, alert_id: AlertId) -> StoredAlert | None:
        """The alert as it now is; no attempt is counted. None when it is unknown."""


class CommitStatus(StrEnum):
    COMMITTED = "committed"
    ALREADY_DECIDED = "already_decided"
    RESOLVED_MEANWHILE = "resolved_meanwhile"
    """A resolve became durable first: nothing was written; decide `resolved` and commit again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One outbox row to write: `body` is sent as it is, every time."""

    sink: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    outcome: str = ""
    alarm: str = ""
    site: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPage:
    """`decisions` are heads (no nodes), newest first. `cursor` is "" on the last page."""

    decisions: Sequence[Mapping[str, Any]]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An alert whose attempts were used up, or a message of a stream that is no alert.

    `alert_id`, `alarm`, `site` and `severity` are empty for a message; `stream` and `format` for
    an alert. `payload` is what the sender sent. `at` is aware UTC.
    """

    dead_letter_id: str
    alert_id: str = ""
    alarm: str = ""
    site: str = ""
    severity: str = ""
    stream: str = ""
    format: str = ""
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str
    detail: str
    attempts: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage:
    """The newest first. `cursor` is "" on the last page."""

    dead_letters: Sequence[DeadLetter]
    cursor: str


class DeadLetterLog(Protocol):
    """What was given up, until a person deals with it. All changes are durable on return."""

    async def bury(self, message: DeadLetter) -> bool:
        """A message of a stream: it counts as accepted and dead-lettered. False when it lies
        there already."""

    async def dead_letter_page(self, *, reason: str, cursor: str, limit: int) -> DeadLetterPage:
        """All, or those of one reason. Raises PayloadError for a cursor that this store did not
        make."""

    async def dead_letter(self, dead_letter_id: str) -> DeadLetter | None: ...

    async def redrive(
        self, dead_letter_id: str, *, by: str, at: datetime, arrivals: Sequence[Arrival] = ()
    ) -> Sequence[Accepted] | None:
        """Try again: an alert is pending once more with all its attempts; a message's `arrivals`
        are accepted and stand in its place. What then makes work, for the caller to publish; None
        when there is no such dead letter. Raises StoreError."""

    async def discard(self, dead_letter_id: str, *, by: str, note: str, at: datetime) -> bool:
        """A person takes it out for good. False when there is no such dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """How much one run of retention removed."""

    evidence: int = 0
    decisions: int = 0
    gap_cases: int = 0
    deliveries: int = 0
    events: int = 0
    comparisons: int = 0
    findings: int = 0

    @property
    def anything(self) -> bool:
        return self != Purged()


class Retention(Protocol):
    async def purge_evidence(self, *, older_than: datetime, max_bytes: int) -> int:
        """Delete bodies last used before `older_than`, then the longest unused until no more than
        `max_bytes` (as stored, compressed) are left. Returns how many."""

    async def purge(self, *, older_than: datetime, max_bytes: int | None) -> Purged:
        """Delete what is older than `older_than`, and the oldest above `max_bytes` in all.

        A decided or discarded alert goes with its decision and its delivered messages, unless a
        sender has spoken of it since: it would be a new alert to the store. Pending and
        dead-lettered alerts stay. The ledger's counts go on, and say how many rows are gone.
        Cancellation safe: what is deleted stays so.
        """


class DecisionLog(Protocol):
    async def commit(
        self,
        decision: Decision,
        evidence: Mapping[str, bytes],
        messages: Sequence[Message],
        gaps: Sequence[Gap] = (),
    ) -> CommitStatus:
        """Decision, evidence (SHA-256 hex to body), outbox rows and gaps in one transaction, the
        first for its alert id wins. Durable when it returns."""

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        """The decision's document with `decided_at`, `accepted_to_decided_ms` and, where alerts
        were coalesced into this one, how many (`coalesced`); or `{"status": …}` while undecided;
        None when the alert is unknown."""

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        """Raises PayloadError for a cursor that this store did not make."""

    async def evidence(self, answer_sha256: str) -> bytes | None:
        """None when the body was never stored or has been purged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    row: int
    alert_id: AlertId
    key: str
    body: bytes
    attempts: int
    posted_at: datetime
    """When the decision was committed, aware UTC."""


class Outbox(Protocol):
    async def due(self, sink: str, *, now: datetime, limit: int) -> list[OutboxRow]:
        """Where several processes share the store, each gets others, and has some 20 s to say what
        became of them."""

    async def delivered(self, rows: Sequence[int]) -> None: ...

    async def postpone(self, row: int, *, until: datetime, error: str) -> None:
        """Counts an attempt."""

    async def give_up(self, row: int, *, error: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Pending alerts of one priority. `oldest_at` is aware UTC."""

    pending: int
    oldest_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """accepted = decided + pending + dead_lettered + discarded, or something was lost.

    `purged` of the decided and discarded are no longer stored. `backlog` is what is pending, by
    the name of its priority; one of which there is none may be missing.
    """

    accepted: int
    decided: int
    pending: int
    dead_lettered: int
    discarded: int
    purged: int = 0
    backlog: Mapping[str, Backlog] = field(default_factory=dict)
    oldest_pending_at: datetime | None
    outbox_pending: int
    outbox_given_up: int
    unaccounted: tuple[str, ...] = field(default=())
    """Ids found by a full count only."""

    @property
    def balances(self) -> bool:
        return not self.unaccounted and self.accepted == (
            self.decided + self.pending + self.dead_lettered + self.discarded
        )


class LedgerView(Protocol):
    async def ledger(self, *, full: bool = False) -> Ledger:
        """Counters; with `full` they are counted anew from the rows and compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapGroup:
    """All gaps of one kind. `latest` is the newest. Times are aware UTC; `closed_at` is None
    while it is open. A gap that comes back after it was closed is open again."""

    gap_id: str
    node: NodeId
    reason: str
    tool_version: int
    tool_sha256: str
    count: int
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None
    closed_by: str
    note: str
    latest: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPage:
    """The newest first. `cursor` is "" on the last page."""

    gaps: Sequence[GapGroup]
    cursor: str


class GapLog(Protocol):
    """Gaps are written by DecisionLog.commit, in the decision's own transaction."""

    async def gap_page(self, *, closed: bool, node: str, cursor: str, limit: int) -> GapPage:
        """Open ones, with `closed` the closed ones instead; of one node when it is given.
        Raises PayloadError for a cursor that this store did not make."""

    async def gap(self, gap_id: str) -> GapGroup | None: ...

    async def gap_cases(self, gap_id: str, *, limit: int) -> Sequence[Gap]:
        """The newest first."""

    async def close_gap(self, gap_id: str, *, by: str, note: str, at: datetime) -> bool:
        """False when there is none that is open. Durable when it returns."""

    async def open_gaps(self) -> int: ...
