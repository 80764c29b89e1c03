"""What happened besides alerts: what senders told, and what people did with dead letters."""

from __future__ import annotations

from sqlalchemy import bindparam, insert

from triage.adapters.store.schema import EVENTS
from triage.adapters.store.transaction import Transaction

_NEW = insert(EVENTS).values(
    {
        name: bindparam(name)
        for name in ("event", "integration", "tenant", "fingerprint", "alert_id", "at", "raw")
    }
)


def record_event(
    transaction: Transaction,
    event: str,
    *,
    integration: str,
    tenant: str,
    fingerprint: str,
    alert_id: str | None,
    at: int,
    raw: bytes,
) -> None:
    transaction.run(
        _NEW,
        event=event,
        integration=integration,
        tenant=tenant,
        fingerprint=fingerprint,
        alert_id=alert_id,
        at=at,
        raw=raw,
    )
