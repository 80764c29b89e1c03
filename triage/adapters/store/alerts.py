"""Accepted alerts: the record that makes a 2xx true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import bindparam, insert, select, update

from triage.adapters.store.arrivals import Acceptance
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import ALERTS, DEAD_LETTERS, from_us, storable, to_us
from triage.adapters.store.sweep import IS_PENDING, claim_due, hold, wake_all
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import StoreQueue
from triage.adapters.store.writer import Simple, Writer
from triage.model.alert import Accepted, AcceptStatus, Alert, AlertId, Arrival, Severity
from triage.ports import AlertStatus, Clock, StoredAlert

DETAIL_LIMIT = 10_000  # characters of a dead letter's detail that are kept

_LOADED = (
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
    ALERTS.c.coalesced_into,
    ALERTS.c.status,
    ALERTS.c.attempts,
)
_LOAD = select(*_LOADED).where(ALERTS.c.alert_id == bindparam("wanted"))
_ATTEMPT = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), IS_PENDING)
    .values(attempts=ALERTS.c.attempts + 1, wake_at=bindparam("until"))
    .returning(*_LOADED)
)
_NO_ATTEMPT = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), IS_PENDING, ALERTS.c.attempts > 0)
    .values(attempts=ALERTS.c.attempts - 1)
)
_DEAD = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), IS_PENDING)
    .values(status=AlertStatus.DEAD_LETTERED.value)
    .returning(ALERTS.c.attempts)
)
_DEAD_LETTER = insert(DEAD_LETTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAlertLog:
    """See `triage.ports.AlertLog` and `AlertView`.

    `retry_after_s` is what an overloaded sender is told. A pending alert that nobody holds is
    published again after `sweep_s`, one that was begun or held after `lease_s` more.
    """

    writer: Writer
    readers: Readers
    queue: StoreQueue
    clock: Clock
    max_pending: int
    retry_after_s: int
    enqueues: bool
    lease_s: float
    sweep_s: float
    coalesce_s: float

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        """Raises PayloadError too, for text that has no UTF-8 form or a NUL in it."""
        if not arrivals:
            return []
        operation = Acceptance(
            arrivals=arrivals,
            clock=self.clock,
            max_pending=self.max_pending,
            retry_after_s=self.retry_after_s,
            enqueues=self.enqueues,
            sweep_s=self.sweep_s,
            coalesce_s=self.coalesce_s,
        )
        return await self.writer.run(operation, durable=True, then=self._announce)

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        """The count alone may be lost to a power cut: it waits for no fsync."""

        until = self._held_until()

        def begin(transaction: Transaction) -> StoredAlert | None:
            begun = transaction.row(_ATTEMPT, wanted=alert_id, until=until)
            return _load(transaction, alert_id) if begun is None else _stored(begun, counted=1)

        return await self.writer.run(Simple(begin), durable=False)

    async def release_attempt(self, alert_id: AlertId) -> None:
        await self.writer.run(
            Simple(lambda transaction: transaction.run(_NO_ATTEMPT, wanted=alert_id)),
            durable=False,
        )

    async def stored(self, alert_id: AlertId) -> StoredAlert | None:
        return await self.readers.run(lambda transaction: _load(transaction, alert_id))

    async def dead_letter(self, alert_id: AlertId, reason: str, detail: str) -> bool:
        now = to_us(self.clock.now())
        why = storable(detail, DETAIL_LIMIT)

        def bury(transaction: Transaction) -> bool:
            ended = transaction.row(_DEAD, wanted=alert_id)
            if ended is None:
                return False
            transaction.run(
                _DEAD_LETTER,
                dead_letter_id=alert_id,
                alert_id=alert_id,
                stream="",
                format="",
                payload=b"",
                headers="{}",
                reason=reason,
                detail=why,
                attempts=ended[0],
                at=now,
            )
            transaction.count("pending", -1)
            transaction.count("dead_lettered", 1)
            return True

        return await self.writer.run(Simple(bury), durable=True)

    async def hold(self, alert_ids: Sequence[AlertId]) -> None:
        until = self._held_until()
        if alert_ids:
            await self.writer.run(
                Simple(lambda transaction: hold(transaction, alert_ids, until=until)),
                durable=False,
            )

    async def to_wake(self, *, limit: int) -> list[tuple[AlertId, Severity]]:
        """The longest overdue, and of these the most severe first."""
        now = to_us(self.clock.now())
        sweep_us = round(self.sweep_s * 1e6)

        def claim(transaction: Transaction) -> list[tuple[AlertId, Severity]]:
            return claim_due(transaction, now=now, sweep_us=sweep_us, limit=limit)

        return await self.writer.run(Simple(claim), durable=False)

    async def wake_all(self) -> None:
        """What is being worked on may be held: it is due within `lease_s` and `sweep_s`, as it
        was. All others are, the most severe first."""
        now = to_us(self.clock.now())
        sweep_us, lease_us = (round(seconds * 1e6) for seconds in (self.sweep_s, self.lease_s))

        def wake(transaction: Transaction) -> None:
            wake_all(transaction, now=now, sweep_us=sweep_us, lease_us=lease_us)

        await self.writer.run(Simple(wake), durable=False)

    def _held_until(self) -> int:
        return to_us(self.clock.now()) + round((self.lease_s + self.sweep_s) * 1e6)

    def _announce(self, accepted: list[Accepted], _wanted: bool) -> None:
        # On the loop after the commit even when the request was cancelled: the work is real.
        if self.enqueues:
            new = [a.alert_id for a in accepted if a.status is AcceptStatus.NEW and a.alert_id]
            if new:
                self.queue.enqueued(new)


def _load(transaction: Transaction, alert_id: AlertId) -> StoredAlert | None:
    row = transaction.row(_LOAD, wanted=alert_id)
    return None if row is None else _stored(row, counted=0)


def _stored(row: Sequence[Any], *, counted: int) -> StoredAlert:
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
        coalesced_into=None if row[14] is None else AlertId(row[14]),
    )
    return StoredAlert(alert=alert, status=AlertStatus(row[15]), attempts=row[16] - counted)
