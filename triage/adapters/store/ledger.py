"""Does everything that was accepted still exist, once?"""

from __future__ import annotations

from collections.abc import Mapping
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
from triage.model.alert import PRIORITY_NAMES
from triage.ports import AlertStatus, Backlog, Ledger

_NAMED_LIMIT = 1000  # ids of unaccounted alerts that one answer names
_PATIENCE_S = 600.0  # of a full count: ten million alerts take some minutes

_COUNTERS = select(COUNTERS.c.name, func.sum(COUNTERS.c.value)).group_by(COUNTERS.c.name)
_BACKLOG = (
    select(ALERTS.c.priority, func.count(), func.min(ALERTS.c.accepted_at))
    .where(ALERTS.c.status == AlertStatus.PENDING.value)
    .group_by(ALERTS.c.priority)
)
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
_of_an_alert = DEAD_LETTERS.c.alert_id.is_not(None)
_DEAD_LETTERS = select(func.count()).select_from(DEAD_LETTERS).where(_of_an_alert)
_DEAD_MESSAGES = (
    select(func.count()).select_from(DEAD_LETTERS).where(DEAD_LETTERS.c.alert_id.is_(None))
)
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
        _of_an_alert,
        ~exists().where(
            ALERTS.c.alert_id == DEAD_LETTERS.c.alert_id,
            ALERTS.c.status == AlertStatus.DEAD_LETTERED.value,
        ),
    )
    .limit(bindparam("at_most"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLedgerView:
    """See `triage.ports.LedgerView`."""

    readers: Readers

    async def ledger(self, *, full: bool = False) -> Ledger:
        """With `full`, `accepted` and `purged` stay the counters (a row that vanished must show),
        the rest is counted, purged ones added, and `unaccounted` also names counters that differ
        from their rows."""
        if full:
            return await self.readers.run(_count, patience_s=_PATIENCE_S)
        return await self.readers.run(_read)


def _read(transaction: Transaction) -> Ledger:
    return _ledger(transaction, _kept(transaction), ())


def _count(transaction: Transaction) -> Ledger:
    kept = _kept(transaction)
    by_status = dict.fromkeys(AlertStatus, 0)
    for status, count in transaction.rows(_BY_STATUS):
        by_status[AlertStatus(status)] = count
    outbox = dict(transaction.rows(_OUTBOX_BY_STATE))
    counted = {
        **_with_purged(kept, by_status),
        "pending": by_status[AlertStatus.PENDING],
        "dead_lettered": by_status[AlertStatus.DEAD_LETTERED]
        + _number(transaction.row(_DEAD_MESSAGES)),
        "outbox_pending": outbox.get("pending", 0),
        "outbox_given_up": outbox.get("given_up", 0),
    }
    # Each name once, in the order found.
    astray = dict.fromkeys(row[0] for row in transaction.rows(_ORPHANS, at_most=_NAMED_LIMIT))
    if astray or not _matches(transaction, by_status):
        for statement in (_ASTRAY, _DEAD_UNAWARES):
            astray |= dict.fromkeys(
                row[0] for row in transaction.rows(statement, at_most=_NAMED_LIMIT)
            )
        astray = astray or {"an alert has several dead letters": None}
    differing = [
        f"counter {name} says {kept.get(name)}, rows say {value}"
        for name, value in counted.items()
        if kept.get(name) != value
    ]
    return _ledger(transaction, {**kept, **counted}, (*astray, *differing))


def _kept(transaction: Transaction) -> dict[str, int]:
    # PostgreSQL's sum of big integers is a decimal.
    return {name: int(value) for name, value in transaction.rows(_COUNTERS)}


def _with_purged(kept: Mapping[str, int], by_status: Mapping[AlertStatus, int]) -> dict[str, int]:
    """Decided and discarded with their shares of what is purged, of which there is one count: what
    the rows of the discarded lack was theirs."""
    decided, discarded = by_status[AlertStatus.DECIDED], by_status[AlertStatus.DISCARDED]
    purged = kept["purged"]
    share = min(max(0, kept["discarded"] - discarded), purged)
    return {"decided": decided + purged - share, "discarded": discarded + share}


def _matches(transaction: Transaction, by_status: Mapping[AlertStatus, int]) -> bool:
    """Whether decided alerts and decisions are the same ones, and dead letters likewise; no
    decision being an orphan.

    Then each decision has an alert, and a decided one unless it is among those found here; with as
    many of one as of the other none is left over. It reads the keys, not the rows: of a million
    alerts naming what differs takes ten times as long.
    """
    return (
        transaction.row(_DECIDED_UNAWARES) is None
        and transaction.row(_DEAD_UNAWARES, at_most=1) is None
        and _number(transaction.row(_DECISIONS)) == by_status[AlertStatus.DECIDED]
        and _number(transaction.row(_DEAD_LETTERS)) == by_status[AlertStatus.DEAD_LETTERED]
    )


def _number(row: tuple[int, ...] | None) -> int:
    assert row is not None, "a count is a row"
    return row[0]


def _ledger(
    transaction: Transaction, counts: Mapping[str, int], unaccounted: tuple[str, ...]
) -> Ledger:
    backlog = {
        PRIORITY_NAMES[priority]: Backlog(pending=pending, oldest_at=from_us(oldest))
        for priority, pending, oldest in transaction.rows(_BACKLOG)
    }
    return Ledger(
        accepted=counts["accepted"],
        decided=counts["decided"],
        pending=counts["pending"],
        dead_lettered=counts["dead_lettered"],
        discarded=counts["discarded"],
        purged=counts["purged"],
        backlog=backlog,
        oldest_pending_at=min((part.oldest_at for part in backlog.values()), default=None),
        outbox_pending=counts["outbox_pending"],
        outbox_given_up=counts["outbox_given_up"],
        unaccounted=unaccounted,
    )
