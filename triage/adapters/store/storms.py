"""Storms: re-fires of one fingerprint within a window are decided with the first of them."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, exists, func, or_, select

from triage.adapters.store.schema import ALERTS, DECISIONS
from triage.adapters.store.transaction import Transaction
from triage.model.alert import AlertId
from triage.model.decision import Outcome
from triage.ports import AlertStatus

# Walked, or still to be: a first that is decided `resolved` was looked at by nobody, and neither
# was one that was given up. What fires again after it must be.
_is_looked_at = or_(
    and_(ALERTS.c.status == AlertStatus.PENDING.value, ALERTS.c.resolved_at.is_(None)),
    exists().where(
        DECISIONS.c.alert_id == ALERTS.c.alert_id, DECISIONS.c.outcome != Outcome.RESOLVED.value
    ),
)
_FIRST = (
    select(ALERTS.c.alert_id)
    .where(
        ALERTS.c.integration == bindparam("integration"),
        ALERTS.c.tenant == bindparam("tenant"),
        ALERTS.c.fingerprint == bindparam("fingerprint"),
        ALERTS.c.accepted_at >= bindparam("since"),
        ALERTS.c.coalesced_into.is_(None),
        _is_looked_at,
    )
    .order_by(ALERTS.c.accepted_at.desc())
    .limit(1)
)
_COALESCED = (
    select(func.count()).select_from(ALERTS).where(ALERTS.c.coalesced_into == bindparam("wanted"))
)


def first_of_storm(
    transaction: Transaction, integration: str, tenant: str, fingerprint: str, *, since: int
) -> AlertId | None:
    """The alert of this key, accepted at `since` or later, that one which fires now repeats.

    It is no repeat itself, so the window begins with the first of a storm and does not move.
    """
    found = transaction.row(
        _FIRST, integration=integration, tenant=tenant, fingerprint=fingerprint, since=since
    )
    return None if found is None else AlertId(found[0])


def coalesced_count(transaction: Transaction, alert_id: AlertId) -> int:
    """How many stored alerts repeat this one."""
    found = transaction.row(_COALESCED, wanted=alert_id)
    assert found is not None
    return int(found[0])
