"""Three ways not to answer: no data, a tool's failure, a source's failure. None passes for
another, and each ends with its own reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    action,
    asks,
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
from triage.model.decision import AnsweredBy, NodeKind, Outcome
from triage.model.query import Answer, Query


def watched() -> World:
    """One node that says by its action which edge it took."""
    source = memory({"a": value(20)})
    return World(
        sop=procedure(
            node("a", no_data=["check"], failed=["page"], true=["act"]),
            actions=[action("check"), action("page"), action("act")],
        ),
        library=library(tool("a")),
        sources=[source],
    )


@on_virtual_time
async def test_a_missing_metric_is_no_data_and_follows_its_edge() -> None:
    world = watched()
    world.sources = [memory()]
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "no_data"}
    assert [one.action for one in decided.decision.actions] == ["check"]
    assert not decided.decision.degraded


@pytest.mark.parametrize("failure", list(SourceFailure))
@on_virtual_time
async def test_every_failure_of_a_source_fails_the_node_with_its_reason(
    failure: SourceFailure,
) -> None:
    world = watched()
    source = memory()
    source.fail_with(SourceFailed(failure, "no luck"))
    world.sources = [source]
    decided = await world.decide()
    result = by_node(decided)["a"]
    assert result.failure is not None
    assert (result.failure.reason, result.failure.detail) == (failure.value, "no luck")
    assert result.answered_by is AnsweredBy.NOBODY
    assert result.asked[0].failure == result.failure
    assert [one.action for one in decided.decision.actions] == ["page"]
    assert decided.decision.degraded
    assert decided.decision.outcome is Outcome.ESCALATE
    assert not decided.evidence
    assert sample(world.metrics, "triage_node_failures_total", reason=failure.value) == 1
    calls = "triage_source_calls_total"
    assert sample(world.metrics, calls, source=MEMORY, result=failure.value) == 1


@pytest.mark.parametrize("failure", [ToolFailure.QUERY_REJECTED, ToolFailure.ANSWER_TOO_LARGE])
@on_virtual_time
async def test_a_source_may_blame_the_query(failure: ToolFailure) -> None:
    world = watched()
    source = memory()
    source.fail_with(ToolFailed(failure, "unknown column"))
    world.sources = [source]
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": failure.value}
    assert [one.action for one in decided.decision.actions] == ["page"]
    assert not world.snapshot.sources[MEMORY].breaker_is_open


@pytest.mark.parametrize(
    "failure",
    [ToolFailure.MISSING, ToolFailure.RETIRED, ToolFailure.TAMPERED, ToolFailure.QUARANTINED],
)
@on_virtual_time
async def test_a_node_without_a_usable_tool_fails_with_the_librarys_reason(
    failure: ToolFailure,
) -> None:
    world = watched()
    world.library = library(broken={"a": ToolFailed(failure, "why")})
    decided = await world.decide()
    result = by_node(decided)["a"]
    assert reasons([result]) == {"a": failure.value}
    assert (result.tool_version, result.tool_sha256, result.asked) == (0, "", ())
    assert decided.decision.round_trips == 0


@on_virtual_time
async def test_a_node_the_library_never_heard_of_is_missing_its_tool() -> None:
    world = watched()
    world.library = library()
    assert reasons((await world.decide()).decision.nodes) == {"a": "tool_missing"}


@on_virtual_time
async def test_a_source_outside_the_nodes_declaration_is_not_asked() -> None:
    other = memory(name="other")
    world = World(
        sop=procedure(node("a")),
        library=library(tool("a", asks("a", source="other"))),
        sources=[memory(), other],
    )
    assert reasons((await world.decide()).decision.nodes) == {"a": "undeclared_source"}
    assert not other.asked


@on_virtual_time
async def test_a_declared_source_that_is_not_configured_is_the_tools_failure() -> None:
    world = World(
        sop=procedure(node("a", sources=["gone"])),
        library=library(tool("a", asks("a", source="gone"))),
        sources=[memory()],
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "undeclared_source"}
    failure = by_node(decided)["a"].failure
    assert failure is not None
    assert "'gone'" in failure.detail


@pytest.mark.parametrize("order", [("down", "bad"), ("bad", "down")])
@on_virtual_time
async def test_an_outage_outweighs_a_rejected_query(order: tuple[str, str]) -> None:
    """Else a node would go to the fallback in an outage."""
    answers: dict[Query, Answer] = {
        query("down"): SourceFailed(SourceFailure.CONNECT, "down"),
        query("bad"): ToolFailed(ToolFailure.QUERY_REJECTED, "bad"),
    }
    one = tool("a", asks(*order))
    world = World(sop=one_node(one), library=library(one), sources=[MemorySource(MEMORY, answers)])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "source_connect"}
    asked = [failed.failure for failed in by_node(decided)["a"].asked]
    assert {failed.reason for failed in asked if failed} == {"source_connect", "query_rejected"}


@on_virtual_time
async def test_one_nodes_failure_leaves_the_others_of_its_layer_alone() -> None:
    answers: dict[Query, Answer] = {
        query("a"): value(20),
        query("b"): SourceFailed(SourceFailure.SERVER_ERROR, "500"),
        query("c"): ToolFailed(ToolFailure.QUERY_REJECTED, "400"),
        query("d"): (),
        query("e"): value(5),
    }
    tools = [tool(name) for name in "abcde"]
    world = World(
        sop=one_node(*tools), library=library(*tools), sources=[MemorySource(MEMORY, answers)]
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {
        "a": "true",
        "b": "source_server_error",
        "c": "query_rejected",
        "d": "no_data",
        "e": "false",
    }
    assert decided.decision.outcome is Outcome.ESCALATE


@on_virtual_time
async def test_a_failed_constraint_opens_the_way_to_no_action() -> None:
    source = memory()
    source.fail_with(SourceFailed(SourceFailure.CONNECT, "down"))
    world = World(
        sop=procedure(
            node("safe", NodeKind.CONSTRAINT, true=["stop"], failed=["stop", "next"]),
            node("next"),
            actions=[action("stop")],
        ),
        library=library(tool("safe"), tool("next")),
        sources=[source],
    )
    decided = await world.decide()
    assert [result.node for result in decided.decision.nodes] == ["safe", "next"]
    assert decided.decision.actions == ()


@pytest.mark.parametrize(
    "answer",
    [
        lambda: ({"value": 10**30},),
        lambda: ({"value": "\ud800"},),
        lambda: {"a": object()},
        lambda: ({1: "a key that is no text"},),
    ],
    ids=["integer of 100 bits", "lone surrogate", "object", "key"],
)
@on_virtual_time
async def test_an_answer_that_cannot_be_recorded_fails_the_node_and_not_the_attempt(
    answer: Callable[[], Answer],
) -> None:
    one = tool("a")
    source = MemorySource(MEMORY, lambda _: answer())
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": "source_protocol"}
