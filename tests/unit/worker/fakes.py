"""A store and a queue in memory that keep the ports' contracts, fail when told to, and note what
happened in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tests.unit.evaluation.virtual_time import START, LoopClock
from tests.unit.evaluation.world import alert
from triage.errors import StoreError, TriageError
from triage.model.alert import Accepted, Alert, AlertId, Arrival, Severity
from triage.model.decision import Decision, Outcome, decision_document
from triage.model.gap import Gap
from triage.ports import (
    AlertStatus,
    CommitStatus,
    DecisionFilter,
    DecisionPage,
    Delivery,
    Message,
    StoredAlert,
)

LEASE_S = 30.0


@dataclass(slots=True)
class Row:
    alert: Alert
    status: AlertStatus = AlertStatus.PENDING
    attempts: int = 0
    wake_at: float = 0.0
    """On the loop's time: due for the sweeper from then on."""


@dataclass(slots=True)
class Entry:
    priority: int
    seq: int
    available_at: float
    token: str = ""


@dataclass(slots=True)
class Record:
    """Implements `ports.AlertLog` and `ports.DecisionLog`.

    `failures` maps a method to exceptions, one of which each call raises until none is left.
    """

    rows: dict[AlertId, Row] = field(default_factory=dict)
    decisions: dict[AlertId, Decision] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    dead: dict[AlertId, tuple[str, str]] = field(default_factory=dict)
    journal: list[tuple[str, str]] = field(default_factory=list)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    begun: list[float] = field(default_factory=list)
    """When each attempt was."""
    held: list[tuple[float, list[AlertId]]] = field(default_factory=list)
    woken: int = 0
    """How often everything was made due."""
    wait_s: float = 10.0
    """How long an alert is left alone once it is accepted or handed out to be woken."""
    queue: FakeQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = FakeQueue(self)

    def add(self, *alert_ids: str, enqueue: bool = True, **fields: Any) -> list[AlertId]:
        """Accepts alerts, and queues them."""
        made = [replace(alert(alert_id), **fields) for alert_id in alert_ids]
        for one in made:
            self.rows[one.alert_id] = Row(one, wake_at=_now() + self.wait_s)
            if enqueue:
                self.queue.put(one.alert_id, one.severity)
        return [one.alert_id for one in made]

    def fail(self, method: str) -> None:
        left = self.failures.get(method)
        if left:
            raise left.pop(0)

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        raise StoreError(f"{len(arrivals)} arrivals: this store takes none")

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        await asyncio.sleep(0)
        self.fail("begin_attempt")
        row = self.rows.get(alert_id)
        if row is None:
            return None
        before = row.attempts
        if row.status is AlertStatus.PENDING:
            row.attempts += 1
            row.wake_at = _now() + LEASE_S + self.wait_s
            self.begun.append(_now())
            self.journal.append(("attempt", alert_id))
        return StoredAlert(alert=row.alert, status=row.status, attempts=before)

    async def release_attempt(self, alert_id: AlertId) -> None:
        await asyncio.sleep(0)
        self.fail("release_attempt")
        self.rows[alert_id].attempts -= 1
        self.journal.append(("release", alert_id))

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        self.fail("dead_letter")
        row = self.rows[alert_id]
        if row.status is not AlertStatus.PENDING:
            return False
        row.status = AlertStatus.DEAD_LETTERED
        self.dead[alert_id] = (reason, detail)
        self.journal.append(("dead", alert_id))
        return True

    async def hold(self, alert_ids: Sequence[AlertId]) -> None:
        self.fail("hold")
        self.held.append((_now(), list(alert_ids)))
        for alert_id in alert_ids:
            self.rows[alert_id].wake_at = _now() + LEASE_S + self.wait_s

    async def to_wake(self, *, limit: int) -> list[tuple[AlertId, Severity]]:
        self.fail("to_wake")
        due = [
            row
            for row in self.rows.values()
            if row.status is AlertStatus.PENDING and row.wake_at <= _now()
        ][:limit]
        for row in due:
            waited = (LoopClock().now() - row.alert.accepted_at).total_seconds()
            row.wake_at = _now() + max(self.wait_s, waited)
        return [(row.alert.alert_id, row.alert.severity) for row in due]

    async def wake_all(self) -> None:
        self.fail("wake_all")
        self.woken += 1
        for row in self.rows.values():
            row.wake_at = _now()

    async def commit(
        self,
        decision: Decision,
        evidence: Mapping[str, bytes],
        messages: Sequence[Message],
        gaps: Sequence[Gap] = (),
    ) -> CommitStatus:
        await asyncio.sleep(0)
        self.fail("commit")
        row = self.rows[decision.alert_id]
        if row.status is not AlertStatus.PENDING:
            return CommitStatus.ALREADY_DECIDED
        if row.alert.resolved_at is not None and decision.outcome is not Outcome.RESOLVED:
            return CommitStatus.RESOLVED_MEANWHILE
        row.status = AlertStatus.DECIDED
        self.decisions[decision.alert_id] = decision
        self.messages += messages
        self.journal.append(("commit", decision.alert_id))
        return CommitStatus.COMMITTED

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        found = self.decisions.get(alert_id)
        return None if found is None else decision_document(found)

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        heads = [decision_document(one) for one in self.decisions.values()]
        return DecisionPage(decisions=heads[:limit], cursor=cursor and wanted.alarm)

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return None if answer_sha256 else b""

    @property
    def settled(self) -> bool:
        return all(row.status is not AlertStatus.PENDING for row in self.rows.values())

    def happened(self, alert_id: str) -> list[str]:
        return [event for event, about in self.journal if about == alert_id]


