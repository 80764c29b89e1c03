"""The ledger as people and scripts read it."""

from __future__ import annotations

from typing import Any

from triage.ports import Ledger


def ledger_document(ledger: Ledger) -> dict[str, Any]:
    return {
        "accepted": ledger.accepted,
        "decided": ledger.decided,
        "pending": ledger.pending,
        "dead_lettered": ledger.dead_lettered,
        "discarded": ledger.discarded,
        "balances": ledger.balances,
        "oldest_pending_at": (
            ledger.oldest_pending_at.isoformat() if ledger.oldest_pending_at else None
        ),
        "outbox_pending": ledger.outbox_pending,
        "outbox_given_up": ledger.outbox_given_up,
        "unaccounted": list(ledger.unaccounted),
    }
