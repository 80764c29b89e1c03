"""The embedded queue: rows beside the alerts, claimed by lease.

Kept in the alerts' own database so that an accepted alert and its queue row are one transaction.
Claims and acks need not survive a power cut (the store is the record and a sweeper publishes
again), so they never wait for an fsync. Where several processes share the database, each takes
rows that no other one is taking, and looks more often: what another process publishes wakes nobody
here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sqlalchemy import bindparam, delete, func, literal, select, update

from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import ALERTS, QUEUE, from_us, insert_new, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple, Writer
from triage.model.alert import PRIORITY_NAMES, AlertId, Severity
from triage.ports import AlertStatus, Clock, Delivery, served_first

POLL_S = 1.0  # how late a row is seen that no publish of this process announced
SHARED_POLL_S = 0.25  # the same where other processes publish too
_REMEMBERED = 20_000  # ids that `accept` enqueued and `publish` has not named yet

_ENQUEUE = insert_new(QUEUE).values(
    {name: bindparam(name) for name in ("alert_id", "priority", "published_at", "available_at")}
    | {"token": None}
)
_IS_PENDING = select(literal(1)).where(
    ALERTS.c.alert_id == bindparam("wanted"), ALERTS.c.status == AlertStatus.PENDING.value
)
_RECEIVABLE = (
    select(QUEUE.c.seq, QUEUE.c.alert_id, QUEUE.c.published_at)
    .where(QUEUE.c.available_at <= bindparam("now"))
    .order_by(QUEUE.c.priority, QUEUE.c.seq)
    .limit(bindparam("at_most"))
    .with_for_update(skip_locked=True)
)
# No index has the least severe first and the oldest of them first.
_RECEIVABLE_OF_PRIORITY = _RECEIVABLE.where(QUEUE.c.priority == bindparam("its_priority"))
_DEPTH = select(QUEUE.c.priority, func.count()).group_by(QUEUE.c.priority)
_CLAIM = (
    update(QUEUE)
    .where(QUEUE.c.seq == bindparam("its_seq"))
    .values(token=bindparam("its_token"), available_at=bindparam("until"))
)
_HELD = (QUEUE.c.alert_id == bindparam("wanted"), QUEUE.c.token == bindparam("its_token"))
_ACK = delete(QUEUE).where(*_HELD)
_RETURN = update(QUEUE).where(*_HELD).values(token=None, available_at=bindparam("until"))
_FREE = (
    update(QUEUE)
    .where(QUEUE.c.token.is_not(None))
    .values(token=None, available_at=bindparam("now"))
)
_EXTEND = (
    update(QUEUE)
    .where(*_HELD, QUEUE.c.available_at > bindparam("now"))
    .values(available_at=bindparam("until"))
)


def enqueue(transaction: Transaction, alert_id: AlertId, priority: int, now: int) -> bool:
    """False when it is queued already."""
    added = transaction.run(
        _ENQUEUE, alert_id=alert_id, priority=priority, published_at=now, available_at=now
    )
    return added > 0


@dataclass(slots=True)
class StoreQueue:
    """See `triage.ports.Queue`. A lease lasts `lease_s` from its claim or its last extension."""

    writer: Writer
    readers: Readers
    clock: Clock
    lease_s: float
    _tokens: count[int] = field(default_factory=count)
    _claimant: str = field(default_factory=lambda: secrets.token_hex(8))
    _turns: count[int] = field(default_factory=count)
    _published: int = 0
    _waiting: set[asyncio.Future[None]] = field(default_factory=set)
    _enqueued: OrderedDict[AlertId, None] = field(default_factory=OrderedDict)

    @property
    def label(self) -> str:
        return self.writer.database.label

    @property
    def trouble(self) -> str:
        return self.writer.trouble

    async def weaknesses(self) -> list[str]:
        """Raises StoreError."""
        return await self.readers.run(self.writer.database.weaknesses)

    def forgot(self) -> bool:
        """Never: its memory is that of the record."""
        return False

    async def depth(self) -> Mapping[str, int]:
        def load(transaction: Transaction) -> Mapping[str, int]:
            found = dict(transaction.rows(_DEPTH))
            return {name: found.get(place, 0) for place, name in enumerate(PRIORITY_NAMES)}

        return await self.readers.run(load)

    async def close(self) -> None:
        """The store is closed by whoever opened it."""

    async def publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        """Alerts that are not pending are left out: publishing may come after the decision."""
        missing = [(key, severity) for key, severity in alerts if not self._take_enqueued(key)]
        if not missing:
            return
        now = to_us(self.clock.now())

        def add(transaction: Transaction) -> None:
            # In order: two processes that publish the same must not wait for each other.
            for alert_id, severity in sorted(missing):
                if transaction.row(_IS_PENDING, wanted=alert_id) is not None:
                    enqueue(transaction, alert_id, severity.priority, now)

        await self.writer.run(Simple(add), durable=False, then=lambda _result, _wanted: self.wake())

    async def receive(self, *, limit: int, wait_s: float) -> list[Delivery]:
        """Cancellation safe: what was claimed for a cancelled call is given back."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + wait_s
        poll_s = SHARED_POLL_S if self.writer.database.shared else POLL_S
        order = served_first(next(self._turns))
        while True:
            seen = self._published
            claimed = await self.writer.run(
                Simple(lambda transaction: self._claim(transaction, limit, order)),
                durable=False,
                then=self._give_back_unwanted,
            )
            left = ends - loop.time()
            if claimed or left <= 0:
                return claimed
            # Something published while the claim was under way may have come after it.
            if self._published == seen:
                await self._published_within(min(left, poll_s))

    async def settle(
        self,
        *,
        acked: Sequence[Delivery] = (),
        returned: Sequence[Delivery] = (),
        delay_s: float = 0,
    ) -> None:
        if not acked and not returned:
            return
        until = to_us(self.clock.now()) + round(delay_s * 1e6)

        def change(transaction: Transaction) -> None:
            transaction.run_each(_ACK, _held(acked))
            transaction.run_each(_RETURN, _held(returned, until=until))

        def tell(_result: None, _wanted: bool) -> None:
            if returned and delay_s <= 0:
                self.wake()

        await self.writer.run(Simple(change), durable=False, then=tell)

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        now = to_us(self.clock.now())
        until = now + round(self.lease_s * 1e6)

        def renew(transaction: Transaction) -> list[Delivery]:
            return [
                delivery
                for delivery in _in_order(deliveries)
                if transaction.run(
                    _EXTEND,
                    wanted=delivery.alert_id,
                    its_token=delivery.token,
                    now=now,
                    until=until,
                )
            ]

        return await self.writer.run(Simple(renew), durable=False) if deliveries else []

    async def free_claims(self) -> None:
        """End every lease. For whoever holds the file alone: the claims are those of a process
        that is gone, and its alerts must not wait for leases that nobody renews."""
        now = to_us(self.clock.now())
        await self.writer.run(
            Simple(lambda transaction: transaction.run(_FREE, now=now)), durable=False
        )

    def enqueued(self, alert_ids: Iterable[AlertId]) -> None:
        """`accept` wrote these rows itself: wake receivers, and make `publish` of them free."""
        for alert_id in alert_ids:
            self._enqueued[alert_id] = None
        while len(self._enqueued) > _REMEMBERED:
            self._enqueued.popitem(last=False)
        self.wake()

    def wake(self) -> None:
        """Let every waiting `receive` look again."""
        self._published += 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _take_enqueued(self, alert_id: AlertId) -> bool:
        if alert_id not in self._enqueued:
            return False
        del self._enqueued[alert_id]
        return True

    async def _published_within(self, wait_s: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait((waiting,), timeout=wait_s)
        finally:
            self._waiting.discard(waiting)

    def _claim(self, transaction: Transaction, limit: int, order: Sequence[int]) -> list[Delivery]:
        now = to_us(self.clock.now())
        until = now + round(self.lease_s * 1e6)
        found = _receivable(transaction, now, limit, order)
        tokens = [f"{self._claimant}-{next(self._tokens)}" for _ in found]
        transaction.run_each(
            _CLAIM,
            [
                {"its_seq": row[0], "its_token": token, "until": until}
                for row, token in zip(found, tokens, strict=True)
            ],
        )
        return [
            Delivery(alert_id=AlertId(row[1]), token=token, published_at=from_us(row[2]))
            for row, token in zip(found, tokens, strict=True)
        ]

    def _give_back_unwanted(self, claimed: list[Delivery], wanted: bool) -> None:
        if wanted or not claimed:
            return
        now = to_us(self.clock.now())

        def give_back(transaction: Transaction) -> None:
            transaction.run_each(_RETURN, _held(claimed, until=now))

        self.writer.send(Simple(give_back), then=lambda _result, _wanted: self.wake())


def _receivable(
    transaction: Transaction, now: int, limit: int, order: Sequence[int]
) -> Sequence[tuple[int, str, int]]:
    found: list[Any] = []
    if list(order) == sorted(order):
        return [*transaction.rows(_RECEIVABLE, now=now, at_most=limit)]
    for priority in order:
        if len(found) < limit:
            found += transaction.rows(
                _RECEIVABLE_OF_PRIORITY,
                now=now,
                at_most=limit - len(found),
                its_priority=priority,
            )
    return found


def _in_order(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """The order in which all processes lock rows."""
    return sorted(deliveries, key=lambda delivery: delivery.alert_id)


def _held(deliveries: Iterable[Delivery], **values: Any) -> list[dict[str, Any]]:
    return [
        {"wanted": delivery.alert_id, "its_token": delivery.token, **values}
        for delivery in _in_order(deliveries)
    ]
