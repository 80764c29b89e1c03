"""Sources as agents reach them: faces, shared sessions, and bounds of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from pydantic import ByteSize

from tests.unit.evaluation.world import sample
from triage import __version__
from triage.adapters.mcp import METRICS, TABLES, FaceSource
from triage.adapters.memory import MemorySource
from triage.app.fallback_section import FallbackSection
from triage.app.over_mcp import agent_limits, all_over_mcp, cell_name, offered_by
from triage.app.sections import CustomSource, McpSource, PrometheusSource, SqlSource
from triage.app.sources import SourcePool, close_source
from triage.clock import SystemClock
from triage.errors import ConfigError, SourceFailed, SourceFailure
from triage.evaluation.guard import Answered, GuardedSource, OverMcp, Reply, SourceLimits
from triage.model.catalogue import Catalogue, Metric
from triage.model.query import Answer, Query, Rows
from triage.ports import SourceTool
from triage.telemetry.metrics import Metrics
from triage.tool_api import call

LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
FALLBACK = FallbackSection(
    llm_url="http://127.0.0.1:1/v1",
    model="none",
    source_timeout_s=7.0,
    source_concurrency=2,
    max_answer_bytes=ByteSize(5000),
)
CLOCK = SystemClock()

made: list[MemorySource] = []


class Shelved(MemorySource):
    """A source of somebody's own that has MCP tools itself."""

    async def tools(self, *, timeout_s: float) -> Sequence[SourceTool]:
        return [SourceTool(name="own", description="", input_schema={})]


class Arrivals(MemorySource):
    """Tells of each query as it comes."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda _: ({"n": 1},))
        self.arrived: asyncio.Queue[Query] = asyncio.Queue()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.arrived.put_nowait(query)
        return await super().ask(query, timeout_s=timeout_s)


def plain(name: str, **_: Any) -> MemorySource:
    return _made(MemorySource(name, lambda _: ({"n": 1},)))


class Telling(MemorySource):
    """A metrics source of somebody's own that tells what it has."""

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        return Catalogue(metrics={"level": Metric(("tank",))})


def telling(name: str, **_: Any) -> MemorySource:
    return _made(Telling(name, lambda _: ()))


def shelved(name: str, **_: Any) -> MemorySource:
    return _made(Shelved(name, lambda _: {"n": 2}))


def refusing(name: str, **_: Any) -> MemorySource:
    raise ConfigError(f"source {name}: a person must mend it")


def _made(source: MemorySource) -> MemorySource:
    made.append(source)
    return source


def custom(factory: str, **settings: Any) -> CustomSource:
    return CustomSource(type="custom", factory=f"{__name__}:{factory}", **settings)


@pytest.fixture
def metrics() -> Metrics:
    made.clear()
    return Metrics.register(version=__version__, monotonic=CLOCK.monotonic)


@pytest.fixture
async def opened() -> AsyncIterator[dict[str, GuardedSource]]:
    """Closed at the end."""
    opened: dict[str, GuardedSource] = {}
    yield opened
    for guarded in opened.values():
        await close_source(guarded)


def over(guarded: GuardedSource) -> OverMcp:
    assert guarded.over_mcp is not None
    return guarded.over_mcp


async def fetch(guarded: GuardedSource, query: Query) -> Reply:
    return await guarded.fetch(query, CLOCK.monotonic() + LONG_S)


def counted(metrics: Metrics, source: str, result: str = "ok") -> float:
    return sample(metrics, "triage_source_calls_total", source=source, result=result)


QUERY = call("floor", "query", sql="SELECT 1")


async def test_every_source_of_the_pool_is_reached_over_mcp(
    metrics: Metrics, opened: dict[str, GuardedSource]
) -> None:
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    opened |= await pool.take_up(
        {"floor": custom("plain", max_concurrency=9), "carts": custom("shelved")}
    )
    floor, carts = opened["floor"], opened["carts"]
    assert [tool.name for tool in await over(floor).shelf.tools(timeout_s=LONG_S)] == [
        "aggregate",
        "query",
        "samples",
    ]
    reply = await fetch(over(floor).guarded, QUERY)
    assert isinstance(reply, Answered)
    assert reply.data == {"rows": [{"n": 1}]}
    assert made[0].asked == [Rows("floor", "SELECT 1")]
    assert (counted(metrics, "floor:fallback"), counted(metrics, "floor")) == (1, 0)
    # One that has tools itself is reached as it is.
    assert [tool.name for tool in await over(carts).shelf.tools(timeout_s=LONG_S)] == ["own"]
    assert over(carts).guarded.source is carts.source
    assert isinstance(await fetch(over(carts).guarded, call("carts", "own")), Answered)
    assert counted(metrics, "carts:fallback") == 1
    limits = over(floor).guarded.limits
    assert (limits.timeout_s, limits.max_concurrency, limits.max_answer_bytes) == (7.0, 2, 5000)
    assert floor.limits.max_concurrency == 9


async def test_a_source_of_ones_own_is_offered_for_what_it_says_it_has(
    metrics: Metrics, opened: dict[str, GuardedSource]
) -> None:
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    opened |= await pool.take_up({"floor": custom("telling")})
    tools = await over(opened["floor"]).shelf.tools(timeout_s=LONG_S)
    assert [tool.name for tool in tools] == ["aggregate", "metrics", "samples"]
    reply = await fetch(over(opened["floor"]).guarded, call("floor", "metrics", contains="tank"))
    assert isinstance(reply, Answered)
    assert reply.data == {
        "metrics": [{"name": "level", "labels": ["tank"], "help": ""}],
        "more": 0,
    }


