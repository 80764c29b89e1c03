"""Does everything that was accepted still exist, once?"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, exists, func, or_, select

from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import (
    ALERTS,
    COUNTERS,
    DEAD_LETTERS,
    DECISIONS,
    OUTBOX,
    from_us,
)
from triage.adapters.store.transaction import Transaction
from triage.ports import AlertStatus, Ledger

_NAMED_LIMIT = 1000  # ids of unaccounted alerts that one answer names

_COUNTERS = select(COUNTERS.c.name, COUNTERS.c.value)
_OLDEST = select(func.min(ALERTS.c.accepted_at)).where(ALERTS.c.status == AlertStatus.PENDING.value)
_BY_STATUS = select(ALERTS.c.status, func.count()).group_by(ALERTS.c.status)
_OUTBOX_BY_STATE = select(OUTBOX.c.state, func.count()).group_by(OUTBOX.c.state)
_has_decision = exists().where(DECISIONS.c.alert_id == ALERTS.c.alert_id)
_has_dead_letter = exists().where(DEAD_LETTERS.c.alert_id == ALERTS.c.alert_id)
_ASTRAY = (
    select(ALERTS.c.alert_id)
    .where(
        (_has_decision != (ALERTS.c.status == AlertStatus.DECIDED.value))
        | (_has_dead_letter != (ALERTS.c.status == AlertStatus.DEAD_LETTERED.value))
    )
    .limit(bindparam("at_most"))
)
_ORPHANS = (
    select(DECISIONS.c.alert_id)
    .where(~exists().where(ALERTS.c.alert_id == DECISIONS.c.alert_id))
    # In the order of both keys: each look-up finds the page that the last one has read.
    .order_by(DECISIONS.c.alert_id)
    .limit(bindparam("at_most"))
)
_DECISIONS = select(func.count()).select_from(DECISIONS)
_DEAD_LETTERS = select(func.count()).select_from(DEAD_LETTERS)
_is_not_decided = or_(
    *(
        ALERTS.c.status == status.value
        for status in AlertStatus
        if status is not AlertStatus.DECIDED
    )
)
_DECIDED_UNAWARES = select(ALERTS.c.alert_id).where(_is_not_decided, _has_decision).limit(1)
_DEAD_UNAWARES = (
    select(DEAD_LETTERS.c.alert_id)
    .where(
        ~exists().where(
            ALERTS.c.alert_id == DEAD_LETTERS.c.alert_id,
            ALERTS.c.status == AlertStatus.DEAD_LETTERED.value,
        )
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteLedgerView:
    """See `triage.ports.LedgerView`."""

    readers: Readers

    async def ledger(self, *, full: bool = False) -> Ledger:
        """With `full`, `accepted` stays the counter (a row that vanished must show), the rest is
        counted, and `unaccounted` also names counters that differ from their rows."""
        return await self.readers.run(_count if full else _read)


def _read(transaction: Transaction) -> Ledger:
    return _ledger(transaction, dict(transaction.rows(_COUNTERS)), ())


def _count(transaction: Transaction) -> Ledger:
    kept = dict(transaction.rows(_COUNTERS))
    counted = {status.value: 0 for status in AlertStatus}
    counted |= dict(transaction.rows(_BY_STATUS))
    outbox = dict(transaction.rows(_OUTBOX_BY_STATE))
    counted["outbox_pending"] = outbox.get("pending", 0)
    counted["outbox_given_up"] = outbox.get("given_up", 0)
    astray = [row[0] for row in transaction.rows(_ORPHANS, at_most=_NAMED_LIMIT)]
    if astray or not _matches(transaction, counted):
        astray += [row[0] for row in transaction.rows(_ASTRAY, at_most=_NAMED_LIMIT)]
    astray += [
        f"counter {name} says {kept.get(name)}, rows say {value}"
        for name, value in counted.items()
        if kept.get(name) != value
    ]
    return _ledger(transaction, {**kept, **counted}, tuple(astray))


def _matches(transaction: Transaction, counted: dict[str, int]) -> bool:
    """Whether decided alerts and decisions are the same ones, and dead letters likewise; no
    decision being an orphan.

    Then each decision has an alert, and a decided one unless it is among those found here; with as
    many of one as of the other none is left over. It reads the keys, not the rows: of a million
    alerts naming what differs takes ten times as long.
    """
    return (
        transaction.row(_DECIDED_UNAWARES) is None
        and transaction.row(_DEAD_UNAWARES) is None
        and transaction.row(_DECISIONS) == (counted[AlertStatus.DECIDED.value],)
        and transaction.row(_DEAD_LETTERS) == (counted[AlertStatus.DEAD_LETTERED.value],)
    )


def _ledger(
    transaction: Transaction, counts: dict[str, int], unaccounted: tuple[str, ...]
) -> Ledger:
    oldest = transaction.row(_OLDEST)
    return Ledger(
        accepted=counts["accepted"],
        decided=counts["decided"],
        pending=counts["pending"],
        dead_lettered=counts["dead_lettered"],
        discarded=counts["discarded"],
        oldest_pending_at=None if oldest is None or oldest[0] is None else from_us(oldest[0]),
        outbox_pending=counts["outbox_pending"],
        outbox_given_up=counts["outbox_given_up"],
        unaccounted=unaccounted,
    )
