"""Each query once, one deadline for all, and nothing left running."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time, settled
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    above,
    asks,
    by_node,
    library,
    memory,
    node,
    one_node,
    procedure,
    query,
    reasons,
    tool,
    value,
)
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure
from triage.evaluation.guard import SourceLimits
from triage.model.canonical import sha256_hex
from triage.model.query import Answer, Query
from triage.tool_api import compare, conclude


class Stubborn(MemorySource):
    """Never answers, and takes no notice of the time it was given."""

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.asked.append(query)
        self.waiting.set()
        await asyncio.Event().wait()


@on_virtual_time
async def test_a_query_of_two_nodes_is_asked_once() -> None:
    tools = [tool("a", asks("x", "y"), above("x")), tool("b", asks("y", "x"), above("y"))]
    source = memory({"x": value(20), "y": value(5)})
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "false"}
    assert sorted(source.asked) == sorted([query("x"), query("y")])
    first, second = by_node(decided)["a"].asked, by_node(decided)["b"].asked
    assert first[0] is second[1]
    assert len(decided.evidence) == 2


@on_virtual_time
async def test_a_query_repeated_by_one_node_or_in_a_later_layer_is_asked_once() -> None:
    tools = [tool("a", asks("x", "x"), above("x")), tool("b", asks("x"), above("x"))]
    source = memory({"x": value(20)})
    world = World(
        sop=procedure(node("a", true=["b"]), node("b")), library=library(*tools), sources=[source]
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "true"}
    assert source.asked == [query("x")]
    assert decided.decision.round_trips == 1


@on_virtual_time
async def test_the_same_text_for_two_sources_is_two_queries() -> None:
    one, other = memory({"x": value(20)}, name="one"), memory({"x": value(5)}, name="other")
    tools = [
        tool("a", asks("x", source="one"), above("x", source="one")),
        tool("b", asks("x", source="other"), above("x", source="other")),
    ]
    world = World(
        sop=one_node(*tools, sources=["one", "other"]),
        library=library(*tools),
        sources=[one, other],
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "false"}


@on_virtual_time
async def test_evidence_is_the_bodies_by_their_digest_and_equal_bodies_are_one() -> None:
    tools = [tool("a"), tool("b"), tool("c")]
    source = memory({"a": value(20), "b": value(20), "c": ()})
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    decided = await world.decide()
    assert sorted(decided.evidence.values()) == [b'{"rows":[]}', b'{"rows":[{"value":20}]}']
    assert all(sha256_hex(body) == digest for digest, body in decided.evidence.items())
    for result in decided.decision.nodes:
        asked = result.asked[0]
        assert len(decided.evidence[asked.answer_sha256]) == asked.answer_bytes


@on_virtual_time
async def test_the_whole_layer_is_asked_at_once() -> None:
    tools = [tool(name) for name in "abc"]
    source = memory(dict.fromkeys("abc", value(20)))
    source.hold()
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    deciding = asyncio.create_task(world.decide())
    await settled()
    assert len(source.asked) == 3
    source.release()
    assert (await deciding).decision.round_trips == 1


@on_virtual_time
async def test_a_source_that_never_answers_is_cut_off_by_the_deadline() -> None:
    """Its own node fails, the decision is degraded, and what the others said stands."""
    tools = [tool("a"), tool("b", asks("b", source="dead"), above("b", source="dead"))]
    world = World(
        sop=one_node(*tools, sources=[MEMORY, "dead"]),
        library=library(*tools),
        sources=[memory({"a": value(20)}), Stubborn("dead", {})],
        limits=SourceLimits(timeout_s=600),
        deadline_s=5,
    )
    loop = asyncio.get_running_loop()
    decided = await world.decide()
    assert loop.time() == pytest.approx(5)
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "deadline"}
    assert decided.decision.degraded
    assert decided.decision.outcome.value == "escalate"
    assert by_node(decided)["b"].asked[0].query == query("b", "dead")


@on_virtual_time
async def test_a_source_is_given_no_more_than_its_own_timeout() -> None:
    source = memory({"a": value(20)})
    source.hold()
    one = tool("a")
    world = World(
        sop=one_node(one),
        library=library(one),
        sources=[source],
        limits=SourceLimits(timeout_s=2),
        deadline_s=5,
    )
    decided = await world.decide()
    assert asyncio.get_running_loop().time() == pytest.approx(2)
    assert reasons(decided.decision.nodes) == {"a": "source_timeout"}


@on_virtual_time
async def test_a_deadline_shorter_than_the_sources_timeout_wins() -> None:
    source = memory({"a": value(20)})
    source.hold()
    one = tool("a")
    world = World(
        sop=one_node(one),
        library=library(one),
        sources=[source],
        limits=SourceLimits(timeout_s=10),
        deadline_s=1,
    )
    decided = await world.decide()
    assert asyncio.get_running_loop().time() == pytest.approx(1)
    assert reasons(decided.decision.nodes)["a"] in {"source_timeout", "deadline"}


@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@on_virtual_time
async def test_after_the_deadline_no_later_layer_asks(prefetch: Any) -> None:
    """The walk ends along the failed edges, at once, and each node says why."""
    dead = Stubborn(MEMORY, {})
    world = World(
        sop=procedure(node("a", failed=["b"]), node("b", failed=["c"]), node("c")),
        library=library(tool("a"), tool("b"), tool("c")),
        sources=[dead],
        prefetch=prefetch,
        limits=SourceLimits(timeout_s=600),
        deadline_s=3,
    )
    decided = await world.decide()
    assert asyncio.get_running_loop().time() == pytest.approx(3)
    assert reasons(decided.decision.nodes) == dict.fromkeys("abc", "deadline")
    assert len(dead.asked) == (1 if prefetch == "layer" else 3)


@on_virtual_time
async def test_a_tool_that_asks_nothing_still_judges_after_the_deadline() -> None:
    always = conclude([compare("one", 1, "==", 1)], "always")
    silent = tool("b", asks(), lambda *_: always)
    world = World(
        sop=procedure(node("a", failed=["b"]), node("b")),
        library=library(tool("a"), silent),
        sources=[Stubborn(MEMORY, {})],
        limits=SourceLimits(timeout_s=600),
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "deadline", "b": "true"}


@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@on_virtual_time
async def test_cancelling_leaves_nothing_running(prefetch: Any) -> None:
    """`on_virtual_time` fails the test for a task that is left."""
    source = memory()
    source.hold()
    world = World(
        sop=procedure(node("a", true=["b", "c"]), node("b"), node("c")),
        library=library(tool("a"), tool("b"), tool("c")),
        sources=[source],
        prefetch=prefetch,
    )
    deciding = asyncio.create_task(world.decide())
    await source.waiting.wait()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    assert asyncio.get_running_loop().time() == 0
    source.release()
    source_slots = world.snapshot.sources[MEMORY]
    assert source_slots._free == source_slots.limits.max_concurrency  # noqa: SLF001 - a lost slot shows nowhere else


@on_virtual_time
async def test_what_the_subtree_asked_too_much_is_ended_with_the_attempt() -> None:
    slow = Stubborn("slow", {})
    tools = [tool("a"), tool("b", asks("b", source="slow"), above("b", source="slow"))]
    world = World(
        sop=procedure(node("a", true=["b"], sources=[MEMORY, "slow"]), node("b", sources=["slow"])),
        library=library(*tools),
        sources=[memory({"a": value(5)}), slow],
        prefetch="subtree",
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "false"}
    assert slow.asked == [query("b", "slow")]
    assert asyncio.get_running_loop().time() == 0


@on_virtual_time
async def test_an_adapter_that_breaks_its_contract_ends_the_attempt_and_leaves_nothing() -> None:
    """A fault of this project is not a verdict: it reaches the worker."""

    class Broken(MemorySource):
        async def ask(self, query: Query, *, timeout_s: float) -> Answer:
            raise ZeroDivisionError("a bug")

    one = tool("a")
    world = World(sop=one_node(one), library=library(one), sources=[Broken(MEMORY, {})])
    with pytest.raises(ZeroDivisionError):
        await world.decide()


@on_virtual_time
async def test_decisions_at_once_do_not_share_their_asking() -> None:
    """Equal queries of two alerts are asked twice: an answer belongs to its attempt."""
    source = memory({"a": value(20)})
    one = tool("a")
    world = World(sop=one_node(one), library=library(one), sources=[source])
    both = await asyncio.gather(world.decide(), world.decide())
    assert [decided.decision.outcome.value for decided in both] == ["no_fault", "no_fault"]
    assert len(source.asked) == 2


@on_virtual_time
async def test_a_retry_is_one_and_within_the_budget() -> None:
    failures: list[Exception | None] = [SourceFailed(SourceFailure.CONNECT, "once")]

    def answer(_: Query) -> Answer:
        return failures.pop() if failures else value(20)

    one = tool("a")
    source = MemorySource(MEMORY, answer)
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": "true"}
    assert len(source.asked) == 2
