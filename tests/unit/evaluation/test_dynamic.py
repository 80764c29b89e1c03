"""Tools that ask in steps."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time, settled
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    above,
    asks,
    by_node,
    dynamic_tool,
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
from triage.errors import SourceFailed, SourceFailure, TriageError
from triage.evaluation.guard import SourceLimits
from triage.evaluation.judge import MAX_QUERIES
from triage.library.catalogue import Tool
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.tool_api import Context, compare, conclude, rows

DONE = conclude([compare("one", 1, "==", 1)], "done")


async def two_steps(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    """Asks for `a`, then for what `a` names."""
    first = await context.ask(query("a"))
    second = await context.ask(rows(MEMORY, "select next", key=first[0]["value"]))
    return conclude([compare("next", len(second), ">", 0)], "asked twice")


class Stubborn(MemorySource):
    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.asked.append(query)
        await asyncio.Event().wait()


@on_virtual_time
async def test_a_later_question_may_hang_on_an_earlier_answer() -> None:
    one = dynamic_tool("a", two_steps)
    source = MemorySource(
        MEMORY, {query("a"): value(7), rows(MEMORY, "select next", key=7): value(1)}
    )
    world = World(sop=one_node(one), library=library(one), sources=[source])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true"}
    assert [asked.query for asked in by_node(decided)["a"].asked] == source.asked
    assert decided.decision.round_trips == 2
    assert len(decided.evidence) == 2


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(SourceFailed(SourceFailure.CONNECT, "down"), "source_connect"), (None, "true")],
)
@on_virtual_time
async def test_a_failure_that_the_tool_swallows_still_fails_the_node(
    failure: SourceFailed | None, reason: str
) -> None:
    async def swallowing(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        try:
            await context.ask(query("a"))
        except TriageError:
            return DONE
        return DONE

    source = memory()
    source.fail_with(failure)
    one = dynamic_tool("a", swallowing)
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": reason}


@on_virtual_time
async def test_after_the_first_failure_nothing_more_is_asked() -> None:
    async def asking_on(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        for name in "abc":
            try:
                await context.ask(query(name))
            except SourceFailed:
                continue
        return DONE

    source = MemorySource(MEMORY, {query("b"): value(1), query("c"): value(1)})
    one = dynamic_tool("a", asking_on)
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": "unrecorded"}
    assert source.asked == [query("a")]


@on_virtual_time
async def test_two_dynamic_nodes_of_a_layer_ask_at_once_and_share_what_is_equal() -> None:
    tools = [dynamic_tool("a", two_steps), dynamic_tool("b", two_steps)]
    source = memory({"a": value(7)})
    source.hold()
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    deciding = asyncio.create_task(world.decide())
    await settled()
    assert source.asked == [query("a")]
    source.release()
    assert reasons((await deciding).decision.nodes) == {"a": "false", "b": "false"}
    assert source.asked == [query("a"), rows(MEMORY, "select next", key=7)]


@on_virtual_time
async def test_static_and_dynamic_nodes_share_a_layer() -> None:
    tools = [tool("a"), dynamic_tool("b", two_steps)]
    source = memory({"a": value(20)})
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "false"}
    assert source.asked.count(query("a")) == 1


@on_virtual_time
async def test_the_deadline_cuts_every_waiting_node_and_says_which_query() -> None:
    """Two nodes wait for the same query: neither may end without a reason."""
    tools = [dynamic_tool(name, two_steps) for name in "abc"]
    world = World(
        sop=one_node(*tools),
        library=library(*tools),
        sources=[Stubborn(MEMORY, {})],
        limits=SourceLimits(timeout_s=600),
        deadline_s=5,
    )
    decided = await world.decide()
    assert asyncio.get_running_loop().time() == pytest.approx(5)
    assert reasons(decided.decision.nodes) == dict.fromkeys("abc", "deadline")
    assert all(result.asked[0].query == query("a") for result in decided.decision.nodes)


@on_virtual_time
async def test_a_tool_that_waits_for_something_else_is_cut_off_too() -> None:
    async def waiting(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        await asyncio.Event().wait()
        return DONE

    tools = [dynamic_tool("a", waiting), tool("b")]
    world = World(sop=one_node(*tools), library=library(*tools), sources=[memory({"b": value(20)})])
    decided = await world.decide()
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
    assert reasons(decided.decision.nodes) == {"a": "deadline", "b": "true"}


@on_virtual_time
async def test_a_tool_that_catches_its_cancellation_does_not_outlive_the_deadline() -> None:
    async def clinging(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return DONE
        return DONE

    one = dynamic_tool("a", clinging)
    world = World(sop=one_node(one), library=library(one), sources=[])
    assert reasons((await world.decide()).decision.nodes) == {"a": "deadline"}


@on_virtual_time
async def test_a_timeout_of_the_tools_own_is_not_the_deadline() -> None:
    async def own(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        raise TimeoutError("mine")

    one = dynamic_tool("a", own)
    world = World(sop=one_node(one), library=library(one), sources=[])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "tool_raised"}


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(1), RecursionError(), MemoryError()])
@on_virtual_time
async def test_what_it_raises_is_its_failure_and_nobody_elses(error: BaseException) -> None:
    async def raising(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        await context.ask(query("a"))
        raise error

    tools = [dynamic_tool("a", raising), dynamic_tool("b", two_steps)]
    world = World(sop=one_node(*tools), library=library(*tools), sources=[memory({"a": value(7)})])
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "tool_raised", "b": "false"}
    assert [asked.query for asked in by_node(decided)["a"].asked] == [query("a")]


async def _none(*_: object) -> object:
    return None


@pytest.mark.parametrize(
    "one",
    [
        dynamic_tool("a", _none),
        tool("a", evaluate=lambda *_: DONE, dynamic=True),
    ],
    ids=["returns nothing", "is not async"],
)
@on_virtual_time
async def test_nonsense_from_it_fails_the_node(one: Tool) -> None:
    world = World(sop=one_node(one), library=library(one), sources=[])
    reason = reasons((await world.decide()).decision.nodes)["a"]
    assert reason in {"invalid_result", "tool_raised"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (query("a", "other"), "undeclared_source"),
        ("select 1", "invalid_queries"),
        (None, "invalid_queries"),
        (rows(MEMORY, "select 1", a=[1]), "invalid_queries"),  # type: ignore[arg-type]  # what a tool may do
    ],
)
@on_virtual_time
async def test_asking_what_is_not_allowed_fails_the_node(asked: Query, reason: str) -> None:
    async def asking(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        await context.ask(asked)
        return DONE

    other = memory(name="other")
    one = dynamic_tool("a", asking)
    world = World(sop=one_node(one), library=library(one), sources=[memory(), other])
    assert reasons((await world.decide()).decision.nodes) == {"a": reason}
    assert not other.asked


@pytest.mark.parametrize(
    ("count", "reason"), [(MAX_QUERIES, "true"), (MAX_QUERIES + 1, "invalid_queries")]
)
@on_virtual_time
async def test_it_may_ask_so_many_queries(count: int, reason: str) -> None:
    async def asking(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        for n in range(count):
            await context.ask(query(f"q{n}"))
        return DONE

    source = memory()
    one = dynamic_tool("a", asking)
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": reason}
    assert len(source.asked) == MAX_QUERIES


@on_virtual_time
async def test_only_a_dynamic_tool_may_ask() -> None:
    made: list[object] = []

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        asking = context.ask(query("b"))
        made.append(asking)
        with pytest.raises(RuntimeError, match="only a dynamic tool"):
            asking.send(None)
        return DONE

    source = memory({"a": value(20)})
    one = tool("a", evaluate=evaluate)
    world = World(sop=one_node(one), library=library(one), sources=[source])
    assert reasons((await world.decide()).decision.nodes) == {"a": "true"}
    assert source.asked == [query("a")]


@on_virtual_time
async def test_what_was_asked_before_is_not_asked_again() -> None:
    """By a static node of an earlier layer, and twice by itself."""

    async def asking(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        first = await context.ask(query("a"))
        assert first == await context.ask(query("a"))
        return DONE

    source = memory({"a": value(20)})
    world = World(
        sop=procedure(node("a", true=["b"]), node("b")),
        library=library(tool("a", asks("a"), above("a")), dynamic_tool("b", asking)),
        sources=[source],
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "true"}
    assert source.asked == [query("a")]


@on_virtual_time
async def test_the_marker_is_off_while_a_tool_waits() -> None:
    class Mark:
        def __init__(self) -> None:
            self.running: list[str] = []

        def enter(self, tool: Tool) -> None:
            self.running = [tool.node]

        def leave(self) -> None:
            self.running = []

    mark = Mark()
    during: list[list[str]] = []

    async def asking(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        await context.ask(query("a"))
        during.append(mark.running)
        return DONE

    source = memory({"a": value(20)})
    source.hold()
    one = dynamic_tool("a", asking)
    world = World(sop=one_node(one), library=library(one), sources=[source], marker=mark)
    deciding = asyncio.create_task(world.decide())
    await source.waiting.wait()
    assert mark.running == []
    source.release()
    await deciding
    assert during == [["a"]]
    assert mark.running == []


@on_virtual_time
async def test_cancelling_leaves_nothing_running() -> None:
    source = memory()
    source.hold()
    tools = [dynamic_tool("a", two_steps), dynamic_tool("b", two_steps)]
    world = World(sop=one_node(*tools), library=library(*tools), sources=[source])
    deciding = asyncio.create_task(world.decide())
    await source.waiting.wait()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
