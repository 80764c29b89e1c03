"""Host functions: what may be called, with what, how often, and what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.fallback.asked import (
    FACES,
    Clock,
    FakeCalls,
    asked,
    down,
    metrics,
    opened,
    tool,
)
from triage.errors import ToolFailed, ToolFailure
from triage.fallback.host import MAX_ERROR, HostTools, Rates
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.fallback.names import function_names
from triage.model.query import Call
from triage.model.trace import CallRecord
from triage.ports import CallAnswer

WINDOW = {"start": "2026-11-18T15:00:00+00:00", "end": "2026-11-18T15:07:00+00:00"}


async def call(tools: HostTools, name: str = "metrics_samples", **arguments: Any) -> Any:
    return await tools.functions[name](**({"selector": "up", **WINDOW} | arguments))


async def test_a_call_and_its_record() -> None:
    calls = metrics(lambda _: {"series": [{"labels": {}, "times": [1], "values": ["NaN"]}]})
    tools = await opened(calls)
    answer = await call(tools)
    assert answer == {
        "ok": True,
        "data": {"series": [{"labels": {}, "times": [1], "values": ["NaN"]}]},
        "error": "",
    }
    arguments = (
        '{"end":"2026-11-18T15:07:00+00:00","selector":"up","start":"2026-11-18T15:00:00+00:00"}'
    )
    assert calls.called == [Call("metrics", "samples", arguments)]
    (record,) = tools.take_records()
    assert record._replace(answer_sha256="") == CallRecord(
        function="metrics_samples",
        arguments=arguments,
        ok=True,
        answer_bytes=55,
        elapsed_ms=0.0,
    )
    assert len(record.answer_sha256) == 64
    assert tools.take_records() == ()


async def test_functions_are_the_tools_of_the_declared_sources_by_name() -> None:
    calls = FakeCalls(
        {
            "metrics": [FACES["samples"]],
            "equipment.2": [tool("fault-code"), tool("carriers")],
            "other": [tool("unheard")],
        }
    )
    tools = await opened(calls, asked(sources=("metrics", "equipment.2", "metrics")))
    assert set(tools.functions) == {
        "metrics_samples",
        "equipment_2_fault_code",
        "equipment_2_carriers",
    }
    assert calls.listed == ["metrics", "equipment.2"]
    assert [one.name for one in tools.described] == [
        "equipment_2_carriers",
        "equipment_2_fault_code",
        "metrics_samples",
    ]
    for name in tools.functions:
        assert f"async def {name}(" in tools.stubs


async def test_sources_that_cannot_be_listed_are_told_of() -> None:
    refused = ToolFailed(ToolFailure.UNDECLARED_SOURCE, "not\nyours, password=hunter22")
    calls = FakeCalls({"metrics": down("no route"), "warehouse": refused, "ok": [tool("t")]})
    tools = await opened(calls, asked(sources=("metrics", "warehouse", "ok")))
    assert tools.unreachable == {
        "metrics": "no route",
        "warehouse": "not yours, password=[secret]",
    }
    assert set(tools.functions) == {"ok_t"}


async def test_a_source_that_failed_and_answers_again() -> None:
    ends = iter([down(), down(), {"series": []}])
    tools = await opened(metrics(lambda _: next(ends)))
    failed = await call(tools)
    assert failed["ok"] is False
    assert failed["error"] == ("the source did not answer (source_connect): connection refused")
    assert tools.failed_sources == {"metrics"}
    await call(tools)
    assert tools.failed_sources == {"metrics"}
    assert (await call(tools))["ok"] is True
    assert tools.failed_sources == set()
    assert [one.ok for one in tools.take_records()] == [False, False, True]


async def test_a_refused_query_is_no_outage() -> None:
    refusal = ToolFailed(ToolFailure.QUERY_REJECTED, "no such metric")
    tools = await opened(metrics(lambda _: refusal))
    assert await call(tools) == {"ok": False, "data": None, "error": "no such metric"}
    assert tools.failed_sources == set()


async def test_errors_are_one_line_without_secrets() -> None:
    detail = "bad\r\n\x1b[31mquery\x00 of jo@example.com with hunter2!\u2028" + "x" * 1000
    tools = await opened(
        metrics(lambda _: ToolFailed(ToolFailure.QUERY_REJECTED, detail)),
        mask=Mask((), ["hunter2!"]),
    )
    error = (await call(tools))["error"]
    assert error.startswith("bad [31mquery of [person] with [secret] xxx")
    assert error.isprintable()
    assert len(error) == MAX_ERROR
    assert tools.take_records()[0].error == error


async def test_arguments_are_recorded_as_the_model_may_see_them() -> None:
    calls = metrics()
    tools = await opened(calls, mask=Mask((), ["hunter2!"]))
    await call(tools, selector='up{key="hunter2!"}')
    assert "hunter2!" in calls.called[0].arguments
    assert "hunter2!" not in tools.take_records()[0].arguments
    await call(tools, selector="a" * 60_000)
    await call(tools, selector="a" * 60_001)
    first, second = (record.arguments for record in tools.take_records())
    assert len(first) < 2_200
    assert first != second


async def test_a_call_that_is_cut_off_leaves_a_record() -> None:
    begun = asyncio.Event()

    class Hanging(FakeCalls):
        async def call(self, query: Call) -> CallAnswer:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError(query)

    tools = await opened(Hanging({"metrics": [FACES["samples"]]}))
    task = asyncio.ensure_future(call(tools))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(one.ok, one.error) for one in tools.take_records()] == [
        (False, "cut off: the run was over")
    ]


async def test_calls_wait_for_their_turn() -> None:
    clock = Clock()
    rates = Rates(2, monotonic=clock)
    tools = await opened(metrics(), clock=clock, rates=rates)
    for _ in range(4):
        assert (await call(tools))["ok"] is True
    assert clock.slept == [0.5, 0.5]
    assert clock.now == 1001.0


def test_rates_are_of_a_tool_and_come_back_with_time() -> None:
    clock = Clock()
    rates = Rates(2, monotonic=clock, max_wait_s=1.0)
    assert [rates.reserve("m", "samples") for _ in range(6)] == [0, 0, 0.5, 1.0, None, None]
    assert rates.reserve("m", "aggregate") == 0
    assert rates.reserve("n", "samples") == 0
    clock.now += 10
    assert [rates.reserve("m", "samples") for _ in range(3)] == [0, 0, 0.5]


def test_a_rate_below_one_a_second() -> None:
    clock = Clock()
    rates = Rates(0.1, monotonic=clock)
    assert rates.reserve("m", "samples") == 0
    assert rates.reserve("m", "samples") is None
    clock.now += 8
    assert rates.reserve("m", "samples") == 2


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ([("m", "samples")], ["m_samples"]),
        ([("my-db", "list.all")], ["my_db_list_all"]),
        ([("a_b", "c"), ("a", "b_c")], ["a_b_c_1", "a_b_c_2"]),
        ([("a", "b_c"), ("a_b", "c"), ("a_b", "c_1")], ["a_b_c_2", "a_b_c_3", "a_b_c_1"]),
        ([("asset", "id")], ["asset_id_1"]),
        ([("1", "x")], ["x1_x"]),
        ([("_", "_import__")], ["x___import__"]),
        ([("é", "ü")], ["x___"]),
    ],
)
def test_names(keys: list[tuple[str, str]], names: list[str]) -> None:
    taken = {"asset_id"}
    found = function_names(keys, taken)
    assert [found[key] for key in sorted(keys)] == names
    assert function_names(reversed(keys), taken) == found


async def test_a_tool_whose_schema_is_none_is_left_out() -> None:
    calls = FakeCalls(
        {
            "s": [
                tool("good"),
                replace(tool("wrong"), input_schema={"type": "no such type"}),
                replace(tool("endless"), input_schema={"$ref": "#"}),
                replace(tool("remote"), input_schema={"$ref": "http://127.0.0.1:9/x.json"}),
            ]
        }
    )
    tools = await opened(calls, asked(sources=("s",)))
    assert set(tools.functions) == {"s_good"}


async def test_limits_are_of_the_attempt() -> None:
    tools = await opened(metrics(), limits=AgentLimits(calls=2))
    answers = [await call(tools) for _ in range(5)]
    assert [answer["ok"] for answer in answers] == [True, True, False, False, False]
    assert "all 2 calls" in answers[-1]["error"]
    assert [one.ok for one in tools.take_records()] == [True, True, False]
