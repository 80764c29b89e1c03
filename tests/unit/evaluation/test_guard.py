"""What stands between a tool's query and a source: slots, one retry, the breaker, the size."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.evaluation.virtual_time import VirtualLoop, on_virtual_time, settled
from tests.unit.evaluation.world import (
    MEMORY,
    guarded,
    memory,
    new_metrics,
    query,
    sample,
    value,
)
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.guard import Answered, GuardedSource, Reply, SourceLimits
from triage.model.query import Answer, Query

FOREVER = 1e9
DOWN = SourceFailed(SourceFailure.CONNECT, "down")


def reason(reply: Reply) -> str:
    return "" if reply.asked.failure is None else reply.asked.failure.reason


class Counting(MemorySource):
    """Tells how many asks were under way at once, and takes some (virtual) time for each."""

    def __init__(self, *, takes_s: float = 0.0) -> None:
        super().__init__(MEMORY, lambda _: value(1))
        self.under_way = 0
        self.most = 0
        self._takes_s = takes_s

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_task(_after(self._takes_s))
            return await super().ask(query, timeout_s=timeout_s)
        except TimeoutError:
            raise SourceFailed(SourceFailure.TIMEOUT, "slow") from None
        finally:
            self.under_way -= 1


async def _after(seconds: float) -> None:
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
    await passed


# --- retry ----------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_failed_call_is_tried_once_more() -> None:
    left: list[Exception] = [DOWN]
    metrics = new_metrics()
    source = MemorySource(MEMORY, lambda _: left.pop() if left else value(1))
    reply = await guarded(source, metrics=metrics).fetch(query("x"), FOREVER)
    assert isinstance(reply, Answered)
    assert len(source.asked) == 2
    assert sample(metrics, "triage_source_retries_total", source=MEMORY) == 1
    assert sample(metrics, "triage_source_calls_total", source=MEMORY, result="ok") == 1


@on_virtual_time
async def test_and_only_once() -> None:
    source = MemorySource(MEMORY, lambda _: DOWN)
    assert reason(await guarded(source).fetch(query("x"), FOREVER)) == "source_connect"
    assert len(source.asked) == 2


@on_virtual_time
async def test_the_second_tries_own_failure_is_what_is_told() -> None:
    left: list[Exception] = [ToolFailed(ToolFailure.QUERY_REJECTED, "bad"), DOWN]
    source = MemorySource(MEMORY, lambda _: left.pop())
    reply = await guarded(source).fetch(query("x"), FOREVER)
    assert reason(reply) == "query_rejected"


@pytest.mark.parametrize(
    "failure",
    [
        SourceFailed(SourceFailure.UNRECORDED, "purged"),
        ToolFailed(ToolFailure.QUERY_REJECTED, "bad"),
    ],
    ids=["unrecorded", "rejected"],
)
@on_virtual_time
async def test_what_would_fail_again_is_not_tried_again(failure: Exception) -> None:
    source = MemorySource(MEMORY, lambda _: failure)
    await guarded(source).fetch(query("x"), FOREVER)
    assert len(source.asked) == 1


@on_virtual_time
async def test_no_retry_once_the_budget_is_spent() -> None:
    source = memory()
    source.hold()
    reply = await guarded(source, SourceLimits(timeout_s=2)).fetch(query("x"), FOREVER)
    assert reason(reply) == "source_timeout"
    assert len(source.asked) == 1
    assert reply.asked.elapsed_ms == pytest.approx(2000)


@on_virtual_time
async def test_the_retry_has_what_the_first_try_left() -> None:
    class Slow(MemorySource):
        async def ask(self, query: Query, *, timeout_s: float) -> Answer:
            self.asked.append(query)
            await _after(min(1.5, timeout_s))
            raise DOWN

    source = Slow(MEMORY, {})
    reply = await guarded(source, SourceLimits(timeout_s=2)).fetch(query("x"), FOREVER)
    assert len(source.asked) == 2
    assert reply.asked.elapsed_ms == pytest.approx(2000)


@on_virtual_time
async def test_a_deadline_that_has_passed_asks_nothing() -> None:
    source = memory({"x": value(1)})
    assert reason(await guarded(source).fetch(query("x"), -1.0)) == "deadline"
    assert not source.asked


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "reason_"), [(100, ""), (101, "answer_too_large")])
@on_virtual_time
async def test_an_answer_over_the_limit_is_the_tools_failure(size: int, reason_: str) -> None:
    """The limit is on the bytes that would be stored."""
    frame = len(b'{"rows":[{"value":""}]}')
    source = MemorySource(MEMORY, lambda _: ({"value": "x" * (size - frame)},))
    one = guarded(source, SourceLimits(max_answer_bytes=100))
    for _ in range(10):
        reply = await one.fetch(query("x"), FOREVER)
        assert reason(reply) == reason_
    assert not one.breaker_is_open


# --- breaker --------------------------------------------------------------------------------------


def failing(*, failures: int = 3, reset_s: float = 5.0) -> tuple[MemorySource, GuardedSource]:
    source = memory({"x": value(1)})
    source.fail_with(DOWN)
    limits = SourceLimits(breaker_failures=failures, breaker_reset_s=reset_s)
    return source, guarded(source, limits)


@on_virtual_time
async def test_the_breaker_opens_after_so_many_failed_calls_in_a_row() -> None:
    source, one = failing(failures=3)
    for n in range(3):
        assert not one.breaker_is_open, n
        assert reason(await one.fetch(query("x"), FOREVER)) == "source_connect"
    assert one.breaker_is_open
    source.asked.clear()
    assert reason(await one.fetch(query("x"), FOREVER)) == "source_breaker_open"
    assert not source.asked, "refused at once, without asking"


@pytest.mark.parametrize("between", ["answered", "rejected"])
@on_virtual_time
async def test_an_answer_between_starts_the_count_anew(between: str) -> None:
    source, one = failing(failures=3)
    for _ in range(5):
        source.fail_with(DOWN)
        await one.fetch(query("x"), FOREVER)
        await one.fetch(query("x"), FOREVER)
        rejected = ToolFailed(ToolFailure.QUERY_REJECTED, "bad")
        source.fail_with(rejected if between == "rejected" else None)
        await one.fetch(query("x"), FOREVER)
    assert not one.breaker_is_open


@on_virtual_time
async def test_unrecorded_answers_do_not_open_it() -> None:
    source, one = failing(failures=2)
    source.fail_with(SourceFailed(SourceFailure.UNRECORDED, "purged"))
    for _ in range(10):
        assert reason(await one.fetch(query("x"), FOREVER)) == "unrecorded"


@on_virtual_time
async def test_after_a_while_one_call_alone_probes_and_closes_it() -> None:
    metrics = new_metrics()
    source = memory({"x": value(1)})
    one = guarded(source, SourceLimits(breaker_failures=2, breaker_reset_s=5), metrics=metrics)
    source.fail_with(DOWN)
    await one.fetch(query("x"), FOREVER)
    await one.fetch(query("x"), FOREVER)
    assert sample(metrics, "triage_source_breaker_open", source=MEMORY) == 1
    await _after(4.9)
    assert reason(await one.fetch(query("x"), FOREVER)) == "source_breaker_open"
    await _after(0.2)
    source.fail_with(None)
    source.hold()
    source.asked.clear()
    calls = [asyncio.create_task(one.fetch(query("x"), FOREVER)) for _ in range(10)]
    await settled()
    assert len(source.asked) == 1
    assert sum(call.done() for call in calls) == 9
    source.release()
    replies = [await call for call in calls]
    assert sorted(map(reason, replies)) == ["", *["source_breaker_open"] * 9]
    assert not one.breaker_is_open
    assert sample(metrics, "triage_source_breaker_open", source=MEMORY) == 0
    assert isinstance(await one.fetch(query("x"), FOREVER), Answered)


@on_virtual_time
async def test_a_probe_that_fails_leaves_it_open_for_as_long_again() -> None:
    source, one = failing(failures=2, reset_s=5)
    await one.fetch(query("x"), FOREVER)
    await one.fetch(query("x"), FOREVER)
    await _after(5.1)
    assert reason(await one.fetch(query("x"), FOREVER)) == "source_connect"
    source.fail_with(None)
    await _after(4.9)
    assert reason(await one.fetch(query("x"), FOREVER)) == "source_breaker_open"
    await _after(0.2)
    assert isinstance(await one.fetch(query("x"), FOREVER), Answered)


@on_virtual_time
async def test_a_probe_that_is_cancelled_lets_another_be_made() -> None:
    source, one = failing(failures=1, reset_s=1)
    await one.fetch(query("x"), FOREVER)
    await _after(1.1)
    source.fail_with(None)
    source.hold()
    probe = asyncio.create_task(one.fetch(query("x"), FOREVER))
    await source.waiting.wait()
    probe.cancel()
    await asyncio.wait([probe])
    source.release()
    assert isinstance(await one.fetch(query("x"), FOREVER), Answered)


@on_virtual_time
async def test_a_deadline_that_cuts_calls_off_early_does_not_blame_the_source() -> None:
    """Calls that other layers left no time for say nothing about the source's health."""
    source = memory({"x": value(1)})
    one = guarded(source, SourceLimits(breaker_failures=3, timeout_s=2))
    for _ in range(10):
        await one.fetch(query("x"), asyncio.get_running_loop().time() - 1)
    assert not one.breaker_is_open


