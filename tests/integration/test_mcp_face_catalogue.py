"""A face over a source that tells what it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it ships no types

from tests.integration.face_world import LONG_S, SHORT_S, ask, metrics, refused
from triage.adapters.mcp import EVERYTHING, METRICS, TABLES, FaceSource
from triage.adapters.mcp.face_catalogue import KEPT_S
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Catalogue, Column, Metric
from triage.ports import Catalogued

GAUGES = {
    "air_pressure": Metric(("asset", "site"), "Supply  at the\nmain", "gauge", "bar"),
    "air_flow": Metric(("asset",)),
    "motor_on": Metric(kind="gauge"),
}
SHEETS = {
    "orders": (Column("id", "integer"), Column("lane", "text")),
    "people": (Column("id", "integer"),),
}
BOTH = Catalogue(metrics=GAUGES, tables=SHEETS)


class Library(MemorySource):
    """Tells of `held`, or raises it; `hold` and `release` are for this as well."""

    def __init__(self, held: Catalogue | Exception) -> None:
        super().__init__("floor", lambda _: ())
        self.held = held
        self.told = 0
        self.given_s: list[float] = []

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        self.told += 1
        self.given_s.append(timeout_s)
        if self._obstructed:
            await self._obstruct(LONG_S)
        if isinstance(self.held, Exception):
            raise self.held
        return self.held


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(
    source: MemorySource,
    offered: frozenset[str] = EVERYTHING,
    *,
    clock: Clock | None = None,
    max_bytes: int = 1 << 20,
) -> AsyncIterator[FaceSource]:
    face = FaceSource(source, offered, monotonic=clock or Clock(), max_bytes=max_bytes)
    await face.open()
    try:
        yield face
    finally:
        source.release()
        await face.close()


async def names(face: FaceSource) -> set[str]:
    return {tool.name for tool in await face.tools(timeout_s=LONG_S)}


def named(document: dict[str, Any], key: str) -> list[str]:
    return [one["name"] for one in document[key]]


# --- what is on offer -------------------------------------------------------------------------


async def test_only_a_source_that_tells_has_the_tools() -> None:
    assert isinstance(Library(BOTH), Catalogued)
    assert not isinstance(metrics(), Catalogued)
    async with opened(metrics()) as face:
        assert await names(face) == EVERYTHING
        assert "there is no tool" in await refused(face, "metrics")


@pytest.mark.parametrize(
    ("offered", "held", "expected"),
    [
        (METRICS, BOTH, METRICS | {"metrics"}),
        (TABLES, BOTH, TABLES | {"tables"}),
        (EVERYTHING, BOTH, EVERYTHING | {"metrics", "tables"}),
        (EVERYTHING, Catalogue(metrics=GAUGES), METRICS | {"metrics"}),
        (EVERYTHING, Catalogue(tables=SHEETS), TABLES | {"tables"}),
        # It may have something later.
        (EVERYTHING, Catalogue(), EVERYTHING | {"metrics", "tables"}),
        (TABLES, Catalogue(metrics=GAUGES), TABLES | {"tables"}),
    ],
)
async def test_tools_are_for_what_there_is(
    offered: frozenset[str], held: Catalogue, expected: frozenset[str]
) -> None:
    async with opened(Library(held), offered) as face:
        assert await names(face) == expected


async def test_a_source_that_cannot_tell_yet_is_offered_whole() -> None:
    source = Library(SourceFailed(SourceFailure.CONNECT, "starting"))
    async with opened(source) as face:
        assert await names(face) == EVERYTHING | {"metrics", "tables"}
        source.hold()
        assert await face.tools(timeout_s=SHORT_S)
        source.release()
        source.held = Catalogue(metrics=GAUGES)
        assert await names(face) == METRICS | {"metrics"}
        told = source.told
        await names(face)
        assert source.told == told, "what it has is known"


async def test_schemas_are_strict() -> None:
    async with opened(Library(BOTH)) as face:
        tools = {tool.name: tool for tool in await face.tools(timeout_s=LONG_S)}
        for name in ("metrics", "tables"):
            schema, document = tools[name].output_schema, await ask(face, name)
            Draft202012Validator.check_schema(schema)
            assert Draft202012Validator(schema).is_valid(document)
            assert not Draft202012Validator(schema).is_valid({**document, "other": 1})
        refusals: list[tuple[dict[str, Any], str]] = [
            ({"like": "air"}, "'like' was unexpected"),
            ({"limit": 0}, "argument 'limit'"),
            ({"limit": 1000}, "argument 'limit'"),
            ({"contains": ["air"]}, "argument 'contains'"),
            ({"contains": "x" * 501}, "is too long"),
        ]
        for given, problem in refusals:
            assert problem in await refused(face, "metrics", **given)


# --- answers ----------------------------------------------------------------------------------


async def test_metrics() -> None:
    async with opened(Library(BOTH)) as face:
        assert await ask(face, "metrics", contains="PRESSURE air") == {
            "metrics": [
                {
                    "name": "air_pressure",
                    "labels": ["asset", "site"],
                    "help": "Supply at the main (gauge, bar)",
                },
                {"name": "air_flow", "labels": ["asset"], "help": ""},
            ],
            "more": 0,
        }
        assert named(await ask(face, "metrics"), "metrics") == sorted(GAUGES)
        first = await ask(face, "metrics", contains="gauge", limit=1)
        assert (named(first, "metrics"), first["more"]) == (["air_pressure"], 1)
        (motor,) = (await ask(face, "metrics", contains="motor"))["metrics"]
        assert motor == {"name": "motor_on", "labels": [], "help": "gauge"}
        assert await ask(face, "metrics", contains="valve") == {"metrics": [], "more": 0}


async def test_tables() -> None:
    async with opened(Library(BOTH)) as face:
        assert await ask(face, "tables", contains="lane") == {
            "tables": [
                {
                    "name": "orders",
                    "columns": [
                        {"name": "id", "type": "integer"},
                        {"name": "lane", "type": "text"},
                    ],
                }
            ],
            "more": 0,
        }
        assert named(await ask(face, "tables"), "tables") == ["orders", "people"]


async def test_an_answer_has_bounds() -> None:
    many = {f"m{n:04}": Metric(tuple(f"l{n}" for n in range(500)), "x" * 9000) for n in range(500)}
    async with opened(Library(Catalogue(metrics=many))) as face:
        document = await ask(face, "metrics")
        assert (len(document["metrics"]), document["more"]) == (50, 450)
        assert len(document["metrics"][0]["help"]) < 300
        assert len(document["metrics"][0]["labels"]) < 100
    async with opened(Library(Catalogue(metrics=many)), max_bytes=5000) as face:
        with pytest.raises(ToolFailed) as caught:
            await ask(face, "metrics")
        assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
        assert await ask(face, "metrics", limit=1)


# --- asked seldom -----------------------------------------------------------------------------


async def test_what_it_told_is_used_for_a_minute() -> None:
    clock, source = Clock(), Library(BOTH)
    async with opened(source, METRICS, clock=clock) as face:
        for _ in range(3):
            await ask(face, "metrics", contains="air")
        assert source.told == 1
        source.held = Catalogue(metrics={"newer": Metric()})
        clock.now += KEPT_S - 1
        assert named(await ask(face, "metrics"), "metrics") == sorted(GAUGES)
        clock.now += 1
        assert named(await ask(face, "metrics"), "metrics") == ["newer"]
        assert source.told == 2


async def test_one_asks_for_all() -> None:
    source = Library(BOTH)
    async with opened(source, METRICS) as face:
        source.hold()
        waiting = [asyncio.create_task(ask(face, "metrics")) for _ in range(5)]
        await source.waiting.wait()
        source.release()
        documents = await asyncio.gather(*waiting)
        assert all(document == documents[0] for document in documents)
        assert source.told == 1


async def test_one_that_gives_up_leaves_it_to_the_next() -> None:
    source = Library(BOTH)
    async with opened(source, METRICS) as face:
        source.hold()
        first = asyncio.create_task(ask(face, "metrics"))
        await source.waiting.wait()
        second = asyncio.create_task(ask(face, "metrics"))
        source.waiting.clear()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await source.waiting.wait()
        source.release()
        assert named(await second, "metrics") == sorted(GAUGES)
        assert source.told == 2
        assert 0 < source.given_s[1] <= LONG_S


async def test_what_it_fails_with_comes_out_as_it_was_and_is_not_kept() -> None:
    source = Library(SourceFailed(SourceFailure.SERVER_ERROR, "source 'floor': broken"))
    async with opened(source, METRICS) as face:
        with pytest.raises(SourceFailed) as caught:
            await ask(face, "metrics")
        assert caught.value.failure is SourceFailure.SERVER_ERROR
        assert caught.value.detail == "source 'floor': tool 'metrics': broken"
        source.held = ToolFailed(ToolFailure.QUERY_REJECTED, "not told")
        assert "not told" in await refused(face, "metrics")
        source.held = ToolFailed(ToolFailure.ANSWER_TOO_LARGE, "too many")
        with pytest.raises(ToolFailed) as large:
            await ask(face, "metrics")
        assert large.value.failure is ToolFailure.ANSWER_TOO_LARGE
        source.held = BOTH
        assert await ask(face, "metrics")


async def test_a_source_that_never_tells() -> None:
    source = Library(BOTH)
    async with opened(source, METRICS) as face:
        source.hold()
        with pytest.raises(SourceFailed) as caught:
            await ask(face, "metrics", timeout_s=SHORT_S)
        assert caught.value.failure is SourceFailure.TIMEOUT
        source.release()
        assert await ask(face, "metrics")
