"""A face: any source as an MCP server's tools, asked over MCP in this process."""

from __future__ import annotations

import asyncio
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it ships no types

from tests.contract.metrics_cases import METRICS_CASES, SOURCE, MetricsCase, at
from tests.contract.source_contract import Rig, SourceContract, same
from tests.integration.face_world import (
    LEVEL,
    LONG_S,
    WINDOW,
    as_call,
    ask,
    metrics,
    read,
    refused,
)
from triage.adapters.mcp import EVERYTHING, METRICS, TABLES, FaceSource
from triage.adapters.memory import MemorySource
from triage.adapters.sql import SqlSource
from triage.model.query import Rows, Series
from triage.ports import Connecting, Shelf, SourceTool
from triage.tool_api import call, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def source() -> MemorySource:
    return metrics()


@pytest.fixture
async def face(source: MemorySource) -> AsyncIterator[FaceSource]:
    face = FaceSource(source)
    await face.open()
    yield face
    await face.close()


@pytest.mark.both_loops
class TestFaceAsSource(SourceContract):
    @pytest.fixture
    async def rig(self) -> AsyncIterator[Rig]:
        def make() -> FaceSource:
            return FaceSource(metrics(), METRICS)

        source = make()
        await source.open()
        yield Rig(
            source=source,
            filled=call(SOURCE, "aggregate", function="sum", **LEVEL),
            answer={
                "readings": [
                    {"labels": {"host": "a"}, "value": 9.0},
                    {"labels": {"host": "b"}, "value": 50.75},
                ]
            },
            empty=call(SOURCE, "samples", selector="nobody_exports_this", **WINDOW),
            nothing={"series": []},
            strange=Rows(SOURCE, "select 1"),
            make=make,
        )
        await source.close()


# --- what is on offer -------------------------------------------------------------------------


@pytest.mark.parametrize("offered", [METRICS, TABLES, EVERYTHING])
async def test_tools_are_those_on_offer(offered: frozenset[str]) -> None:
    face = FaceSource(metrics(), offered)
    await face.open()
    try:
        assert isinstance(face, Shelf)
        assert isinstance(face, Connecting)
        assert [tool.name for tool in await face.tools(timeout_s=LONG_S)] == sorted(offered)
        missing = sorted({"samples", "aggregate", "query", "other"} - offered)
        for tool in missing:
            assert "there is no tool" in await refused(face, tool)
    finally:
        await face.close()


async def test_schemas_are_strict_and_told_of(face: FaceSource) -> None:
    tools = {tool.name: tool for tool in await face.tools(timeout_s=LONG_S)}
    for tool in tools.values():
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            Draft202012Validator.check_schema(schema)
            assert schema["additionalProperties"] is False
        assert len(tool.description) > 100
    assert "start < time <= end" in tools["samples"].description
    assert (
        "ISO 8601 with an offset"
        in tools["samples"].input_schema["properties"]["start"]["description"]
    )
    assert tools["aggregate"].input_schema["required"] == ["selector", "start", "end", "function"]
    assert tools["query"].input_schema["required"] == ["sql"]


def conforms(tool: SourceTool, document: Any) -> bool:
    valid: bool = Draft202012Validator(tool.output_schema).is_valid(document)
    return valid


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", METRICS_CASES, ids=lambda case: case.about)
async def test_the_answer_is_what_a_tool_gets(
    face: FaceSource, source: MemorySource, case: MetricsCase
) -> None:
    query = as_call(case.query)
    document = await face.ask(query, timeout_s=LONG_S)
    assert same(read(document), await source.ask(case.query, timeout_s=LONG_S))
    # Nobody checks this when a face answers: it would take longer than all the rest.
    tools = {tool.name: tool for tool in await face.tools(timeout_s=LONG_S)}
    assert conforms(tools[query.tool], document)  # type: ignore[union-attr] # it is a Call
    assert not conforms(tools["query"], document)


async def test_what_is_not_finite_is_spelled() -> None:
    odd = Series({"host": "a"}, (at(1).timestamp(), at(2).timestamp(), at(3).timestamp()), ())
    odd = Series(odd.labels, odd.times, (nan, inf, -inf))
    face = FaceSource(metrics(odd=(odd,)))
    await face.open()
    try:
        document = await ask(face, "samples", selector="odd", **WINDOW)
        assert document["series"][0]["values"] == ["NaN", "+Inf", "-Inf"]
        largest = await ask(face, "aggregate", selector="odd", function="max", **WINDOW)
        assert largest == {"readings": [{"labels": {"host": "a"}, "value": "+Inf"}]}
    finally:
        await face.close()


@given(
    st.lists(
        st.builds(
            lambda labels, points: Series(labels, *zip(*points, strict=True)),
            st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4),
            st.lists(
                st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats()),
                min_size=1,
                max_size=9,
            ),
        ),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_samples_come_through_as_they_are(series: list[Series]) -> None:
    async def through() -> Any:
        face = FaceSource(MemorySource(SOURCE, lambda _: tuple(series)))
        await face.open()
        try:
            return await ask(face, "samples", **LEVEL)
        finally:
            await face.close()

    assert same(read(asyncio.run(through())), tuple(series))


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[tuple[FaceSource, SqlSource]]:
    import sqlite3

    file = tmp_path / "floor.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE orders (id INTEGER, cell TEXT, weight REAL)")
        database.execute("INSERT INTO orders VALUES (1, 'a', 2.5), (2, NULL, NULL)")
    database.close()
    source = SqlSource("floor", f"sqlite:///{file}")
    await source.open()
    face = FaceSource(source, TABLES)
    await face.open()
    yield face, source
    await face.close()
    await source.close()


async def test_rows(tables: tuple[FaceSource, SqlSource]) -> None:
    face, source = tables
    sql = "SELECT id, cell, weight, :of AS of, :no AS no FROM orders WHERE id >= :least ORDER BY id"
    params: dict[str, Any] = {"least": 1, "of": "it's", "no": None}
    document = await ask(face, "query", sql=sql, params=params)
    assert document == {
        "rows": [
            {"id": 1, "cell": "a", "weight": 2.5, "of": "it's", "no": None},
            {"id": 2, "cell": None, "weight": None, "of": "it's", "no": None},
        ]
    }
    direct = await source.ask(rows("floor", sql, **params), timeout_s=LONG_S)
    assert same(tuple(document["rows"]), direct)
    assert await ask(face, "query", sql="SELECT id FROM orders WHERE 0") == {"rows": []}
    listed = await ask(face, "query", sql="SELECT sql FROM sqlite_master WHERE name = 'orders'")
    assert "weight REAL" in listed["rows"][0]["sql"]


async def test_refused_sql(tables: tuple[FaceSource, SqlSource]) -> None:
    face, _ = tables
    told = await refused(face, "query", sql="SELECT colour FROM orders")
    assert "no such column: colour" in told
    assert told.count("source 'floor'") == 1
    assert ":x" in await refused(face, "query", sql="SELECT :x")
    for writing in ("DELETE FROM orders", "DROP TABLE orders", "INSERT INTO orders VALUES (3,1,1)"):
        await refused(face, "query", sql=writing)
    assert (await ask(face, "query", sql="SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 2}]
    assert "params.x" in await refused(face, "query", sql="SELECT :x", params={"x": [1]})
    assert "params.x" in await refused(face, "query", sql="SELECT :x", params={"x": {"a": 1}})
