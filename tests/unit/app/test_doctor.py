"""What the doctor makes of documents: findings, gaps and shadows, in the order of the SOP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.library.building import node, sop
from triage.app.doctor import ENOUGH, Complaint, in_order, record_complaints
from triage.app.findings import NEXT, finding_document, finding_page, next_step
from triage.errors import PayloadError
from triage.library.overview import ToolRow
from triage.model.decision import NodeId, NodeKind
from triage.ports import WatchFinding, WatchKind
from triage.watching.findings import finding

AT = datetime(2026, 6, 1, tzinfo=UTC)


def found(subject: str, kind: WatchKind = WatchKind.NULLS) -> WatchFinding:
    return finding(kind, NodeId("obs_a"), subject, "ab" * 32, "60 % nulls", at=AT)


def gap(name: str, count: int, first_at: str = "2026-06-01T00:00:00+00:00") -> dict[str, Any]:
    return {
        "node": "obs_a",
        "gap_id": f"id-{name}",
        "reason": name,
        "count": count,
        "first_at": first_at,
    }


def tally(low: float, *, shadow: int = 2, active: int = 1) -> dict[str, Any]:
    return {
        "node": "obs_a",
        "shadow_version": shadow,
        "active_version": active,
        "agree": 990,
        "compared": 1000,
        "interval": [low, 1.0],
        "first_at": "2026-06-01T00:00:00+00:00",
    }


def row(shadow: int | None = 2) -> ToolRow:
    return ToolRow(
        node=NodeId("obs_a"), kind=NodeKind.OBSERVATION, status="active", active=1, shadow=shadow
    )


def test_a_finding_is_told_with_its_subject_time_and_next_step() -> None:
    [one] = record_complaints([finding_document(found("metrics m: value"))], [], [], [])
    assert (one.node, one.kind, one.about) == ("obs_a", "nulls", "metrics m: value")
    assert one.since == AT.isoformat()
    assert one.next


@pytest.mark.parametrize("kind", WatchKind)
def test_every_kind_has_a_next_step(kind: WatchKind) -> None:
    assert kind in NEXT
    assert "NODE" not in next_step(kind, "obs_a")


def test_gaps_of_a_node_are_one_complaint() -> None:
    gaps = [gap("tool_raised", 3), gap("query_rejected", 9, "2026-05-01T00:00:00+00:00")]
    [one] = record_complaints([], gaps, [], [])
    assert "2 open gaps with 12 cases" in one.what
    assert "query_rejected" in one.what
    assert "id-query_rejected" in one.next
    assert one.since.startswith("2026-05-01")


@pytest.mark.parametrize(
    ("document", "rows", "ready"),
    [
        (tally(ENOUGH), [row()], True),
        (tally(ENOUGH - 0.001), [row()], False),
        (tally(ENOUGH, shadow=3), [row()], False),
        (tally(ENOUGH, active=7), [row()], False),
        (tally(ENOUGH), [row(shadow=None)], False),
        (tally(ENOUGH), [], False),
    ],
)
def test_a_shadow_is_ready_when_it_agrees_and_is_there_still(
    document: dict[str, Any], rows: list[ToolRow], ready: bool
) -> None:
    kinds = [one.kind for one in record_complaints([], [], [document], rows)]
    assert kinds == (["shadow_ready"] if ready else [])


def test_complaints_come_in_the_order_of_the_sop() -> None:
    procedure = sop(node("obs_b", {"true": ["obs_a"]}), node("obs_a"))
    told = [
        Complaint("elsewhere", "k", "", ""),
        Complaint("obs_a", "k", "", ""),
        Complaint("obs_b", "z", "", ""),
        Complaint("obs_b", "a", "", ""),
    ]
    assert [(one.node, one.kind) for one in in_order(told, procedure)] == [
        ("obs_b", "a"),
        ("obs_b", "z"),
        ("obs_a", "k"),
        ("elsewhere", "k"),
    ]


def test_a_page_ends_where_the_list_does() -> None:
    every = [found(str(number)) for number in range(4)]
    first, cursor = finding_page(every, kind="", cursor="", limit=2)
    rest, end = finding_page(every, kind="", cursor=cursor, limit=2)
    assert ([*first, *rest], end) == (every, "")
    assert finding_page(every, kind="gaps", cursor="", limit=2) == ([], "")
    with pytest.raises(PayloadError):
        finding_page(every, kind="", cursor="gone", limit=2)
