"""A face whose source refuses, fails, hangs or is gone; and what never gets as far as it."""

from __future__ import annotations

import asyncio
import json
from math import nan
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.metrics_cases import METRICS_CASES, REFUSED_CASES, SOURCE, in_memory
from tests.contract.source_contract import same
from tests.integration.face_world import (
    LEVEL,
    LONG_S,
    SHORT_S,
    WINDOW,
    as_call,
    ask,
    failed,
    metrics,
    read,
    refused,
)
from triage.adapters.mcp import FaceSource
from triage.adapters.memory import MemorySeries, MemorySource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Answer, Query, Reading
from triage.tool_api import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def source() -> MemorySource:
    return metrics()


@pytest.fixture
async def face(source: MemorySource) -> AsyncIterator[FaceSource]:
    face = FaceSource(source)
    await face.open()
    yield face
    await face.close()


# --- refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "problem"),
    [
        ("samples", {**LEVEL, "step": 15}, "'step' was unexpected"),
        ("samples", {**WINDOW}, "'selector' is a required property"),
        ("samples", {**LEVEL, "selector": 3}, "argument 'selector'"),
        ("samples", {**LEVEL, "selector": "x" * 70_000}, "is too long"),
        ("samples", {**LEVEL, "start": "2026-01-05T12:00:00"}, "has no offset"),
        ("samples", {**LEVEL, "end": "yesterday"}, "end 'yesterday' is no ISO 8601 time"),
        ("samples", {**LEVEL, "start": "0001-01-01T00:00:00+14:00"}, "is no ISO 8601 time"),
        ("samples", {**LEVEL, "start": WINDOW["end"]}, "the window is empty"),
        ("aggregate", LEVEL, "'function' is a required property"),
        ("aggregate", {**LEVEL, "function": "avg"}, "argument 'function'"),
        ("aggregate", {**LEVEL, "function": "quantile", "quantile": 1.5}, "argument 'quantile'"),
        ("aggregate", {**LEVEL, "function": "quantile", "quantile": nan}, "are not JSON"),
        ("query", {"sql": "SELECT 1", "limit": 5}, "'limit' was unexpected"),
        ("query", {"sql": "SELECT 1", "params": [1]}, "argument 'params'"),
    ],
)
async def test_refused_before_the_source_is_asked(
    face: FaceSource, source: MemorySource, tool: str, given: dict[str, Any], problem: str
) -> None:
    assert problem in await refused(face, tool, **given)
    assert source.asked == []


@pytest.mark.parametrize("arguments", ["[]", "{", "null", '"selector"'])
async def test_arguments_that_are_no_object(face: FaceSource, arguments: str) -> None:
    query = call(SOURCE, "samples")._replace(arguments=arguments)
    with pytest.raises(ToolFailed, match="its arguments are"):
        await face.ask(query, timeout_s=LONG_S)


async def test_windows_that_mean_nothing_are_refused(face: FaceSource) -> None:
    for query in REFUSED_CASES.values():
        with pytest.raises(ToolFailed) as caught:
            await face.ask(as_call(query), timeout_s=LONG_S)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED


async def test_what_the_source_refuses_is_a_tools_error(
    face: FaceSource, source: MemorySource
) -> None:
    source.fail_with(ToolFailed(ToolFailure.QUERY_REJECTED, "'up{' is no selector"))
    assert "reported an error: 'up{' is no selector" in await refused(face, "samples", **LEVEL)
    # A kind of query that the source does not take.
    source.fail_with(None)
    assert "not rows" in await refused(face, "query", sql="SELECT 1")


async def test_too_large_is_told_from_refused(face: FaceSource, source: MemorySource) -> None:
    source.fail_with(ToolFailed(ToolFailure.ANSWER_TOO_LARGE, "more than 7 rows: narrow it"))
    with pytest.raises(ToolFailed, match="more than 7 rows") as caught:
        await ask(face, "samples", **LEVEL)
    assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE


async def test_an_answer_over_the_limit() -> None:
    sized = len(json.dumps(await _level(1 << 20), separators=(",", ":")))
    assert await _level(sized)
    with pytest.raises(ToolFailed) as caught:
        await _level(sized - 1)
    assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE


async def _level(max_bytes: int) -> Any:
    face = FaceSource(metrics(), max_bytes=max_bytes)
    await face.open()
    try:
        return await ask(face, "samples", **LEVEL)
    finally:
        await face.close()


