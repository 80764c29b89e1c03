"""Pairs and comparisons for the tests of shadows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.contract.store_world import START
from triage.model.alert import AlertId
from triage.model.decision import NodeId
from triage.ports import Compared, Comparison, Pair

CLAUSE = {
    "name": "depth",
    "observed": 9.5,
    "op": ">",
    "threshold": 8.0,
    "unit": "percent",
    "holds": True,
}


def pair(node: str = "rc_logs", *, shadow: int = 2, active: int = 1) -> Pair:
    return Pair(
        node=NodeId(node),
        shadow_version=shadow,
        shadow_sha256=f"{shadow}" * 64,
        active_version=active,
        active_sha256=f"{active}" * 64,
    )


def verdict(value: str = "true", **more: Any) -> dict[str, Any]:
    return {
        "value": value,
        "subject": "größer\x00",
        "explanation": "the depth is 9.5",
        "clauses": [CLAUSE],
        "answers": ["d1", "d2"],
        **more,
    }


def comparison(
    alert_id: str = "a1",
    result: Compared = Compared.DIFFERS,
    *,
    of: Pair | None = None,
    at: datetime = START,
    other_clauses: bool = False,
) -> Comparison:
    failed = result in (Compared.FAILED, Compared.UNRECORDED)
    return Comparison(
        pair=of or pair(),
        result=result,
        alert_id=AlertId(alert_id),
        at=at,
        site="north",
        active=verdict(),
        shadow={"failure": "tool_raised", "detail": "line 3: ValueError", "answers": []}
        if failed
        else verdict("false"),
        evidence=("d1", "d2"),
        other_clauses=other_clauses,
    )
