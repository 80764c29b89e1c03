"""What was given up: kept with its payload until a person tries it again or takes it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import BigInteger, Select, Text, bindparam, select, tuple_

from triage.adapters.store.alerts import DETAIL_LIMIT
from triage.adapters.store.arrivals import Acceptance
from triage.adapters.store.cursor import decode_cursor, encode_cursor
from triage.adapters.store.readers import Readers
from triage.adapters.store.redrive import Discard, Redrive
from triage.adapters.store.schema import (
    ALERTS,
    DEAD_LETTERS,
    from_us,
    insert_new,
    storable,
    to_us,
)
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.work import StoreQueue
from triage.adapters.store.writer import Simple, Writer
from triage.model.alert import Accepted, Arrival
from triage.ports import Clock, DeadLetter, DeadLetterPage

PAGE_LIMIT = 200  # each with its payload
_WORD_LIMIT = 200  # characters of a stream's name, a format's and a reason
_NO_LIMIT = 2**63 - 1
_FIRST_PAGE = (2**63 - 1, "")

_BURY = insert_new(DEAD_LETTERS)
_LETTERS: Select[Any] = select(
    DEAD_LETTERS.c.dead_letter_id,
    DEAD_LETTERS.c.alert_id,
    ALERTS.c.alarm,
    ALERTS.c.site,
    ALERTS.c.severity,
    ALERTS.c.raw,
    DEAD_LETTERS.c.stream,
    DEAD_LETTERS.c.format,
    DEAD_LETTERS.c.payload,
    DEAD_LETTERS.c.headers,
    DEAD_LETTERS.c.reason,
    DEAD_LETTERS.c.detail,
    DEAD_LETTERS.c.attempts,
    DEAD_LETTERS.c.at,
).join_from(DEAD_LETTERS, ALERTS, ALERTS.c.alert_id == DEAD_LETTERS.c.alert_id, isouter=True)
_ONE = _LETTERS.where(DEAD_LETTERS.c.dead_letter_id == bindparam("wanted"))
_PAGE = (
    _LETTERS.where(
        tuple_(DEAD_LETTERS.c.at, DEAD_LETTERS.c.dead_letter_id)
        < tuple_(bindparam("from_at", type_=BigInteger), bindparam("from_id", type_=Text))
    )
    .order_by(DEAD_LETTERS.c.at.desc(), DEAD_LETTERS.c.dead_letter_id.desc())
    .limit(bindparam("at_most"))
)
_PAGE_OF_REASON = _PAGE.where(DEAD_LETTERS.c.reason == bindparam("its_reason"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDeadLetterLog:
    """See `triage.ports.DeadLetterLog`. Who dealt with one, when and why, is a row of `events`."""

    writer: Writer
    readers: Readers
    queue: StoreQueue
    clock: Clock
    enqueues: bool

    async def bury(self, message: DeadLetter) -> bool:
        row = {
            "dead_letter_id": message.dead_letter_id,
            "alert_id": None,
            "stream": storable(message.stream, _WORD_LIMIT),
            "format": storable(message.format, _WORD_LIMIT),
            "payload": message.payload,
            "headers": _headers(message),
            "reason": storable(message.reason, _WORD_LIMIT),
            "detail": storable(message.detail, DETAIL_LIMIT),
            "attempts": message.attempts,
            "at": to_us(message.at),
        }

        def bury(transaction: Transaction) -> bool:
            if transaction.run(_BURY, **row) <= 0:
                return False
            transaction.count("accepted", 1)
            transaction.count("dead_lettered", 1)
            return True

        return await self.writer.run(Simple(bury), durable=True)

    async def dead_letter_page(self, *, reason: str, cursor: str, limit: int) -> DeadLetterPage:
        """At most PAGE_LIMIT at once."""
        limit = max(1, min(limit, PAGE_LIMIT))

        def load(transaction: Transaction) -> DeadLetterPage:
            from_at, from_id = decode_cursor(transaction, cursor) if cursor else _FIRST_PAGE
            found = transaction.rows(
                _PAGE_OF_REASON if reason else _PAGE,
                **({"its_reason": storable(reason, _WORD_LIMIT)} if reason else {}),
                from_at=from_at,
                from_id=from_id,
                at_most=limit + 1,
            )
            shown = [_letter(row) for row in found[:limit]]
            if len(found) <= limit:
                return DeadLetterPage(dead_letters=tuple(shown), cursor="")
            last = shown[-1]
            return DeadLetterPage(
                dead_letters=tuple(shown),
                cursor=encode_cursor(transaction, to_us(last.at), last.dead_letter_id),
            )

        return await self.readers.run(load)

    async def dead_letter(self, dead_letter_id: str) -> DeadLetter | None:
        def load(transaction: Transaction) -> DeadLetter | None:
            found = transaction.row(_ONE, wanted=dead_letter_id)
            return None if found is None else _letter(found)

        return await self.readers.run(load)

    async def redrive(
        self, dead_letter_id: str, *, by: str, at: datetime, arrivals: Sequence[Arrival] = ()
    ) -> Sequence[Accepted] | None:
        """No storm coalesces what a person tries again, and no backlog is in its way. Of two who
        redrive or discard one at once, the second finds none. Raises PayloadError for a message
        without `arrivals`, and as `AlertLog.accept` does."""
        operation = Redrive(
            dead_letter_id=storable(dead_letter_id, _WORD_LIMIT),
            by=by,
            at=to_us(at),
            arrivals=Acceptance(
                arrivals=arrivals,
                clock=self.clock,
                max_pending=_NO_LIMIT,
                retry_after_s=0,
                enqueues=self.enqueues,
                sweep_s=0,
                coalesce_s=0,
            ),
            clock=self.clock,
            enqueues=self.enqueues,
        )
        return await self.writer.run(operation, durable=True, then=self._announce)

    async def discard(self, dead_letter_id: str, *, by: str, note: str, at: datetime) -> bool:
        """A message counts as purged as well: nothing is left of it but the event."""
        operation = Discard(
            dead_letter_id=storable(dead_letter_id, _WORD_LIMIT), by=by, note=note, at=to_us(at)
        )
        return await self.writer.run(operation, durable=True)

    def _announce(self, accepted: list[Accepted] | None, _wanted: bool) -> None:
        if self.enqueues and accepted:
            self.queue.enqueued([one.alert_id for one in accepted if one.alert_id])


def _headers(message: DeadLetter) -> str:
    # A broker's header may be any bytes, decoded as well as it goes.
    clean = {
        storable(name, DETAIL_LIMIT): storable(value, DETAIL_LIMIT)
        for name, value in message.headers.items()
    }
    return orjson.dumps(clean).decode()


def _letter(row: Sequence[Any]) -> DeadLetter:
    alert_id, raw = row[1], row[5]
    return DeadLetter(
        dead_letter_id=row[0],
        alert_id=alert_id or "",
        alarm=row[2] or "",
        site=row[3] or "",
        severity=row[4] or "",
        stream=row[6],
        format=row[7],
        payload=row[8] if alert_id is None or raw is None else raw,
        headers=orjson.loads(row[9]),
        reason=row[10],
        detail=row[11],
        attempts=row[12],
        at=from_us(row[13]),
    )
