"""One step of retention each, of what shadows and watchers left. As in `purging`."""

from __future__ import annotations

from sqlalchemy import BigInteger, bindparam, delete, exists, select

from triage.adapters.store.purging import ROWS_STEP
from triage.adapters.store.schema import (
    SHADOW_COMPARISONS,
    SHADOW_TALLIES,
    WATCH_FINDINGS,
    WATCH_STATES,
)
from triage.adapters.store.transaction import Transaction

_BEFORE = bindparam("before", type_=BigInteger)
_AT_MOST = bindparam("at_most", type_=BigInteger)

_OLD_COMPARISONS = (
    select(SHADOW_COMPARISONS.c.pair_id, SHADOW_COMPARISONS.c.alert_id)
    .where(SHADOW_COMPARISONS.c.at < _BEFORE)
    .order_by(SHADOW_COMPARISONS.c.at)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_COMPARISON = delete(SHADOW_COMPARISONS).where(
    SHADOW_COMPARISONS.c.pair_id == bindparam("its_pair"),
    SHADOW_COMPARISONS.c.alert_id == bindparam("its_alert"),
)
_newer = SHADOW_TALLIES.alias("newer")
_DELETE_TALLIES = delete(SHADOW_TALLIES).where(
    SHADOW_TALLIES.c.last_at < _BEFORE,
    # A result that has become rare is still a part of what is said of its pair.
    ~exists().where(_newer.c.pair_id == SHADOW_TALLIES.c.pair_id, _newer.c.last_at >= _BEFORE),
)
_OLD_FINDINGS = (
    select(WATCH_FINDINGS.c.finding_id)
    .where(WATCH_FINDINGS.c.closed_at < _BEFORE)
    .order_by(WATCH_FINDINGS.c.closed_at)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_FINDING = delete(WATCH_FINDINGS).where(WATCH_FINDINGS.c.finding_id == bindparam("wanted"))
_DELETE_STATES = delete(WATCH_STATES).where(WATCH_STATES.c.saved_at < _BEFORE)


def purge_comparisons(transaction: Transaction, before: int) -> int:
    found = transaction.rows(_OLD_COMPARISONS, before=before, at_most=ROWS_STEP)
    return transaction.run_each(
        _DELETE_COMPARISON, [{"its_pair": pair, "its_alert": alert} for pair, alert in found]
    )


def purge_findings(transaction: Transaction, before: int) -> int:
    """Those that were closed before then."""
    found = transaction.rows(_OLD_FINDINGS, before=before, at_most=ROWS_STEP)
    return transaction.run_each(_DELETE_FINDING, [{"wanted": its_id} for (its_id,) in found])


def purge_left_over(transaction: Transaction, before: int) -> None:
    """Counts of pairs that were not compared since, and what watchers that are gone had learned:
    a few rows a node."""
    transaction.run(_DELETE_TALLIES, before=before)
    transaction.run(_DELETE_STATES, before=before)