# --- concurrency ----------------------------------------------------------------------------------


@on_virtual_time
async def test_no_more_calls_at_once_than_there_are_slots() -> None:
    source = Counting(takes_s=1)
    one = guarded(source, SourceLimits(max_concurrency=3, timeout_s=60))
    replies = await asyncio.gather(*(one.fetch(query(str(n)), FOREVER) for n in range(10)))
    assert all(isinstance(reply, Answered) for reply in replies)
    assert source.most == 3
    assert asyncio.get_running_loop().time() == pytest.approx(4)


@on_virtual_time
async def test_slots_are_handed_over_in_the_order_they_were_waited_for() -> None:
    source = Counting(takes_s=1)
    one = guarded(source, SourceLimits(max_concurrency=1, timeout_s=60))
    await asyncio.gather(*(one.fetch(query(str(n)), FOREVER) for n in range(5)))
    assert source.asked == [query(str(n)) for n in range(5)]


@on_virtual_time
async def test_waiting_for_a_slot_is_part_of_the_budget() -> None:
    source = Counting(takes_s=1.5)
    one = guarded(source, SourceLimits(max_concurrency=1, timeout_s=2))
    first, second, third = await asyncio.gather(
        *(one.fetch(query(str(n)), FOREVER) for n in range(3))
    )
    assert reason(first) == ""
    assert reason(second) == "source_timeout", "0.5 s were left for a call of 1.5 s"
    assert reason(third) in {"source_timeout", ""}
    assert asyncio.get_running_loop().time() <= 2 + 1e-6


