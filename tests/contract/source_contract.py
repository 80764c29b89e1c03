"""What every source must do, whatever is behind it.

A test module subclasses these and gives a `rig` fixture::

    class TestSomeSource(SourceContract):
        @pytest.fixture
        async def rig(self, tmp_path: Path) -> AsyncIterator[Rig]: ...

`ServerContract` adds what a source must do whose server can die, `MetricsContract` what one must
do that takes `Samples` and `Aggregate`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.contract.metrics_cases import METRICS_CASES, REFUSED_CASES, MetricsCase
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Answer, Query, decode_answer, encode_answer
from triage.ports import Source

TIMEOUT_S = 30.0  # seconds; what must not be slow fails by hanging, not by missing this
CANCELLED_STEPS = 40  # loop iterations: more than an ask takes on any of the sources


def same(one: Answer, other: Answer) -> bool:
    """Equal as evidence is: NaN equals NaN, 1 does not equal 1.0."""
    return encode_answer(one) == encode_answer(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """`source` is open. `filled` is answered with `answer`, which has more than one row, and
    `empty` with `nothing`. `strange` is a query of a type the source does not take, None when it
    takes all. `make` gives another source on the same backend, not open."""

    source: Source
    filled: Query
    answer: Answer
    empty: Query
    nothing: Answer = ()
    strange: Query | None = None
    make: Callable[[], Source]


class SourceContract:
    async def test_answers_with_what_the_backend_holds(self, rig: Rig) -> None:
        assert same(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)

    async def test_an_empty_result_is_an_answer(self, rig: Rig) -> None:
        assert same(await rig.source.ask(rig.empty, timeout_s=TIMEOUT_S), rig.nothing)

    async def test_the_same_query_has_the_same_answer(self, rig: Rig) -> None:
        bodies = {
            encode_answer(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S)) for _ in range(20)
        }
        assert len(bodies) == 1

    async def test_evidence_decodes_to_what_the_tool_saw(self, rig: Rig) -> None:
        for query in (rig.filled, rig.empty):
            live = await rig.source.ask(query, timeout_s=TIMEOUT_S)
            decoded = decode_answer(encode_answer(live))
            assert repr(decoded) == repr(live)  # repr: NaN is not equal to itself

    async def test_a_query_of_another_kind_is_the_tools_fault(self, rig: Rig) -> None:
        if rig.strange is None:
            return  # it takes every kind
        with pytest.raises(ToolFailed) as caught:
            await rig.source.ask(rig.strange, timeout_s=TIMEOUT_S)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED
        assert type(rig.strange).__name__.lower() in caught.value.detail

    async def test_asks_may_overlap(self, rig: Rig) -> None:
        asked = [rig.filled if n % 3 else rig.empty for n in range(30)]
        answers = await asyncio.gather(
            *(rig.source.ask(query, timeout_s=TIMEOUT_S) for query in asked)
        )
        for query, answer in zip(asked, answers, strict=True):
            assert same(answer, rig.answer if query is rig.filled else rig.nothing)

    async def test_cancelled_at_any_await_it_stays_usable(self, rig: Rig) -> None:
        for steps in range(CANCELLED_STEPS):
            task = asyncio.create_task(rig.source.ask(rig.empty, timeout_s=TIMEOUT_S))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            assert isinstance(outcome, asyncio.CancelledError) or same(outcome, rig.nothing)
        assert same(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)

    async def test_cancelling_one_ask_leaves_the_others_alone(self, rig: Rig) -> None:
        tasks = [
            asyncio.create_task(rig.source.ask(rig.filled, timeout_s=TIMEOUT_S)) for _ in range(12)
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(same(outcome, rig.answer) for outcome in outcomes[1::2])

    async def test_close_without_open_and_twice(self, rig: Rig) -> None:
        source = rig.make()
        await source.close()
        await source.close()

    async def test_opens_again_after_close(self, rig: Rig) -> None:
        source = rig.make()
        for _ in range(2):
            await source.open()
            assert same(await source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)
            await source.close()

    def test_has_its_name(self, rig: Rig) -> None:
        assert rig.source.name == rig.filled.source


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRig(Rig):
    """`kill` ends the server at once, `start` brings it back at the same address; both return
    when it is so. They block, and are called in a thread."""

    kill: Callable[[], object]
    start: Callable[[], object]


class ServerContract:
    async def test_a_killed_server_is_an_outage_and_comes_back(self, server_rig: ServerRig) -> None:
        rig = server_rig
        await asyncio.gather(*(rig.source.ask(rig.filled, timeout_s=TIMEOUT_S) for _ in range(3)))
        await asyncio.to_thread(rig.kill)
        for _ in range(3):
            with pytest.raises(SourceFailed) as caught:
                await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S)
            assert caught.value.failure is SourceFailure.CONNECT
        await asyncio.to_thread(rig.start)
        assert same(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)

    async def test_a_restart_between_two_asks_goes_unnoticed(self, server_rig: ServerRig) -> None:
        rig = server_rig
        assert same(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)
        await asyncio.to_thread(rig.kill)
        await asyncio.to_thread(rig.start)
        assert same(await rig.source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)

    async def test_opens_while_the_server_is_down(self, server_rig: ServerRig) -> None:
        rig = server_rig
        await asyncio.to_thread(rig.kill)
        source = rig.make()
        await source.open()
        with pytest.raises(SourceFailed) as caught:
            await source.ask(rig.filled, timeout_s=TIMEOUT_S)
        assert caught.value.failure is SourceFailure.CONNECT
        await asyncio.to_thread(rig.start)
        assert same(await source.ask(rig.filled, timeout_s=TIMEOUT_S), rig.answer)
        await source.close()


class MetricsContract(SourceContract):
    """The backend holds `metrics_cases.STORED`, and the source is called `metrics`."""

    @pytest.mark.parametrize("case", METRICS_CASES, ids=lambda case: case.about)
    async def test_windows(self, rig: Rig, case: MetricsCase) -> None:
        answer = await rig.source.ask(case.query, timeout_s=TIMEOUT_S)
        assert encode_answer(answer) == encode_answer(case.answer)


class LiveMetricsContract(MetricsContract):
    @pytest.mark.parametrize("about", REFUSED_CASES)
    async def test_windows_that_mean_nothing_are_refused(self, rig: Rig, about: str) -> None:
        with pytest.raises(ToolFailed) as caught:
            await rig.source.ask(REFUSED_CASES[about], timeout_s=TIMEOUT_S)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED
