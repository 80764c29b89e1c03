"""Walks of golden cases, how they differ from what is expected, and what they cover."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.app.golden_world import WHOLE, one, shop, shop_sites, walked
from triage.app.golden_case import Case, WalkOnly
from triage.app.golden_coverage import coverage, percent
from triage.app.golden_run import CaseResult, GoldenRunner, Status
from triage.model.decision import Edge, NodeId
from triage.sop.procedure import WORDS

TEXT = WHOLE.decode()


async def test_a_walk_that_is_as_expected() -> None:
    result = await walked(WHOLE)
    assert (result.status, result.differences) == (Status.PASSED, ())


async def _told(body: str) -> list[tuple[str, str, str]]:
    result = await walked(body)
    assert result.status is Status.FAILED
    return [(one.part, one.expected, one.got) for one in result.differences]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("outcome: actions", "outcome: no_fault", ("outcome", "no_fault", "actions")),
        ("degraded: false", "degraded: true", ("degraded", "true", "false")),
        ("degraded: false", "reason: unrouted", ("reason", "unrouted", "nothing")),
        ("{obs_deep: true, ", "{obs_deep: false, ", ("verdicts", "false", "true")),
        ("{obs_deep: true, ", "{obs_slow: true, ", ("verdicts", "true", "not_reached")),
        ("{obs_deep: true, ", "{obs_deep: not_reached, ", ("verdicts", "not_reached", "true")),
        (
            "cause_worker: {verdict: true, subject: line-1}}",
            "cause_worker: {verdict: true, subject: x}}",
            ("verdicts", "true on x", "true on line-1"),
        ),
        ("node: cause_worker, subject: line-1", "node: cause_worker, subject: x", None),
        ("[{action: restart, subject: line-1}]", "[page, restart]", ("actions", "page", "nothing")),
        ("[{action: restart, subject: line-1}]", "[]", ("actions", "nothing", "restart on line-1")),
        (
            "by: restart",
            "by: page",
            (
                "dropped_actions",
                "tell on unit-7: cancelled by page",
                "tell on unit-7: cancelled by restart",
            ),
        ),
        (
            "[{action: tell, subject: unit-7, reason: cancelled, by: restart}]",
            "[]",
            ("dropped_actions", "nothing", "tell on unit-7: cancelled by restart"),
        ),
    ],
)
async def test_each_part_is_compared(old: str, new: str, told: tuple[str, str, str] | None) -> None:
    assert old in TEXT
    expected = told or ("root_causes", "cause_worker on x", "cause_worker on line-1")
    assert await _told(TEXT.replace(old, new)) == [expected]


async def test_a_name_alone_matches_any_subject_and_no_part_is_compared_that_is_not_stated() -> (
    None
):
    head = TEXT[: TEXT.index("expect:")]
    result = await walked(head + "expect: {actions: [restart], dropped_actions: [tell]}\n")
    assert result.status is Status.PASSED


async def test_a_node_without_a_verdict_is_named() -> None:
    result = await walked(TEXT.replace("  restart_safe: {verdict: true, subject: line-1}\n", ""))
    assert (result.status, result.without_verdict) == (Status.FAILED, (NodeId("restart_safe"),))
    assert result.seen is None


async def test_no_data_failed_and_aliases_walk_as_in_the_engine() -> None:
    missing = await walked(
        "alert: {alarm: DeepQueue}\nverdicts: {obs_deep: no_data}\nexpect: {actions: [look]}\n"
    )
    assert missing.status is Status.PASSED
    failed = await walked(
        "alert: {alarm: QueueDeep}\nverdicts: {obs_deep: true, cause_worker: failed}\n"
        "expect: {outcome: escalate, degraded: true, verdicts: {cause_worker: failed},"
        " actions: [tell], root_causes: []}\n"
    )
    assert failed.status is Status.PASSED


# --- coverage ---------------------------------------------------------------------------------


async def test_coverage_is_exact() -> None:
    result = await walked(WHOLE)
    assert result.seen is not None
    found = coverage(shop(), [result.seen])
    assert found.nodes == ("obs_deep", "cause_worker", "restart_safe")
    assert found.missed_nodes == ("obs_slow",)
    assert found.edges == (
        Edge("obs_deep", "true", "cause_worker"),
        Edge("obs_deep", "true", "tell"),
        Edge("cause_worker", "true", "restart_safe"),
        Edge("restart_safe", "true", "restart"),
    )
    assert len(found.missed_edges) == 6
    assert (found.node_percent, found.edge_percent) == (75.0, 40.0)


def test_percent_is_never_rounded_up_to_all() -> None:
    assert percent(9_999, 1) == 99.9
    assert percent(0, 0) == 100.0
    assert percent(1, 2) == 33.3


GIVEN = st.fixed_dictionaries(
    {name: st.sampled_from(WORDS) for name in shop().nodes},
)


@given(st.lists(st.tuples(st.sampled_from(sorted(shop().alarms)), GIVEN), max_size=6))
async def test_walked_and_missed_are_the_whole(walks: list[tuple[str, dict[str, str]]]) -> None:
    sop = shop()
    runner = GoldenRunner(sop=sop, sites=shop_sites(sop))
    results = [await runner.run(_case(alarm, verdicts)) for alarm, verdicts in walks]
    found = coverage(sop, [result.seen for result in results if result.seen is not None])
    every = {edge for words in sop.steps.values() for step in words.values() for edge in step.edges}
    assert len(every) == 10
    assert set(found.edges) | set(found.missed_edges) == every
    assert set(found.edges).isdisjoint(found.missed_edges)
    assert len(found.edges) + len(found.missed_edges) == len(every)
    assert set(found.nodes) | set(found.missed_nodes) == set(sop.nodes)
    assert set(found.nodes).isdisjoint(found.missed_nodes)
    for edge in found.edges:
        assert edge.origin in found.nodes
        assert any(_went(result, edge) for result in results)


def _case(alarm: str, verdicts: dict[str, str]) -> Case:
    alert = {"alarm": alarm}
    document = {"alert": alert, "verdicts": verdicts, "expect": {"actions": []}}
    return one(orjson.dumps(document))


def _went(result: CaseResult, edge: Edge) -> bool:
    content = result.case.content
    assert isinstance(content, WalkOnly)
    return content.verdicts[edge.origin].verdict == edge.on
