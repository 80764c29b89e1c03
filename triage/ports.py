"""What the runtime needs from the outside, in one place. Adapters conform by shape.

Delivery contract (every queue, one suite of tests):

- `publish` is at least once and may be lost: the store is the record, and the sweeper publishes
  again what nobody holds. Publishing an alert that is already queued changes nothing.
- `receive` hands a delivery to one consumer until its lease ends; then it may go to another.
- The consumer acks after the decision is durable, never before. Acking a delivery whose lease
  was lost is harmless. `extend` returns those still held.
- The idempotency key of all work is the alert id: the store takes one decision for it and the
  loser acks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from triage.model.alert import Accepted, Alert, AlertId, Arrival, Severity
from triage.model.decision import Decision, NodeId
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""


# --- sources ----------------------------------------------------------------------------------


class Source(Protocol):
    """One backend that answers queries.

    `ask` may be called concurrently. It raises ToolFailed when the query itself is at fault
    (4xx, unknown column, wrong query type, answer over the size limit) and SourceFailed when the
    backend is; an empty result is an answer. It stops by itself within `timeout_s`, and may be
    cancelled at any await. It never retries: the caller does.

    `open` returns when the source can be asked or has started to connect in the background: a
    dead backend must not keep the daemon from starting. Raises ConfigError for what only a
    person can mend. `close` ends every task and connection; it may be called without `open`.
    """

    @property
    def name(self) -> str: ...

    async def open(self) -> None: ...

    async def ask(self, query: Query, *, timeout_s: float) -> Answer: ...

    async def close(self) -> None: ...


@runtime_checkable
class Connecting(Protocol):
    """What a source also is when its `open` only begins to connect."""

    async def settled(self) -> None:
        """Returns once the first attempt to connect has ended, well or not. May be cancelled."""


# --- fallback ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRequest:
    alert: Alert
    node: NodeId
    reason: str
    detail: str
    params: Mapping[str, Any]
    parents: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackAnswer:
    """`verdict` is None when the budget ran out without one; then `reason` says why."""

    verdict: Verdict | None
    reason: str = ""
    detail: str = ""


class Fallback(Protocol):
    """Answers for one node whose tool failed. Ends within `timeout_s`; never raises for what
    the model, the sandbox or a source did."""

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer: ...


class Lane(Protocol):
    """The slot an attempt holds."""

    async def enter_slow(self) -> bool:
        """Give up the fast slot for a slow one. False when the slow lane is full: the fast slot
        is kept and the node fails as `fallback_saturated`. True again if already slow."""


# --- the record -------------------------------------------------------------------------------


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

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        """False when the alert is no longer pending."""

    async def unheld(self, *, older_than: datetime, limit: int) -> list[tuple[AlertId, Severity]]:
        """Pending alerts accepted before `older_than` that no queue entry stands for."""


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


class DecisionLog(Protocol):
    async def commit(
        self, decision: Decision, evidence: Mapping[str, bytes], messages: Sequence[Message]
    ) -> CommitStatus:
        """Decision, evidence (SHA-256 hex to body) and outbox rows in one transaction, the first
        for its alert id wins. Durable when it returns."""

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        """The decision's document with `decided_at` and `accepted_to_decided_ms`; or
        `{"status": …}` while undecided; None when the alert is unknown."""

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
    async def due(self, sink: str, *, now: datetime, limit: int) -> list[OutboxRow]: ...

    async def delivered(self, rows: Sequence[int]) -> None: ...

    async def postpone(self, row: int, *, until: datetime, error: str) -> None:
        """Counts an attempt."""

    async def give_up(self, row: int, *, error: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """accepted = decided + pending + dead_lettered + discarded, or something was lost."""

    accepted: int
    decided: int
    pending: int
    dead_lettered: int
    discarded: int
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


# --- queue ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """`token` is the queue's own handle. `published_at` is aware UTC."""

    alert_id: AlertId
    token: str
    published_at: datetime


class Queue(Protocol):
    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None: ...

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        """Up to `limit`, most severe first; waits up to `wait_s` for the first."""

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        """Ack `acked`; give `returned` back, to be received again after `delay_s`."""

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Renew the leases; those still held are returned."""


# --- sinks ------------------------------------------------------------------------------------


class Sink(Protocol):
    """Takes messages at least once; the receiver dedupes by key.

    `send` raises DeliveryRejected when the message will never be taken, and any other
    TriageError or OSError when it may be later (`retry_after_s` on Overloaded is honoured).
    """

    @property
    def name(self) -> str: ...

    async def send(self, key: str, body: bytes) -> None: ...

    async def close(self) -> None: ...
