"""Messages to sinks, written with the decision and sent until each is taken or given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, update

from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import OUTBOX, from_us, insert_new, storable, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple, Writer
from triage.model.alert import AlertId
from triage.ports import Message, OutboxRow

_PENDING = "pending"
_DELIVERED = "delivered"
_GIVEN_UP = "given_up"
_ERROR_LIMIT = 2_000  # characters of a sink's error that are kept
CLAIMED_S = 20  # a send takes 5 s by default; what a killed process claimed waits so long

_NEW = insert_new(OUTBOX).values(
    {
        name: bindparam(name)
        for name in (
            "sink",
            "key",
            "alert_id",
            "body",
            "attempts",
            "posted_at",
            "due_at",
            "state",
            "error",
        )
    }
)
_DUE = (
    select(
        OUTBOX.c.row,
        OUTBOX.c.alert_id,
        OUTBOX.c.key,
        OUTBOX.c.body,
        OUTBOX.c.attempts,
        OUTBOX.c.posted_at,
    )
    .where(
        OUTBOX.c.sink == bindparam("wanted"),
        OUTBOX.c.state == _PENDING,
        OUTBOX.c.due_at <= bindparam("now"),
    )
    .order_by(OUTBOX.c.due_at, OUTBOX.c.row)
    .limit(bindparam("at_most"))
)
_FREE = _DUE.with_for_update(skip_locked=True)
_ONE_PENDING = (OUTBOX.c.row == bindparam("its_row"), OUTBOX.c.state == _PENDING)
# The body is the decision's document once more and not compressed: kept, the delivered rows would
# be two thirds of the store. The row stays, it is what makes a key unique.
_DELIVER = (
    update(OUTBOX)
    .where(*_ONE_PENDING)
    .values(state=_DELIVERED, attempts=OUTBOX.c.attempts + 1, error="", body=b"")
)
_GIVE_UP = (
    update(OUTBOX)
    .where(*_ONE_PENDING)
    .values(state=_GIVEN_UP, attempts=OUTBOX.c.attempts + 1, error=bindparam("why"))
)
_POSTPONE = (
    update(OUTBOX)
    .where(*_ONE_PENDING)
    .values(due_at=bindparam("until"), attempts=OUTBOX.c.attempts + 1, error=bindparam("why"))
)
_CLAIM = (
    update(OUTBOX).where(OUTBOX.c.row == bindparam("its_row")).values(due_at=bindparam("until"))
)


def post(
    transaction: Transaction, alert_id: AlertId, messages: Sequence[Message], now: int
) -> None:
    """Rows of a decision; a key that its sink has already is left as it is."""
    for message in messages:
        added = transaction.run(
            _NEW,
            sink=message.sink,
            key=message.key,
            alert_id=alert_id,
            body=message.body,
            attempts=0,
            posted_at=now,
            due_at=now,
            state=_PENDING,
            error="",
        )
        transaction.count("outbox_pending", max(added, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutbox:
    """See `triage.ports.Outbox`. Only giving up waits for an fsync: a forgotten delivery or
    delay means sending again, which receivers must bear anyhow."""

    writer: Writer
    readers: Readers

    async def due(self, sink: str, *, now: datetime, limit: int) -> list[OutboxRow]:
        moment = to_us(now)

        def load(transaction: Transaction) -> list[OutboxRow]:
            return _rows(transaction.rows(_DUE, wanted=sink, now=moment, at_most=limit))

        def claim(transaction: Transaction) -> list[OutboxRow]:
            rows = _rows(transaction.rows(_FREE, wanted=sink, now=moment, at_most=limit))
            until = moment + CLAIMED_S * 1_000_000
            transaction.run_each(_CLAIM, [{"its_row": row.row, "until": until} for row in rows])
            return rows

        found = await self.readers.run(load)
        if not found or not self.writer.database.shared:
            return found
        return await self.writer.run(Simple(claim), durable=False)

    async def delivered(self, rows: Sequence[int]) -> None:
        def end(transaction: Transaction) -> None:
            ended = transaction.run_each(_DELIVER, [{"its_row": row} for row in sorted(rows)])
            transaction.count("outbox_pending", -ended)

        if rows:
            await self.writer.run(Simple(end), durable=False)

    async def postpone(self, row: int, *, until: datetime, error: str) -> None:
        moment, why = to_us(until), storable(error, _ERROR_LIMIT)

        def delay(transaction: Transaction) -> None:
            transaction.run(_POSTPONE, its_row=row, until=moment, why=why)

        await self.writer.run(Simple(delay), durable=False)

    async def give_up(self, row: int, *, error: str) -> None:
        why = storable(error, _ERROR_LIMIT)

        def end(transaction: Transaction) -> None:
            ended = transaction.run(_GIVE_UP, its_row=row, why=why)
            transaction.count("outbox_pending", -ended)
            transaction.count("outbox_given_up", ended)

        await self.writer.run(Simple(end), durable=True)


def _rows(found: Sequence[tuple[Any, ...]]) -> list[OutboxRow]:
    return [
        OutboxRow(
            row=row,
            alert_id=alert_id,
            key=key,
            body=body,
            attempts=attempts,
            posted_at=from_us(posted_at),
        )
        for row, alert_id, key, body, attempts, posted_at in found
    ]
