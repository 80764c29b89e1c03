"""Declarations from JSON Schemas, and what the type checker says with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pydantic_monty
import pytest

from tests.unit.dock_tools.dock_world import nodes, source_of
from tests.unit.fallback.asked import FACES, FakeCalls, opened, tool
from triage.fallback.prelude import prelude, without_imports
from triage.fallback.stubs import (
    HostTool,
    bound_names,
    prelude_stubs,
    python_type,
    shape,
    signature,
)

LABELS = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"type": "array"}, "Sequence[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "Sequence[str]"),
        ({"type": "object"}, "Mapping[str, Any]"),
        (LABELS, "Mapping[str, str]"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "number"}, {"enum": ["NaN"]}]}, "float | Literal['NaN']"),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", "b", 3, None, True]}, "Literal['a', 'b', 3, None, True]"),
        ({"enum": [1.5]}, "Any"),
        ({"enum": list(range(1000))}, "Any"),
        ({"const": "x"}, "Literal['x']"),
        ({"$ref": "#/$defs/word"}, "str"),
        ({"$ref": "#/$defs/none"}, "Any"),
        ({"$ref": "http://elsewhere/"}, "Any"),
        ({"type": "unheard of"}, "Any"),
        ({}, "Any"),
        (True, "Any"),
    ],
)
def test_types(schema: Any, expected: str) -> None:
    assert python_type(schema, {"$defs": {"word": {"type": "string"}}}) == expected


def test_shapes_for_a_reader() -> None:
    schema = FACES["samples"].output_schema
    assert schema is not None
    assert shape(schema, schema) == (
        '{"series": [{"labels": {name: string, ...}, "times": [number, ...],'
        " \"values\": [number | 'NaN' | '+Inf' | '-Inf', ...]}, ...]}"
    )


def host(properties: dict[str, Any] | None = None, **schema: Any) -> HostTool:
    given = tool("t", properties, **schema)
    return HostTool(
        name="s_t", source="s", tool="t", description="", input_schema=given.input_schema
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (host(additionalProperties=False), "()"),
        (host(), "(**others: Any)"),
        (host({"a": {"type": "string"}}, required=["a"]), "(*, a: str)"),
        (host({"a": {"type": "string"}}), "(*, a: str = ...)"),
        (host({"class": {}, "b": {}}), "(*, b: Any = ..., **others: Any)"),
        (host({"a": {}}, additionalProperties=True), "(*, a: Any = ..., **others: Any)"),
    ],
)
def test_signatures(given: HostTool, expected: str) -> None:
    assert signature(given) == f"async def s_t{expected} -> Envelope"


def test_every_name_of_the_prelude_is_declared() -> None:
    bound = bound_names(prelude_stubs())
    names = prelude().rpartition("\n(\n")[2].partition("\n) = _prelude()")[0]
    defined = {name.strip() for name in names.split(",") if name.strip()} - {"next"}
    assert defined <= bound | {"UTC", "Query", "Answer"}
    assert {"submit", "site", "params", "context", "run_tool", "asset_id"} <= bound


@pytest.fixture(scope="module")
def pool() -> Iterator[pydantic_monty.Monty]:
    with pydantic_monty.Monty(min_processes=1, max_processes=1) as pool:
        yield pool


async def metrics_stubs() -> str:
    return (await opened(FakeCalls({"metrics": list(FACES.values())}))).stubs


def complaint(pool: pydantic_monty.Monty, declarations: str, code: str) -> str:
    """Of the type checker; empty when it has none."""
    with pool.checkout(
        type_check=True, type_check_stubs=declarations, type_check_format="concise"
    ) as session:
        try:
            session.feed_run(without_imports(code))
        except pydantic_monty.MontyTypingError as error:
            return error.display()
        except pydantic_monty.MontyRuntimeError:
            pass  # it was checked before it ran, and here there is nothing to run with
        return ""


CALL = 'await metrics_samples(selector="up", start=ago(60), end=fired_at)'


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (f'r = {CALL}; x = r["data"]["series"] if r["ok"] else r["error"]', ""),
        (f'r = {CALL.removeprefix("await ")}; x = r["ok"]', "Cannot subscript"),
        (f'r = {CALL}; x = r["dat"]', 'Unknown key "dat"'),
        ('await metrics_samples(selector="up", start=ago(60))', "parameter `end`"),
        ('await metrics_samples("up", ago(60), fired_at)', "positional"),
        ('await metrics_samples(selector=5, start="", end="")', "Expected `str`"),
        ('await metrics_samples(selector="", start="", end="", step=1)', "`step`"),
        ('await metrics_aggregate(selector="", start="", end="", function="avg")', "Expected"),
        ('await metrics_aggregate(selector="", start="", end="", function="max")', ""),
        ('await metrics_query(sql="SELECT 1", params={"a": 1, "b": None})', ""),
        ("await metrics_write(x=1)", "`metrics_write` used when not defined"),
        ('await submit(verdict="true" if entity else "false", explanation=site)', ""),
        ("await submit()", "parameter `verdict`"),
        ("x = mean([1.0]) + median([2.0]) + params['a']", ""),
        ("x = quantile([1.0])", "parameter `q`"),
        ("samples = 3; last = 4; mean = [5]; site = 6; x = samples + last", ""),
        ("if conclude([], '').value: pass", "Boolean conversion"),
        ("x = timestamp - timedelta(seconds=params['a'])", ""),
        ("from datetime import UTC, datetime; x = datetime.fromtimestamp(1.5, UTC)", ""),
        ("from triage.tool_api import samples, held; x = held", ""),
        ("await submit_verdict(no_data('nothing', subject=entity))", ""),
        ("x = context.localise('2026-01-01', fold=1) - timestamp", ""),
        ("await run_tool(lambda w, t, c: [], lambda w, t, c: no_data('x'))", ""),
    ],
)
async def test_what_the_type_checker_says(
    pool: pydantic_monty.Monty, code: str, problem: str
) -> None:
    said = complaint(pool, await metrics_stubs(), code)
    assert problem in said
    assert bool(problem) == bool(said), said


@pytest.mark.parametrize("node", nodes())
async def test_every_tool_passes_the_type_checker(pool: pydantic_monty.Monty, node: str) -> None:
    code = without_imports(source_of(node).read_text(encoding="utf-8"))
    with pool.checkout(
        type_check=True, type_check_stubs=await metrics_stubs(), type_check_format="concise"
    ) as session:
        session.feed_run(code)
