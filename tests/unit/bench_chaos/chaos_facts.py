"""Facts of a run in which all went well, to be spoilt by a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.chaos.checks import KEY_SUFFIX, Facts
from bench.chaos.facts import AlertRow, DecisionRow, StoreRows
from bench.chaos.journal import Promise
from bench.chaos.receiver import Manner, Receipt

IDS = tuple(f"{n:032x}" for n in range(4))
AT = 1_000.0


def alert(alert_id: str, status: str = "decided", entity: str = "", **more: Any) -> AlertRow:
    values: dict[str, Any] = {"priority": 2, "accepted_at": AT, "attempts": 1, **more}
    return AlertRow(alert_id=alert_id, entity=entity or alert_id, status=status, **values)


def decision(alert_id: str, sha256: str = "", **more: Any) -> DecisionRow:
    values: dict[str, Any] = {"outcome": "actions", "degraded": False, "decided_at": AT + 1, **more}
    return DecisionRow(alert_id=alert_id, sha256=sha256 or f"sha of {alert_id}", **values)


def receipt(alert_id: str, sha256: str = "", **more: Any) -> Receipt:
    values: dict[str, Any] = {
        "at": AT + 2,
        "key": alert_id + KEY_SUFFIX,
        "alert_id": alert_id,
        "manner": Manner.TAKEN,
        "signed": True,
        **more,
    }
    return Receipt(sha256=sha256 or f"sha of {alert_id}", **values)


def promise(*ids: str, **more: Any) -> Promise:
    values: dict[str, Any] = {
        "at": AT,
        "left_at": AT - 0.1,
        "message": 0,
        "kind": "firing",
        "replica": 0,
        "status": 202,
        "expected": ids,
        **more,
    }
    return Promise(ids=ids, **values)


def facts(
    *,
    ids: Sequence[str] = IDS,
    alerts: Sequence[AlertRow] | None = None,
    decisions: Sequence[DecisionRow] | None = None,
    receipts: Sequence[Receipt] | None = None,
    promises: Sequence[Promise] | None = None,
    ledger: Mapping[str, Any] | None = None,
    **more: Any,
) -> Facts:
    """All good but for what is given."""
    rows = [alert(one) for one in ids] if alerts is None else list(alerts)
    statuses = Counter(row.status for row in rows)
    return Facts(
        promises=[promise(one) for one in ids] if promises is None else promises,
        sent=set(ids),
        rows=StoreRows(
            alerts={row.alert_id: row for row in rows},
            decisions=[decision(one) for one in ids] if decisions is None else decisions,
        ),
        receipts=[receipt(one) for one in ids] if receipts is None else receipts,
        ledger={
            "accepted": len(rows),
            "decided": statuses["decided"],
            "pending": statuses["pending"],
            "dead_lettered": statuses["dead_lettered"],
            "balances": True,
            "unaccounted": [],
            "outbox_pending": 0,
            "outbox_given_up": 0,
            **(ledger or {}),
        },
        **more,
    )