async def test_without_a_fallback_there_is_nothing_of_it(
    metrics: Metrics, opened: dict[str, GuardedSource]
) -> None:
    for fallback in (None, FallbackSection()):
        pool = SourcePool(CLOCK, metrics.sources, fallback=fallback)
        opened |= await pool.take_up({"floor": custom("plain")})
        assert opened["floor"].over_mcp is None
        assert list(metrics.sources.cells) == ["floor"]


async def test_cells_are_there_from_the_start_and_go_with_the_source(
    metrics: Metrics, opened: dict[str, GuardedSource]
) -> None:
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    opened |= await pool.take_up({"floor": custom("plain")})
    value = metrics.registry.get_sample_value(
        "triage_source_calls_total", {"source": "floor:fallback", "result": "ok"}
    )
    assert value == 0
    await pool.take_up({})
    assert list(metrics.sources.cells) == []


async def test_a_kept_source_keeps_its_face_and_a_changed_one_gets_another(
    metrics: Metrics, opened: dict[str, GuardedSource]
) -> None:
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    first = await pool.take_up({"floor": custom("plain"), "line": custom("plain")})
    opened |= {f"first {name}": guarded for name, guarded in first.items()}
    second = await pool.take_up(
        {"floor": custom("plain"), "line": custom("plain", max_concurrency=3)}
    )
    opened |= second
    assert over(second["floor"]) is over(first["floor"])
    assert over(second["line"]).guarded.source is not over(first["line"]).guarded.source


async def test_a_source_is_closed_with_its_face(metrics: Metrics) -> None:
    tasks = asyncio.all_tasks()
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    sources = await pool.take_up({"floor": custom("plain"), "carts": custom("shelved")})
    face = over(sources["floor"]).guarded.source
    assert isinstance(face, FaceSource)
    await close_source(sources["floor"])
    with pytest.raises(SourceFailed, match="not open"):
        await face.tools(timeout_s=LONG_S)
    await close_source(sources["carts"])
    assert asyncio.all_tasks() == tasks


async def test_a_refused_source_leaves_no_face_behind(metrics: Metrics) -> None:
    tasks = asyncio.all_tasks()
    pool = SourcePool(CLOCK, metrics.sources, fallback=FALLBACK)
    with pytest.raises(ConfigError):
        await pool.take_up({"floor": custom("plain"), "broken": custom("refusing")})
    assert asyncio.all_tasks() == tasks


async def test_agents_take_no_slot_and_open_no_breaker_of_tools(metrics: Metrics) -> None:
    source = Arrivals("floor")
    guarded = GuardedSource(
        source, SourceLimits(max_concurrency=1), metrics.sources.cell("floor"), CLOCK.monotonic
    )
    limits = SourceLimits(max_concurrency=2, breaker_failures=1, timeout_s=LONG_S)
    async with all_over_mcp(
        {"floor": guarded}, limits=limits, metrics=metrics.sources, monotonic=CLOCK.monotonic
    ):
        agents = over(guarded).guarded
        source.hold()
        held = [asyncio.create_task(fetch(agents, QUERY)) for _ in range(5)]
        for _ in range(limits.max_concurrency):
            assert await source.arrived.get() == Rows("floor", "SELECT 1")
        tool = asyncio.create_task(fetch(guarded, Rows("floor", "SELECT 2")))
        assert await source.arrived.get() == Rows("floor", "SELECT 2")
        assert len(source.asked) == limits.max_concurrency + 1
        source.release()
        assert isinstance(await tool, Answered)
        assert all(isinstance(reply, Answered) for reply in await asyncio.gather(*held))
        source.fail_with(SourceFailed(SourceFailure.CONNECT, "gone"))
        reply = await fetch(agents, QUERY)
        assert reply.asked.failure is not None
        assert reply.asked.failure.reason == "source_connect"
        assert (agents.breaker_is_open, guarded.breaker_is_open) == (True, False)
    assert guarded.over_mcp is None


async def test_by_hand_the_tools_of_a_face_may_be_named(metrics: Metrics) -> None:
    sources = {
        name: GuardedSource(
            MemorySource(name, {}), SourceLimits(), metrics.sources.cell(name), CLOCK.monotonic
        )
        for name in ("metrics", "tables", "both")
    }
    offered: Mapping[str, frozenset[str]] = {"metrics": METRICS, "tables": TABLES}
    tasks = asyncio.all_tasks()
    async with all_over_mcp(
        sources,
        limits=SourceLimits(),
        metrics=metrics.sources,
        monotonic=CLOCK.monotonic,
        offered=offered,
    ):
        names = {
            name: {tool.name for tool in await over(guarded).shelf.tools(timeout_s=LONG_S)}
            for name, guarded in sources.items()
        }
        assert names == {"metrics": METRICS, "tables": TABLES, "both": METRICS | TABLES}
        assert set(metrics.sources.cells) >= {cell_name(name) for name in sources}
    assert asyncio.all_tasks() == tasks


def test_what_a_section_is_offered_as() -> None:
    assert offered_by(PrometheusSource(type="prometheus", url="http://x")) == METRICS
    assert offered_by(SqlSource(type="sql", url="sqlite:///x")) == TABLES
    assert offered_by(custom("plain")) == METRICS | TABLES
    assert offered_by(McpSource(type="mcp", url="http://x")) == ()


def test_the_breaker_is_the_sources_own() -> None:
    own = SourceLimits(breaker_failures=9, breaker_reset_s=11.0)
    limits = agent_limits(own, FALLBACK)
    assert (limits.breaker_failures, limits.breaker_reset_s) == (9, 11.0)
