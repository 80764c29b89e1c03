"""The ledger as people and scripts read it."""

from __future__ import annotations

from typing import Any

from triage.model.alert import PRIORITY_NAMES
from triage.ports import Ledger


def ledger_document(ledger: Ledger) -> dict[str, Any]:
    """`purged` of the decided and discarded are no longer stored. `backlog` is what is pending by
    priority, the most severe first; one of which there is none is left out."""
    return {
        "accepted": ledger.accepted,
        "decided": ledger.decided,
        "pending": ledger.pending,
        "dead_lettered": ledger.dead_lettered,
        "discarded": ledger.discarded,
        "purged": ledger.purged,
        "balances": ledger.balances,
        "oldest_pending_at": (
            ledger.oldest_pending_at.isoformat() if ledger.oldest_pending_at else None
        ),
        "backlog": {
            name: {"pending": one.pending, "oldest_at": one.oldest_at.isoformat()}
            for name in PRIORITY_NAMES
            if (one := ledger.backlog.get(name)) is not None
        },
        "outbox_pending": ledger.outbox_pending,
        "outbox_given_up": ledger.outbox_given_up,
        "unaccounted": list(ledger.unaccounted),
    }
