"""Accepted alerts: the record that makes a 2xx true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from sqlalchemy import bindparam, exists, insert, select, update

from triage.adapters.store.arrivals import Acceptance
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import ALERTS, DEAD_LETTERS, QUEUE, from_us, storable, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import SqliteQueue
from triage.adapters.store.writer import Simple, Writer
from triage.model.alert import Accepted, AcceptStatus, Alert, AlertId, Arrival, Severity
from triage.ports import AlertStatus, Clock, StoredAlert

_DETAIL_LIMIT = 10_000  # characters of a dead letter's detail that are kept

_ATTEMPT = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), ALERTS.c.status == AlertStatus.PENDING.value)
    .values(attempts=ALERTS.c.attempts + 1)
)
_LOAD = select(
    ALERTS.c.alert_id,
    ALERTS.c.integration,
    ALERTS.c.tenant,
    ALERTS.c.fingerprint,
    ALERTS.c.alarm,
    ALERTS.c.site,
    ALERTS.c.entity,
    ALERTS.c.severity,
    ALERTS.c.fired_at,
    ALERTS.c.accepted_at,
    ALERTS.c.labels,
    ALERTS.c.annotations,
    ALERTS.c.resolved_at,
    ALERTS.c.unmatched_resolve,
    ALERTS.c.status,
    ALERTS.c.attempts,
).where(ALERTS.c.alert_id == bindparam("wanted"))
_DEAD = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), ALERTS.c.status == AlertStatus.PENDING.value)
    .values(status=AlertStatus.DEAD_LETTERED.value)
)
_DEAD_LETTER = insert(DEAD_LETTERS)
_UNHELD = (
    select(ALERTS.c.alert_id, ALERTS.c.severity)
    .where(
        ALERTS.c.status == AlertStatus.PENDING.value,
        ALERTS.c.accepted_at < bindparam("before"),
        ~exists().where(QUEUE.c.alert_id == ALERTS.c.alert_id),
    )
    .order_by(ALERTS.c.accepted_at)
    .limit(bindparam("at_most"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteAlertLog:
    """See `triage.ports.AlertLog` and `AlertView`. `retry_after_s` is what an overloaded sender is
    told."""

    writer: Writer
    readers: Readers
    queue: SqliteQueue
    clock: Clock
    max_pending: int
    retry_after_s: int
    enqueues: bool

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        """Raises PayloadError too, for text that has no UTF-8 form."""
        if not arrivals:
            return []
        operation = Acceptance(
            arrivals=arrivals,
            clock=self.clock,
            max_pending=self.max_pending,
            retry_after_s=self.retry_after_s,
            enqueues=self.enqueues,
        )
        return await self.writer.run(operation, durable=True, then=self._announce)

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        """The count alone may be lost to a power cut: it waits for no fsync."""

        def begin(transaction: Transaction) -> StoredAlert | None:
            counted = transaction.run(_ATTEMPT, wanted=alert_id)
            return _load(transaction, alert_id, counted)

        return await self.writer.run(Simple(begin), durable=False)

    async def stored(self, alert_id: AlertId) -> StoredAlert | None:
        return await self.readers.run(lambda transaction: _load(transaction, alert_id, 0))

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        now = to_us(self.clock.now())
        why = storable(detail, _DETAIL_LIMIT)

        def bury(transaction: Transaction) -> bool:
            if not transaction.run(_DEAD, wanted=alert_id):
                return False
            transaction.run(_DEAD_LETTER, alert_id=alert_id, reason=reason, detail=why, at=now)
            transaction.count("pending", -1)
            transaction.count("dead_lettered", 1)
            return True

        return await self.writer.run(Simple(bury), durable=True)

    async def unheld(self, *, older_than: datetime, limit: int) -> list[tuple[AlertId, Severity]]:
        before = to_us(older_than)

        def find(transaction: Transaction) -> list[tuple[AlertId, Severity]]:
            found = transaction.rows(_UNHELD, before=before, at_most=limit)
            return [(AlertId(alert_id), Severity(severity)) for alert_id, severity in found]

        return await self.readers.run(find)

    def _announce(self, accepted: list[Accepted], _wanted: bool) -> None:
        # On the loop after the commit even when the request was cancelled: the work is real.
        if self.enqueues:
            new = [a.alert_id for a in accepted if a.status is AcceptStatus.NEW and a.alert_id]
            if new:
                self.queue.enqueued(new)


def _load(transaction: Transaction, alert_id: AlertId, counted: int) -> StoredAlert | None:
    row = transaction.row(_LOAD, wanted=alert_id)
    if row is None:
        return None
    alert = Alert(
        alert_id=AlertId(row[0]),
        integration=row[1],
        tenant=row[2],
        fingerprint=row[3],
        alarm=row[4],
        site=row[5],
        entity=row[6],
        severity=Severity(row[7]),
        fired_at=from_us(row[8]),
        accepted_at=from_us(row[9]),
        labels=orjson.loads(row[10]),
        annotations=orjson.loads(row[11]),
        resolved_at=None if row[12] is None else from_us(row[12]),
        unmatched_resolve=bool(row[13]),
    )
    return StoredAlert(alert=alert, status=AlertStatus(row[14]), attempts=row[15] - counted)
