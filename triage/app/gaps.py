"""Gaps as people and scripts read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triage.model.gap import Gap, gap_document
from triage.ports import GapGroup

_OF_THE_GROUP = ("gap_id", "node", "reason", "tool_version", "tool_sha256")


def group_document(group: GapGroup, cases: Sequence[Gap] | None = None) -> dict[str, Any]:
    """`cases` are added when they are given, newest first."""
    return {
        "gap_id": group.gap_id,
        "node": group.node,
        "reason": group.reason,
        "tool_version": group.tool_version,
        "tool_sha256": group.tool_sha256,
        "count": group.count,
        "first_at": group.first_at.isoformat(),
        "last_at": group.last_at.isoformat(),
        "closed_at": group.closed_at.isoformat() if group.closed_at else None,
        "closed_by": group.closed_by,
        "note": group.note,
        "latest": case_document(group.latest),
        **({} if cases is None else {"cases": [case_document(case) for case in cases]}),
    }


def case_document(gap: Gap) -> dict[str, Any]:
    """What one case has of its own."""
    document = gap_document(gap)
    return {name: value for name, value in document.items() if name not in _OF_THE_GROUP}


def not_open(gap_id: str, group: GapGroup | None) -> str:
    """Why there was nothing to close, in one line."""
    if group is None:
        return f"no gap {gap_id!r} was ever recorded"
    if group.closed_at is None:
        return (
            f"gap {gap_id} was closed and has come back meanwhile: look at it, and close it again"
        )
    return f"gap {gap_id} is closed already: by {group.closed_by}, at {group.closed_at.isoformat()}"
