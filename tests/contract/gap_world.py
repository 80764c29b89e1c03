"""Gaps for the tests of stores."""

from __future__ import annotations

from datetime import datetime

from tests.contract.store_world import START
from triage.model.alert import AlertId
from triage.model.decision import NodeId
from triage.model.gap import Gap, gap_id


def gap(
    alert_id: AlertId,
    node: str = "rc_logs",
    *,
    reason: str = "tool_raised",
    tool_version: int = 3,
    tool_sha256: str = "ab" * 32,
    at: datetime = START,
    missing: str = "ValueError: größer\n\x00",
) -> Gap:
    return Gap(
        gap_id=gap_id(node, reason, tool_sha256),
        node=NodeId(node),
        reason=reason,
        tool_version=tool_version,
        tool_sha256=tool_sha256,
        alert_id=alert_id,
        at=at,
        needed=f"Is {node} so?",
        missing=missing,
        alternatives=("fallback: none is configured",),
        impact="the node failed and the decision escalates",
        evidence=("d1", "d2"),
    )
