"""One step of retention each: some hundred rows, through an index from the oldest of them.

Replicas may purge at once: each takes rows that no other has locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Text,
    bindparam,
    delete,
    exists,
    literal_column,
    select,
    tuple_,
)

from triage.adapters.store.arrivals import fingerprint_lock
from triage.adapters.store.schema import (
    ALERTS,
    DECISIONS,
    DELIVERIES,
    EPISODES,
    EVENTS,
    GAP_CASES,
    GAPS,
    OUTBOX,
)
from triage.adapters.store.transaction import Transaction
from triage.ports import AlertStatus

ALERTS_STEP = 100  # with decision and messages some hundred rows: 6 ms on SQLite
ROWS_STEP = 500  # small rows

_BEFORE = bindparam("before", type_=BigInteger)
_AT_MOST = bindparam("at_most", type_=BigInteger)
_AFTER = tuple_(bindparam("after_at", type_=BigInteger), bindparam("after_id", type_=Text))
_is_owed = exists().where(OUTBOX.c.alert_id == ALERTS.c.alert_id, OUTBOX.c.state == "pending")

_DECIDED = (
    select(
        DECISIONS.c.decided_at,
        ALERTS.c.alert_id,
        ALERTS.c.accepted_at,
        ALERTS.c.seen_at,
        _is_owed.label("is_owed"),
        # Not a condition: SQLite would begin with all that are decided.
        ALERTS.c.status,
    )
    .join_from(DECISIONS, ALERTS, ALERTS.c.alert_id == DECISIONS.c.alert_id)
    .where(
        tuple_(DECISIONS.c.decided_at, DECISIONS.c.alert_id) > _AFTER,
        DECISIONS.c.decided_at < _BEFORE,
    )
    .order_by(DECISIONS.c.decided_at, DECISIONS.c.alert_id)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DISCARDED = (
    select(
        ALERTS.c.accepted_at,
        ALERTS.c.alert_id,
        ALERTS.c.accepted_at.label("its_accepted_at"),
        ALERTS.c.seen_at,
        literal_column("0").label("is_owed"),
        ALERTS.c.status,
    )
    .where(
        ALERTS.c.status == AlertStatus.DISCARDED.value,
        tuple_(ALERTS.c.accepted_at, ALERTS.c.alert_id) > _AFTER,
        ALERTS.c.accepted_at < _BEFORE,
    )
    .order_by(ALERTS.c.accepted_at, ALERTS.c.alert_id)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_ALERT = delete(ALERTS).where(ALERTS.c.alert_id == bindparam("wanted"))
_DELETE_DECISION = delete(DECISIONS).where(DECISIONS.c.alert_id == bindparam("wanted"))
_DELETE_GIVEN_UP = delete(OUTBOX).where(
    OUTBOX.c.alert_id == bindparam("wanted"), OUTBOX.c.state == "given_up"
)
_DELETE_DELIVERED = delete(OUTBOX).where(
    OUTBOX.c.alert_id == bindparam("wanted"), OUTBOX.c.state != "pending"
)


_OLD_EVENTS = (
    select(EVENTS.c.id)
    .where(EVENTS.c.at < _BEFORE)
    .order_by(EVENTS.c.at)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_EVENT = delete(EVENTS).where(EVENTS.c.id == bindparam("its_id"))
_DELIVERY_KEY = (DELIVERIES.c.integration, DELIVERIES.c.tenant, DELIVERIES.c.delivery_key)
_OLD_DELIVERIES = (
    select(*_DELIVERY_KEY)
    .where(DELIVERIES.c.at < _BEFORE)
    .order_by(DELIVERIES.c.at)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_DELIVERY = delete(DELIVERIES).where(
    *(column == bindparam(column.name) for column in _DELIVERY_KEY)
)
_WITH_OLD_CASES = (
    select(GAPS.c.gap_id)
    .where(exists().where(GAP_CASES.c.gap_id == GAPS.c.gap_id, GAP_CASES.c.at < _BEFORE))
    .order_by(GAPS.c.gap_id)
)
_OLD_CASES = (
    select(GAP_CASES.c.gap_id, GAP_CASES.c.alert_id)
    .where(GAP_CASES.c.gap_id == bindparam("wanted"), GAP_CASES.c.at < _BEFORE)
    .order_by(GAP_CASES.c.at)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_CASE = delete(GAP_CASES).where(
    GAP_CASES.c.gap_id == bindparam("its_gap"), GAP_CASES.c.alert_id == bindparam("its_alert")
)
_is_without_case = ~exists().where(GAP_CASES.c.gap_id == GAPS.c.gap_id)
_OLD_GAPS = (
    select(GAPS.c.gap_id)
    .where(GAPS.c.closed_at < _BEFORE, _is_without_case)
    .limit(_AT_MOST)
    .with_for_update(skip_locked=True)
)
_DELETE_GAP = delete(GAPS).where(GAPS.c.gap_id == bindparam("wanted"), _is_without_case)

_EPISODE_KEY = (EPISODES.c.integration, EPISODES.c.tenant, EPISODES.c.fingerprint)
_has_alerts = exists().where(
    ALERTS.c.integration == EPISODES.c.integration,
    ALERTS.c.tenant == EPISODES.c.tenant,
    ALERTS.c.fingerprint == EPISODES.c.fingerprint,
)
_EPISODES = (
    select(
        *_EPISODE_KEY,
        EPISODES.c.open,
        EPISODES.c.resolved_at,
        _has_alerts.label("has_alerts"),
    )
    .where(
        tuple_(*_EPISODE_KEY)
        > tuple_(*(bindparam(f"after_{column.name}", type_=Text) for column in _EPISODE_KEY))
    )
    .order_by(*_EPISODE_KEY)
    .limit(_AT_MOST)
)
_DELETE_EPISODE = delete(EPISODES).where(
    *(column == bindparam(column.name) for column in _EPISODE_KEY),
    EPISODES.c.open == 0,
    EPISODES.c.resolved_at < _BEFORE,
    ~_has_alerts,
)

EpisodeKey = tuple[str, str, str]
BEFORE_ALL_EPISODES: EpisodeKey = ("", "", "")


class Step(NamedTuple):
    """`removed` alerts; `last` is the place of the last one that was looked at, None when there
    was none."""

    removed: int
    last: tuple[int, str] | None


BEFORE_ALL = (-(2**63), "")
_ENDED = (AlertStatus.DECIDED.value, AlertStatus.DISCARDED.value)


def purge_decided(
    transaction: Transaction, *, after: tuple[int, str], before: int, silent_since: int
) -> Step:
    """Alerts decided before `before`, beginning after the place `after`, with their decisions and
    messages. Kept are those that owe a sink something, and those that a sender repeated at
    `silent_since` or later: he speaks of them still."""
    found = transaction.rows(
        _DECIDED, after_at=after[0], after_id=after[1], before=before, at_most=ALERTS_STEP
    )
    return _remove(transaction, found, silent_since)


def purge_discarded(
    transaction: Transaction, *, after: tuple[int, str], before: int, silent_since: int
) -> Step:
    """As `purge_decided`, of alerts accepted before `before` and discarded since."""
    found = transaction.rows(
        _DISCARDED, after_at=after[0], after_id=after[1], before=before, at_most=ALERTS_STEP
    )
    return _remove(transaction, found, silent_since)


def purge_events(transaction: Transaction, before: int) -> int:
    found = transaction.rows(_OLD_EVENTS, before=before, at_most=ROWS_STEP)
    return transaction.run_each(_DELETE_EVENT, [{"its_id": number} for (number,) in found])


def purge_deliveries(transaction: Transaction, before: int) -> int:
    found = transaction.rows(_OLD_DELIVERIES, before=before, at_most=ROWS_STEP)
    return transaction.run_each(
        _DELETE_DELIVERY,
        [{"integration": key[0], "tenant": key[1], "delivery_key": key[2]} for key in found],
    )


def with_old_cases(transaction: Transaction, before: int) -> list[str]:
    """Ids of gaps."""
    return [gap_id for (gap_id,) in transaction.rows(_WITH_OLD_CASES, before=before)]


def purge_cases(transaction: Transaction, gap_id: str, before: int) -> int:
    found = transaction.rows(_OLD_CASES, wanted=gap_id, before=before, at_most=ALERTS_STEP)
    return transaction.run_each(
        _DELETE_CASE, [{"its_gap": its_gap, "its_alert": alert} for its_gap, alert in found]
    )


def purge_gaps(transaction: Transaction, before: int) -> int:
    """Closed before then, and without a case."""
    found = transaction.rows(_OLD_GAPS, before=before, at_most=ROWS_STEP)
    # Looked at again when nobody else can add a case any more.
    return transaction.run_each(_DELETE_GAP, [{"wanted": gap_id} for (gap_id,) in found])


def ended_episodes(
    transaction: Transaction, after: EpisodeKey, before: int
) -> tuple[list[EpisodeKey], EpisodeKey | None]:
    """Of the next fingerprints after `after`: those whose last episode ended before `before` and
    that have no alert; and the last one looked at, None when there was none."""
    found = transaction.rows(
        _EPISODES,
        after_integration=after[0],
        after_tenant=after[1],
        after_fingerprint=after[2],
        at_most=ROWS_STEP,
    )
    ended = [
        (integration, tenant, fingerprint)
        for integration, tenant, fingerprint, is_open, resolved_at, has_alerts in found
        if not is_open and not has_alerts and resolved_at is not None and resolved_at < before
    ]
    return ended, (found[-1][0], found[-1][1], found[-1][2]) if found else None


def purge_episodes(transaction: Transaction, keys: Sequence[EpisodeKey], before: int) -> int:
    # A trigger that comes now must find either this episode or none.
    transaction.lock(*sorted(fingerprint_lock(*key) for key in keys))
    return transaction.run_each(
        _DELETE_EPISODE,
        [
            {"integration": key[0], "tenant": key[1], "fingerprint": key[2], "before": before}
            for key in keys
        ],
    )


def _remove(
    transaction: Transaction,
    found: Sequence[tuple[int, str, int, int, bool, str]],
    silent_since: int,
) -> Step:
    going = [
        {"wanted": alert_id}
        for _, alert_id, accepted_at, seen_at, is_owed, status in found
        if status in _ENDED and not is_owed and (seen_at <= accepted_at or seen_at < silent_since)
    ]
    given_up = transaction.run_each(_DELETE_GIVEN_UP, going)
    transaction.count("outbox_given_up", -given_up)
    transaction.run_each(_DELETE_DELIVERED, going)
    transaction.run_each(_DELETE_DECISION, going)
    removed = transaction.run_each(_DELETE_ALERT, going)
    transaction.count("purged", removed)
    return Step(removed, (found[-1][0], found[-1][1]) if found else None)
