"""When a pending alert is published again: `alerts.wake_at`, read through the index of just those.

Accepting, beginning and holding an alert move it forward; a decision ends it by taking the row out
of the index. Nothing here need survive a power cut: what is forgotten is published once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Integer, bindparam, case, literal_column, or_, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from triage.adapters.store.schema import ALERTS
from triage.adapters.store.transaction import Transaction
from triage.model.alert import AlertId, Severity

PUT_OFF_LIMIT_US = 300_000_000  # 300 s: a queue that lost its memory unseen costs no more than that

# Written out: an index of some rows serves no statement whose condition comes with its values.
IS_PENDING = ALERTS.c.status == literal_column("'pending'")


class _Likely(FunctionElement[Any]):
    """A condition that SQLite, which knows nothing of the numbers of rows, is to take for one that
    most of them meet: it would read the index of all pending alerts rather than the part of it
    that is due, and sort."""

    type = Integer()  # a Boolean would be compared with 1, which no index serves
    inherit_cache = True


@compiles(_Likely)
def _plain(element: _Likely, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})"


@compiles(_Likely, "sqlite")
def _for_sqlite(element: _Likely, compiler: Any, **options: Any) -> str:
    return f"likely({compiler.process(element.clauses, **options)})"


_NOW = bindparam("now", type_=BigInteger)
_waited = _NOW - ALERTS.c.accepted_at
_least, _most = (bindparam(name, type_=BigInteger) for name in ("least", "most"))
_HOLD = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"), IS_PENDING)
    .values(wake_at=bindparam("until"))
)
# By `wake_at` alone: sorting by priority first would read every alert that is due for each page of
# them, and the queue sorts by priority anyhow.
_DUE = (
    select(ALERTS.c.alert_id)
    .where(_Likely(IS_PENDING), ALERTS.c.wake_at <= _NOW)
    .order_by(ALERTS.c.wake_at)
    .limit(bindparam("at_most"))
    .with_for_update(skip_locked=True)
    .cte("due")
)
_CLAIM = (
    update(ALERTS)
    .where(ALERTS.c.alert_id.in_(select(_DUE.c.alert_id)))
    .values(
        wake_at=_NOW
        + case(
            (_waited < _least, _least),
            (_waited > _most, _most),
            else_=_waited,
        )
    )
    .returning(ALERTS.c.priority, ALERTS.c.accepted_at, ALERTS.c.alert_id, ALERTS.c.severity)
)
_NOBODYS = (
    select(ALERTS.c.alert_id)
    .where(
        _Likely(IS_PENDING),
        ALERTS.c.wake_at > _NOW,
        or_(
            ALERTS.c.attempts == 0,
            ALERTS.c.wake_at <= bindparam("not_begun", type_=BigInteger),
            ALERTS.c.wake_at > bindparam("put_off", type_=BigInteger),
        ),
    )
    # Every replica sees that the queue was emptied, and each would wait for the others.
    .with_for_update(skip_locked=True)
    .cte("nobodys")
)
_WAKE = (
    update(ALERTS)
    .where(ALERTS.c.alert_id.in_(select(_NOBODYS.c.alert_id)))
    # The most severe first, by a microsecond.
    .values(wake_at=_NOW - bindparam("lowest", type_=BigInteger) + ALERTS.c.priority)
)
_LOWEST = max(severity.priority for severity in Severity)


def hold(transaction: Transaction, alert_ids: Sequence[AlertId], *, until: int) -> None:
    # In one order, so that two replicas do not wait for each other.
    held = [{"wanted": alert_id, "until": until} for alert_id in sorted(alert_ids)]
    transaction.run_each(_HOLD, held)


def claim_due(
    transaction: Transaction, *, now: int, sweep_us: int, limit: int
) -> list[tuple[AlertId, Severity]]:
    """Up to `limit` alerts that are due, the longest overdue; among them the most severe first,
    then the oldest. Each is put off by as long as it has waited, at least `sweep_us`."""
    most = max(sweep_us, PUT_OFF_LIMIT_US)
    claimed = transaction.rows(_CLAIM, now=now, at_most=limit, least=sweep_us, most=most)
    return [(AlertId(alert_id), Severity(severity)) for *_, alert_id, severity in sorted(claimed)]


def wake_all(transaction: Transaction, *, now: int, sweep_us: int, lease_us: int) -> None:
    """Make due what nobody holds.

    An attempt that was begun or held within its lease has put `wake_at` between one `sweep_us`
    and one lease more from now. So that much is left alone, unless it was never begun: it is due
    no later than the alerts of a replica that dies now.
    """
    transaction.run(
        _WAKE, now=now, not_begun=now + sweep_us, put_off=now + sweep_us + lease_us, lowest=_LOWEST
    )
