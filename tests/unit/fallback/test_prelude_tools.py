"""Every tool of both libraries says in the sandbox what it says in process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import pydantic_monty
import pytest

from tests.unit.dock_tools.dock_world import Case, judge, profile_of, source_of
from tests.unit.dock_tools.dock_world import World as Dock
from tests.unit.dock_tools.test_every_tool import CASES
from tests.unit.examples import host_world
from tests.unit.examples.host_world import HOST, ramp
from tests.unit.examples.host_world import World as Host
from tests.unit.examples.test_host_cpu import cpu, top, written
from tests.unit.examples.test_host_disk import MOUNTED, disk
from tests.unit.examples.test_host_reach import port
from tests.unit.fallback.monty import plain_inputs, sandboxed
from triage.fallback.prelude import without_imports
from triage.model.query import Aggregate, Answer, Call, Query, Rows, Samples
from triage.model.site import Site
from triage.model.verdict import Verdict

RUN = "\nawait run_tool(queries, evaluate)\n0"
FEW = 2  # cases of a node: the first of each verdict, then the first others
HOST_NODES = sorted(path.name for path in (HOST / "tools_lib").iterdir())
HostFunction = Callable[..., Any]


def spelled(value: float) -> float | str:
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


def ok(data: Any) -> dict[str, Any]:
    return {"ok": True, "data": json.loads(json.dumps(data)), "error": ""}


class Sources:
    """Host functions over the answers of a made world, as sources' MCP servers give them."""

    def __init__(self, source: str, answer: Callable[[Query], Answer]) -> None:
        self._source = source
        self._answer = answer
        self.asked: list[Query] = []
        self.submitted: list[dict[str, Any]] = []

    def functions(self, tools: tuple[str, ...] = ()) -> dict[str, HostFunction]:
        return {
            f"{self._source}_samples": self._samples,
            f"{self._source}_aggregate": self._aggregate,
            "warehouse_query": self._query,
            "submit": self._submit,
            **{f"equipment_{tool}": self._tool(tool) for tool in tools},
        }

    def _ask(self, query: Query) -> Any:
        self.asked.append(query)
        return self._answer(query)

    async def _samples(self, *, selector: str, start: str, end: str) -> dict[str, Any]:
        window = datetime.fromisoformat(start), datetime.fromisoformat(end)
        found = self._ask(Samples(self._source, selector, *window))
        return ok(
            {
                "series": [
                    {
                        "labels": dict(one.labels),
                        "times": one.times,
                        "values": [spelled(value) for value in one.values],
                    }
                    for one in found
                ]
            }
        )

    async def _aggregate(
        self, *, selector: str, start: str, end: str, function: Any, quantile: float
    ) -> dict[str, Any]:
        window = datetime.fromisoformat(start), datetime.fromisoformat(end)
        found = self._ask(Aggregate(self._source, selector, *window, function, quantile))
        readings = [{"labels": dict(one.labels), "value": spelled(one.value)} for one in found]
        return ok({"readings": readings})

    async def _query(self, *, sql: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return ok({"rows": self._ask(Rows("warehouse", sql, tuple(sorted(params.items()))))})

    def _tool(self, tool: str) -> HostFunction:
        async def function(**arguments: Any) -> dict[str, Any]:
            text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
            return ok(self._ask(Call("equipment", tool, text)))

        return function

    async def _submit(self, **verdict: Any) -> dict[str, Any]:
        self.submitted.append(verdict)
        return ok(None)


def document(verdict: Verdict) -> str:
    """By repr, which tells every bit of a float."""
    return repr(
        {
            "verdict": verdict.value.value,
            "explanation": verdict.explanation,
            "subject": verdict.subject,
            "clauses": [clause._asdict() for clause in verdict.clauses],
        }
    )


def submitted(said: dict[str, Any]) -> str:
    return repr({name: said[name] for name in ("verdict", "explanation", "subject", "clauses")})


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def in_sandbox(
    code: str, inputs: Mapping[str, Any], functions: Mapping[str, HostFunction]
) -> None:
    async with sandboxed(inputs, functions) as session:
        await session.run(without_imports(code) + RUN)


def some() -> list[Case]:
    chosen: dict[str, list[Case]] = {}
    for first in (True, False):
        for case in CASES:
            of_node = chosen.setdefault(case.node, [])
            new = case.truth not in {one.truth for one in of_node}
            if len(of_node) < FEW and new is first:
                of_node.append(case)
    return [case for cases in chosen.values() for case in cases]


def dock_inputs(world: Dock) -> dict[str, Any]:
    profile = profile_of(world)
    return plain_inputs(
        site=profile.site, fired_at=world.at, entity=world.entity, params=profile.params
    )


def check(sources: Sources, expected: Verdict) -> None:
    assert [submitted(one) for one in sources.submitted] == [document(expected)]
    assert sources.asked
    assert len(sources.asked) == len(set(sources.asked))


@pytest.mark.parametrize("case", some(), ids=lambda case: f"{case.node}-{case.truth}")
async def test_dock(case: Case) -> None:
    sources = Sources("metrics", case.world.answer)
    functions = sources.functions(tuple(case.world.calls))
    await in_sandbox(text(source_of(case.node)), dock_inputs(case.world), functions)
    check(sources, judge(case.node, case.world))


HOST_METRICS = (
    "node_memory_MemAvailable_bytes",
    "node_memory_MemTotal_bytes",
    "node_memory_AnonPages_bytes",
    "node_vmstat_pswpin",
    "node_vmstat_pswpout",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "up",
)
EVERYTHING = Host(
    series=[
        *cpu({"user": 0.75}, {"user": 0.5, "iowait": 0.25}),
        *disk("/data", 95, per_hour=2.0),
        written(5),
        top("7", "yes", [0.7] * 20),
        *port("eth0", 10, 990),
        ramp("node_disk_io_time_seconds_total", 0.5, device="sda"),
        *(ramp(metric, 2.5, start=1e9, job="node") for metric in HOST_METRICS),
    ],
    parents=MOUNTED,
)


@pytest.mark.parametrize("world", [EVERYTHING, Host(series=[])], ids=["everything", "nothing"])
@pytest.mark.parametrize("node", HOST_NODES)
async def test_host(node: str, world: Host) -> None:
    sources = Sources("prometheus", world.answer)
    params = {name: entry["value"] for name, entry in host_world.sop()["params"].items()}
    inputs = plain_inputs(
        site=Site(name="lab", zone="UTC", units={}, facts={}),
        fired_at=host_world.NOW,
        entity=world.entity,
        params=params,
        parents=world.parents,
    )
    path = HOST / "tools_lib" / node / "v1.py"
    await in_sandbox(text(path), inputs, sources.functions())
    check(sources, host_world.judge(node, world))


def test_the_hosts_world_is_worth_asking() -> None:
    """Most of its tools find in it what they look for."""
    said = [host_world.truth(node, EVERYTHING) for node in HOST_NODES]
    assert said.count("no_data") <= 4
    assert {"true", "false"} <= set(said)


DYNAMIC = """
from triage.tool_api import Context, Verdict, compare, conclude, samples, selector

async def evaluate(warehouse: str, timestamp, context: Context) -> Verdict:
    query = samples("prometheus", selector("up"), timestamp, 60)
    first = await context.ask(query)
    again = await context.ask(query)
    assert first == again == context.answer(query)
    return conclude([compare("up", first[0].values[-1], ">", 0)], "asked in steps")

await run_tool(None, evaluate)
0
"""


async def test_a_tool_that_asks_in_steps_asks_once() -> None:
    sources = Sources("prometheus", EVERYTHING.answer)
    async with sandboxed(plain_inputs(fired_at=host_world.NOW), sources.functions()) as session:
        await session.run(without_imports(DYNAMIC))
    assert [one["verdict"] for one in sources.submitted] == ["true"]
    assert len(sources.asked) == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("await ask(samples('nowhere', 'up', timestamp, 60))", "no host function nowhere_samples"),
        ("await ask(samples('down', 'up', timestamp, 60))", "down_samples: it is down"),
        ("context.answer(samples('m', 'up', timestamp, 60))", r"queries\(\) did not return"),
        ("await run_tool(lambda w, t, c: [c.parents['x']], None)", "before any parent"),
        ("await run_tool(lambda w, t, c: c.parents.get('x'), None)", "before any parent"),
    ],
)
async def test_what_it_refuses(code: str, message: str) -> None:
    async def down_samples(**_: Any) -> dict[str, Any]:
        return {"ok": False, "data": None, "error": "it is down"}

    async with sandboxed(plain_inputs(), {"down_samples": down_samples}) as session:
        with pytest.raises(pydantic_monty.MontyRuntimeError, match=message):
            await session.run(code)