@on_virtual_time
async def test_a_waiter_cancelled_in_the_moment_of_the_hand_over_passes_the_slot_on() -> None:
    def answer(_: Query) -> Answer:
        # Runs just before the holder's call ends and hands its slot over, and is heard of just
        # after: the waiter then has the slot, and is cancelled before it can use it.
        if not waiter.cancelled():
            asyncio.get_running_loop().call_soon(waiter.cancel)
        return value(1)

    source = MemorySource(MEMORY, answer)
    one = guarded(source, SourceLimits(max_concurrency=1, timeout_s=60))
    source.hold()
    holder = asyncio.create_task(one.fetch(query("x"), FOREVER))
    await source.waiting.wait()
    waiter = asyncio.create_task(one.fetch(query("x"), FOREVER))
    behind = asyncio.create_task(one.fetch(query("x"), FOREVER))
    await settled()
    source.release()
    await holder
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert isinstance(await behind, Answered)
    assert one._free == 1  # noqa: SLF001 - a lost slot shows nowhere else


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_no_slot_is_ever_lost_or_made(seed: int) -> None:
    """Calls that answer, fail, time out and are cancelled at any moment, in any order."""
    rng = random.Random(seed)

    async def main() -> None:
        slots = rng.randint(1, 4)
        source = Counting(takes_s=rng.choice([0, 0.5, 1, 3]))
        one = guarded(
            source, SourceLimits(max_concurrency=slots, timeout_s=2, breaker_failures=10**6)
        )
        calls: list[asyncio.Task[Reply]] = []
        for n in range(rng.randint(1, 40)):
            match rng.randrange(5):
                case 0 if calls:
                    rng.choice(calls).cancel()
                case 1:
                    await asyncio.sleep(0)
                case 2:
                    await _after(rng.choice([0.25, 0.5, 2]))
                case 3:
                    source.fail_with(rng.choice([None, DOWN]))
                case _:
                    calls.append(asyncio.create_task(one.fetch(query(str(n)), FOREVER)))
        await asyncio.gather(*calls, return_exceptions=True)
        assert source.most <= slots
        assert one._free == slots  # noqa: SLF001 - a lost slot shows nowhere else
        source.fail_with(None)
        replies = await asyncio.gather(*(one.fetch(query(f"{n}"), FOREVER) for n in range(slots)))
        assert asyncio.get_running_loop().time() < 200
        assert len(replies) == slots

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
