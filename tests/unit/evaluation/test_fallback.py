"""Who answers for a node whose tool failed, in which lane, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    World,
    above,
    action,
    alert,
    by_node,
    library,
    memory,
    node,
    one_node,
    procedure,
    query,
    reasons,
    sample,
    tool,
    value,
)
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.decision import AnsweredBy
from triage.model.verdict import Verdict
from triage.ports import FallbackAnswer, FallbackRequest
from triage.tool_api import compare, conclude
from triage.worker.lanes import Lanes

YES = conclude([compare("one", 1, "==", 1)], "the fallback says so")


class Scripted:
    """Answers by node. Takes `takes_s`, or all the time it is given when that is less."""

    def __init__(
        self, answers: Mapping[str, FallbackAnswer] | None = None, *, takes_s: float = 0.0
    ) -> None:
        self.requests: list[FallbackRequest] = []
        self.timeouts: list[float] = []
        self.turned: list[str] = []
        self._answers = answers or {}
        self._takes_s = takes_s

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        self.requests.append(request)
        self.timeouts.append(timeout_s)
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        loop.call_later(min(self._takes_s, timeout_s), passed.set_result, None)
        await passed
        if self._takes_s > timeout_s:
            return FallbackAnswer(verdict=None, reason="fallback_deadline", detail="too slow")
        return self._answers.get(request.question.node, FallbackAnswer(verdict=YES))

    def turned_away(self, reason: str) -> None:
        self.turned.append(reason)


class CountingLane:
    """A lane that notes how often it was entered."""

    def __init__(self, *, is_free: bool = True) -> None:
        self.entered = 0
        self._is_free = is_free

    async def enter_slow(self) -> bool:
        self.entered += 1
        return self._is_free


def broken(*names: str, **more: Any) -> World:
    """Nodes whose tools raise, all in one layer."""
    tools = [tool(name, lambda *_: 1 / 0) for name in names]
    return World(sop=one_node(*tools), library=library(*tools), sources=[memory()], **more)


@on_virtual_time
async def test_its_verdict_is_taken_and_the_tools_failure_kept() -> None:
    fallback = Scripted(takes_s=3)
    world = broken("a", fallback=fallback)
    decided = await world.decide()
    result = by_node(decided)["a"]
    assert result.verdict == YES
    assert result.answered_by is AnsweredBy.FALLBACK
    assert result.failure is None
    assert result.tool_failure is not None
    assert result.tool_failure.reason == "tool_raised"
    assert result.elapsed_ms == pytest.approx(3000)
    assert not decided.decision.degraded
    request = fallback.requests[0]
    assert (request.question.node, request.reason, request.alert) == ("a", "tool_raised", alert())
    assert "ZeroDivisionError" in request.detail
    verdicts = "triage_node_verdicts_total"
    assert sample(world.metrics, verdicts, node="a", verdict="true", answered_by="fallback") == 1
    assert sample(world.metrics, "triage_node_failures_total", reason="tool_raised") == 1


@pytest.mark.parametrize(
    "failure",
    [ToolFailure.MISSING, ToolFailure.RETIRED, ToolFailure.TAMPERED, ToolFailure.QUARANTINED],
)
@on_virtual_time
async def test_it_answers_for_a_tool_that_is_not_there(failure: ToolFailure) -> None:
    fallback = Scripted()
    world = World(
        sop=procedure(node("a")),
        library=library(broken={"a": ToolFailed(failure, "why")}),
        sources=[],
        fallback=fallback,
    )
    assert reasons((await world.decide()).decision.nodes) == {"a": "true"}
    assert fallback.requests[0].reason == failure.value


@pytest.mark.parametrize("failure", list(SourceFailure))
@on_virtual_time
async def test_an_outage_never_becomes_a_storm_of_model_calls(failure: SourceFailure) -> None:
    fallback, lane = Scripted(), CountingLane()
    source = memory()
    source.fail_with(SourceFailed(failure, "down"))
    tools = [tool(name) for name in "abc"]
    world = World(
        sop=one_node(*tools), library=library(*tools), sources=[source], fallback=fallback
    )
    decided = await world.decide(lane=lane)
    assert reasons(decided.decision.nodes) == dict.fromkeys("abc", failure.value)
    assert not fallback.requests
    assert not lane.entered


@pytest.mark.parametrize("failure", [ToolFailure.QUERY_REJECTED, ToolFailure.ANSWER_TOO_LARGE])
@on_virtual_time
async def test_it_answers_when_the_source_blames_the_query(failure: ToolFailure) -> None:
    fallback = Scripted()
    source = memory()
    source.fail_with(ToolFailed(failure, "bad"))
    one = tool("a")
    world = World(sop=one_node(one), library=library(one), sources=[source], fallback=fallback)
    assert reasons((await world.decide()).decision.nodes) == {"a": "true"}
    assert fallback.requests[0].reason == failure.value


@on_virtual_time
async def test_no_data_is_a_verdict_and_not_its_business() -> None:
    fallback = Scripted()
    one = tool("a")
    world = World(sop=one_node(one), library=library(one), sources=[memory()], fallback=fallback)
    assert reasons((await world.decide()).decision.nodes) == {"a": "no_data"}
    assert not fallback.requests


@on_virtual_time
async def test_the_nodes_of_a_layer_are_answered_at_once_in_one_slow_slot() -> None:
    fallback, lane = Scripted(takes_s=10), CountingLane()
    world = broken("a", "b", "c", fallback=fallback)
    await world.decide(lane=lane)
    assert asyncio.get_running_loop().time() == pytest.approx(10)
    assert lane.entered == 1


@on_virtual_time
async def test_the_fast_slot_is_free_while_it_works_and_both_are_when_it_is_done() -> None:
    world = broken("a", fallback=Scripted(takes_s=10), lanes=Lanes(fast=1, slow=1))
    deciding = asyncio.create_task(world.decide())
    loop = asyncio.get_running_loop()
    half = loop.create_future()
    loop.call_later(5, half.set_result, None)
    await half
    assert (world.lanes.fast_in_use, world.lanes.slow_in_use) == (0, 1)
    await deciding
    assert (world.lanes.fast_in_use, world.lanes.slow_in_use) == (0, 0)


@on_virtual_time
async def test_with_the_slow_lane_full_the_node_is_failed_and_the_fast_slot_kept() -> None:
    fallback = Scripted()
    lanes = Lanes(fast=2, slow=1)
    lanes.slow_in_use = 1
    world = broken("a", fallback=fallback, lanes=lanes)
    decided = await world.decide()
    result = by_node(decided)["a"]
    assert reasons([result]) == {"a": "fallback_saturated"}
    assert result.tool_failure is not None
    assert result.tool_failure.reason == "tool_raised"
    assert result.answered_by is AnsweredBy.NOBODY
    assert decided.decision.outcome.value == "escalate"
    assert not fallback.requests
    assert fallback.turned == ["tool_raised"]
    assert (lanes.fast_in_use, lanes.slow_in_use) == (0, 1)
    assert sample(world.metrics, "triage_node_failures_total", reason="fallback_saturated") == 1


@on_virtual_time
async def test_a_fallback_that_gives_up_leaves_the_node_failed_with_its_word() -> None:
    gave_up = FallbackAnswer(verdict=None, reason="model_budget", detail="no tokens left")
    world = broken("a", "b", fallback=Scripted({"a": gave_up}))
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "model_budget", "b": "true"}
    assert by_node(decided)["a"].answered_by is AnsweredBy.NOBODY
    assert decided.decision.degraded
    assert sample(world.metrics, "triage_node_failures_total", reason="other") == 1


@on_virtual_time
async def test_its_deadline_is_from_the_start_of_the_attempt() -> None:
    """And it has what the layers before left of it."""
    fallback = Scripted(takes_s=1000)
    source = memory({"a": value(20)})
    source.hold()
    world = World(
        sop=procedure(node("a", failed=["b"]), node("b")),
        library=library(tool("a"), tool("b", lambda *_: 1 / 0)),
        sources=[source],
        fallback=fallback,
        fallback_deadline_s=60,
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "source_timeout", "b": "fallback_deadline"}
    assert fallback.timeouts == [pytest.approx(58)]
    assert asyncio.get_running_loop().time() == pytest.approx(60)


@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@on_virtual_time
async def test_what_comes_after_it_still_has_time_to_ask(prefetch: Any) -> None:
    """The slow lane's deadline is the attempt's: a slow answer must not doom the nodes after it."""
    world = World(
        sop=procedure(node("a", true=["b"]), node("b", true=["act"]), actions=[action("act")]),
        library=library(tool("a", lambda *_: 1 / 0), tool("b")),
        sources=[memory({"b": value(20)})],
        fallback=Scripted(takes_s=20),
        prefetch=prefetch,
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "true"}
    assert [one.action for one in decided.decision.actions] == ["act"]


@on_virtual_time
async def test_and_no_more_than_until_the_slow_lanes_deadline() -> None:
    source = memory({"b": value(20)})
    source.hold()
    world = World(
        sop=procedure(node("a", true=["b"]), node("b")),
        library=library(tool("a", lambda *_: 1 / 0), tool("b")),
        sources=[source],
        fallback=Scripted(takes_s=59),
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes)["b"] in {"deadline", "source_timeout"}
    assert asyncio.get_running_loop().time() == pytest.approx(60)


@on_virtual_time
async def test_it_is_told_what_was_walked_before_and_what_follows() -> None:
    fallback = Scripted()
    world = World(
        sop=procedure(
            node("a", true=["b"], false=["c"]),
            node("b", false=["act"], no_data=["c"]),
            node("c"),
            actions=[action("act")],
        ),
        library=library(tool("a"), tool("b", lambda *_: [query("b")], lambda *_: 1 / 0)),
        sources=[memory({"a": value(20)})],
        fallback=fallback,
    )
    await world.decide()
    question = fallback.requests[0].question
    assert question.text == "Is b so?"
    assert [(one.node, one.text, one.on) for one in question.before] == [("a", "Is a so?", "true")]
    assert question.before[0].verdict is not None
    assert [tuple(one) for one in question.after] == [
        ("false", "act", "Do act."),
        ("no_data", "c", "Is c so?"),
    ]


@on_virtual_time
async def test_every_failed_tool_leaves_a_gap_and_an_outage_none() -> None:
    gave_up = FallbackAnswer(verdict=None, reason="fallback_turns", detail="six turns")
    world = broken("a", "b", fallback=Scripted({"a": gave_up}))
    decided = await world.decide()
    assert {(gap.node, gap.reason, gap.impact) for gap in decided.gaps} == {
        ("a", "tool_raised", "the node failed and the decision escalates"),
        ("b", "tool_raised", "the fallback answered true"),
    }
    assert {gap.needed for gap in decided.gaps} == {"Is a so?", "Is b so?"}
    (without,) = (await broken("a").decide()).gaps
    assert without.gap_id in {gap.gap_id for gap in decided.gaps}
    assert without.alternatives == ("fallback: none is configured",)
    source = memory()
    source.fail_with(SourceFailed(SourceFailure.TIMEOUT, "down"))
    one = tool("a")
    down = World(sop=one_node(one), library=library(one), sources=[source], fallback=Scripted())
    assert (await down.decide()).gaps == ()


@on_virtual_time
async def test_its_verdict_is_a_parent_like_any_other() -> None:
    seen: list[str] = []

    def evaluate(warehouse: str, timestamp: Any, context: Any) -> Verdict:
        seen.extend(verdict.explanation for verdict in context.parents.values())
        return above("b")(warehouse, timestamp, context)  # type: ignore[no-any-return]  # a Verdict

    world = World(
        sop=procedure(node("a", true=["b"]), node("b")),
        library=library(
            tool("a", lambda *_: 1 / 0), tool("b", evaluate=evaluate, reads_parents=["a"])
        ),
        sources=[MemorySource("memory", lambda _: value(20))],
        fallback=Scripted(),
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "true"}
    assert seen == ["the fallback says so"]