class FakeQueue:
    """Implements `ports.Queue` on the running loop's time. `limits` are those of every receive,
    `receives` and `publishes` when each began."""

    label = "fake"

    def __init__(self, record: Record) -> None:
        self.entries: dict[AlertId, Entry] = {}
        self.limits: list[int] = []
        self.receives: list[float] = []
        self.publishes: list[tuple[float, int]] = []
        self.trouble = ""
        self.leased: dict[AlertId, list[float]] = {}
        """When each lease of an alert was renewed."""
        self._record = record
        self._clock = LoopClock()
        self._changed = asyncio.Event()
        self._seq = 0
        self._forgot = False

    def forget(self) -> None:
        """As a server does that was emptied; the next receive finds out."""
        self.entries.clear()
        self._forgot = True

    def forgot(self) -> bool:
        forgot, self._forgot = self._forgot, False
        return forgot

    async def depth(self) -> Mapping[str, int]:
        self._fail("depth")
        return {"warning": len(self.entries)}

    async def weaknesses(self) -> list[str]:
        return []

    async def close(self) -> None:
        """Nothing is open."""

    def put(self, alert_id: AlertId, severity: Severity) -> None:
        if alert_id not in self.entries:
            self._seq += 1
            self.entries[alert_id] = Entry(severity.priority, self._seq, self._now())
            self._changed.set()

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        self.publishes.append((_now(), len(alerts)))
        self._fail("publish")
        for alert_id, severity in alerts:
            self.put(alert_id, severity)

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        self.receives.append(_now())
        self._fail("receive")
        self.limits.append(limit)
        ends = self._now() + wait_s
        while True:
            self._changed.clear()
            claimed = self._claim(limit)
            left = ends - self._now()
            if claimed or left <= 0:
                return claimed
            soonest = min((e.available_at for e in self.entries.values()), default=ends)
            try:
                async with asyncio.timeout(min(left, max(0.0, soonest - self._now()) or left)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        await asyncio.sleep(0)
        self._fail("settle")
        for delivery in acked:
            self._record.journal.append(("ack", delivery.alert_id))
            if self._held(delivery):
                del self.entries[delivery.alert_id]
        for delivery in returned:
            self._record.journal.append(("return", delivery.alert_id))
            if self._held(delivery):
                entry = self.entries[delivery.alert_id]
                entry.token, entry.available_at = "", self._now() + delay_s
        self._changed.set()

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        self._fail("extend")
        held = [delivery for delivery in deliveries if self._held(delivery)]
        for delivery in held:
            self.entries[delivery.alert_id].available_at = self._now() + LEASE_S
            self.leased.setdefault(delivery.alert_id, []).append(self._now())
        return held

    def _fail(self, method: str) -> None:
        try:
            self._record.fail(method)
        except TriageError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""

    def _claim(self, limit: int) -> list[Delivery]:
        now = self._now()
        ready = [
            (e.priority, e.seq, key) for key, e in self.entries.items() if e.available_at <= now
        ]
        claimed = []
        for _, _, alert_id in sorted(ready)[:limit]:
            self._seq += 1
            entry = self.entries[alert_id]
            entry.token, entry.available_at = f"t{self._seq}", now + LEASE_S
            claimed.append(
                Delivery(
                    alert_id=alert_id,
                    token=entry.token,
                    published_at=START + timedelta(seconds=now),
                )
            )
        return claimed

    def _held(self, delivery: Delivery) -> bool:
        entry = self.entries.get(delivery.alert_id)
        return entry is not None and entry.token == delivery.token

    def _now(self) -> float:
        return self._clock.monotonic()


def _now() -> float:
    return asyncio.get_running_loop().time()