# --- outages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", list(SourceFailure))
async def test_an_outage_comes_out_as_it_was(
    face: FaceSource, source: MemorySource, failure: SourceFailure
) -> None:
    source.fail_with(SourceFailed(failure, f"source '{SOURCE}': nobody is there"))
    caught = await failed(face)
    assert caught.failure is failure
    assert caught.detail == f"source '{SOURCE}': tool 'samples': nobody is there"
    source.fail_with(None)
    assert await ask(face, "samples", **LEVEL)


@pytest.mark.parametrize("answer", [({"a": 1},), [], None, (Reading({}, 1.0),)])
async def test_what_is_no_answer_to_the_query(answer: Any) -> None:
    face = FaceSource(MemorySource(SOURCE, lambda _: answer))
    await face.open()
    try:
        assert (await failed(face)).failure is SourceFailure.PROTOCOL
    finally:
        await face.close()


async def test_a_fault_of_the_source_itself_is_contained(
    face: FaceSource, source: MemorySource
) -> None:
    source.fail_with(ZeroDivisionError("secret detail"))
    caught = await failed(face)
    assert caught.failure is SourceFailure.SERVER_ERROR
    assert "secret" not in caught.detail
    source.fail_with(None)
    assert await ask(face, "samples", **LEVEL)


# --- time, and many at once -------------------------------------------------------------------


class Timed(MemorySource):
    """Notes how long it is given, and sees itself cancelled."""

    def __init__(self) -> None:
        super().__init__(SOURCE, MemorySeries(in_memory()))
        self.given_s: list[float] = []
        self.cancelled = asyncio.Event()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.given_s.append(timeout_s)
        try:
            return await super().ask(query, timeout_s=LONG_S)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
async def timed() -> AsyncIterator[tuple[FaceSource, Timed]]:
    source = Timed()
    face = FaceSource(source)
    await face.open()
    yield face, source
    source.release()
    await face.close()


async def test_the_source_has_the_callers_time(timed: tuple[FaceSource, Timed]) -> None:
    face, source = timed
    await ask(face, "samples", timeout_s=4000.0, **LEVEL)
    assert 3000.0 < source.given_s[0] <= 4000.0


async def test_a_source_that_never_answers(timed: tuple[FaceSource, Timed]) -> None:
    face, source = timed
    source.hold()
    assert (await failed(face, timeout_s=SHORT_S)).failure is SourceFailure.TIMEOUT
    await source.cancelled.wait()
    source.release()
    assert await ask(face, "samples", **LEVEL)


async def test_cancelling_reaches_the_source(timed: tuple[FaceSource, Timed]) -> None:
    face, source = timed
    source.hold()
    waiting = asyncio.create_task(ask(face, "samples", **LEVEL))
    await source.waiting.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await source.cancelled.wait()


async def test_many_at_once_and_one_that_hangs(face: FaceSource, source: MemorySource) -> None:
    source.hold()
    hanging = asyncio.create_task(ask(face, "samples", **LEVEL))
    await source.waiting.wait()
    gate, source._gate = source._gate, None  # noqa: SLF001 - only the one above stays held
    queries = [as_call(case.query) for case in METRICS_CASES]
    documents = await asyncio.gather(*(face.ask(query, timeout_s=LONG_S) for query in queries))
    for case, document in zip(METRICS_CASES, documents, strict=True):
        assert same(read(document), case.answer)
    assert not hanging.done()
    assert gate is not None
    gate.set()
    assert len((await hanging)["series"]) == 2


# --- life -------------------------------------------------------------------------------------


async def test_close_while_asked_and_open_again() -> None:
    tasks = asyncio.all_tasks()
    source = metrics()
    face = FaceSource(source)
    assert (await failed(face)).failure is SourceFailure.CONNECT
    with pytest.raises(SourceFailed):
        await face.tools(timeout_s=LONG_S)
    await face.open()
    source.hold()
    waiting = asyncio.create_task(failed(face))
    await source.waiting.wait()
    await face.close()
    assert (await waiting).failure is SourceFailure.CONNECT
    source.release()
    await face.close()
    assert (await failed(face)).failure is SourceFailure.CONNECT
    await face.open()
    assert await ask(face, "samples", **LEVEL)
    await face.close()
    assert asyncio.all_tasks() == tasks
