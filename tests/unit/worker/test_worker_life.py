"""How much a worker takes on, how it keeps it, and how it ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.unit.evaluation.virtual_time import START, LoopClock, on_virtual_time, settled
from tests.unit.evaluation.world import (
    World,
    library,
    node,
    procedure,
    tool,
)
from tests.unit.worker.bench import GONE, IDS, LOST, Bench, passed, until
from tests.unit.worker.fakes import LEASE_S
from triage.ports import FallbackAnswer, FallbackRequest
from triage.tool_api import compare, conclude
from triage.worker.lanes import Lanes
from triage.worker.worker import WorkerOptions

# --- bounds ---------------------------------------------------------------------------------------


@on_virtual_time
async def test_never_more_under_way_than_there_are_fast_slots() -> None:
    bench = Bench(lanes=Lanes(fast=4, slow=1))
    bench.record.add(*IDS)
    bench.source.hold()
    async with bench.running() as worker:
        await passed(10)
        assert worker.under_way == 4
        assert len(bench.source.asked) == 4
        leased = [e for e in bench.record.queue.entries.values() if e.token]
        assert len(leased) == 4, "none is held that is not worked on"
        bench.source.release()
        await until(lambda: bench.record.settled)
    assert max(bench.record.queue.limits) == 4
    assert len(bench.record.decisions) == 100
    assert (bench.lanes.fast_in_use, bench.lanes.slow_in_use) == (0, 0)


class Slow:
    """A fallback that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        assert timeout_s > 0, request.question.node
        await self.may_answer.wait()
        return FallbackAnswer(verdict=conclude([compare("one", 1, "==", 1)], "yes"))

    def turned_away(self, reason: str) -> None:
        assert reason == "tool_raised"


@on_virtual_time
async def test_alerts_in_the_slow_lane_leave_the_fast_one_to_the_others() -> None:
    bench = Bench(lanes=Lanes(fast=1, slow=2))
    fallback = Slow()
    bench.world = World(
        sop=procedure(node("a")),
        library=library(tool("a", lambda *_: 1 / 0)),
        sources=[],
        fallback=fallback,
        lanes=bench.lanes,
    )
    ids = bench.record.add(*IDS[:3])
    async with bench.running() as worker:
        await until(lambda: len(bench.record.decisions) == 1)
        assert worker.under_way == 2
        assert (bench.lanes.fast_in_use, bench.lanes.slow_in_use) == (0, 2)
        saturated = bench.record.decisions[ids[2]].nodes[0].failure
        assert saturated is not None
        assert saturated.reason == "fallback_saturated"
        fallback.may_answer.set()
        await until(lambda: bench.record.settled)
    assert (bench.lanes.fast_in_use, bench.lanes.slow_in_use) == (0, 0)


# --- leases and the sweeper -----------------------------------------------------------------------


@on_virtual_time
async def test_leases_are_renewed_for_as_long_as_an_attempt_takes() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await passed(5 * LEASE_S)
        assert bench.record.rows[alert_id].attempts == 1
        renewed = bench.record.queue.leased[alert_id]
        assert max(b - a for a, b in pairwise(renewed)) <= LEASE_S / 2
        bench.source.release()
        await until(lambda: bench.record.settled)
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]


@on_virtual_time
async def test_the_record_knows_what_is_worked_on() -> None:
    """Else the sweeper would publish it again, lease or no lease."""
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await passed(5 * LEASE_S)
        assert {tuple(ids) for _, ids in bench.record.held} == {(alert_id,)}
        assert bench.swept == []
        bench.source.release()
        await until(lambda: bench.record.settled)


@pytest.mark.parametrize(("method", "other"), [("extend", "hold"), ("hold", "extend")])
@on_virtual_time
async def test_each_lease_is_renewed_whatever_becomes_of_the_other(method: str, other: str) -> None:
    """And tried again well before it ends."""
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures[method] = [GONE if method == "extend" else LOST] * 3
    bench.source.hold()
    async with bench.running():
        await passed(5 * LEASE_S)
        assert bench.record.rows[alert_id].attempts == 1
        renewed = {
            "extend": bench.record.queue.leased[alert_id],
            "hold": [at for at, _ in bench.record.held],
        }
        assert len(renewed[other]) > len(renewed[method])
        assert renewed[method][0] < LEASE_S
        bench.source.release()
        await until(lambda: bench.record.settled)
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]


@on_virtual_time
async def test_a_lost_lease_costs_a_second_attempt_and_never_a_second_decision() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["extend"] = [LOST] * 40
    bench.source.hold()
    async with bench.running():
        await until(lambda: bench.record.rows[alert_id].attempts == 2)
        bench.source.release()
        await until(lambda: not bench.record.queue.entries)
    happened = bench.record.happened(alert_id)
    assert happened.count("attempt") == 2
    assert happened.count("commit") == 1
    assert bench.commits == 1
    assert len(bench.record.messages) == 1


@on_virtual_time
async def test_what_no_queue_holds_is_swept_up() -> None:
    bench = Bench(options=WorkerOptions(sweep_s=10))
    lost = bench.record.add(*IDS[:2], enqueue=False)
    await bench.run_out()
    assert set(bench.record.decisions) == set(lost)
    assert sum(bench.swept) == 2
    assert bench.record.wait_s <= asyncio.get_running_loop().time() <= 25


@pytest.mark.parametrize("method", ["to_wake", "publish"])
@on_virtual_time
async def test_a_sweep_that_fails_is_made_again_soon(method: str) -> None:
    bench = Bench(options=WorkerOptions(sweep_s=10))
    bench.record.add(IDS[0], enqueue=False, accepted_at=START - timedelta(hours=1))
    bench.record.failures = {method: [GONE] * 3}
    await bench.run_out()
    assert asyncio.get_running_loop().time() < bench.record.wait_s + 20


@on_virtual_time
async def test_a_queue_that_forgot_is_told_everything_again_at_once() -> None:
    bench = Bench(options=WorkerOptions(sweep_s=1000), lanes=Lanes(fast=1, slow=1))
    bench.record.wait_s = 10_000
    ids = bench.record.add(*IDS[:5])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        bench.record.queue.forget()
        bench.source.release()
        await until(lambda: bench.record.settled, within_s=10)
    assert set(bench.record.decisions) == set(ids)
    assert bench.record.woken == 1


@on_virtual_time
async def test_it_is_told_everything_even_when_the_store_cannot_say_at_first() -> None:
    bench = Bench(options=WorkerOptions(sweep_s=1000))
    bench.record.wait_s = 10_000
    bench.record.add(IDS[0])
    bench.record.queue.forget()
    bench.record.failures["wake_all"] = [LOST] * 4
    await bench.run_out()
    assert bench.record.woken == 1
    assert asyncio.get_running_loop().time() < 60


# --- the end --------------------------------------------------------------------------------------


@on_virtual_time
async def test_stop_finishes_what_is_under_way_and_takes_no_more() -> None:
    bench = Bench(lanes=Lanes(fast=2, slow=1))
    bench.record.add(*IDS[:5])
    bench.source.hold()
    worker = bench.worker()
    running = asyncio.create_task(worker.run())
    await bench.source.waiting.wait()
    await settled()
    worker.stop()
    await passed(2)
    assert not running.done()
    assert worker.under_way == 2
    bench.source.release()
    await running
    assert len(bench.record.decisions) == 2
    assert [e.token for e in bench.record.queue.entries.values()] == ["", "", ""]


@on_virtual_time
async def test_stop_ends_an_idle_worker_soon() -> None:
    bench = Bench()
    async with bench.running():
        await passed(7)
    assert asyncio.get_running_loop().time() < 9


@on_virtual_time
async def test_what_is_received_after_the_stop_is_given_back_at_once() -> None:
    bench = Bench()
    async with bench.running() as worker:
        await settled()
        worker.stop()
        (alert_id,) = bench.record.add(IDS[0])
    assert bench.record.happened(alert_id) == ["return"]
    assert bench.record.queue.entries[alert_id].token == ""
    assert bench.record.rows[alert_id].attempts == 0


@on_virtual_time
async def test_cancelling_gives_back_what_was_under_way() -> None:
    bench = Bench()
    ids = bench.record.add(*IDS[:3])
    bench.source.hold()
    running = asyncio.create_task(bench.worker().run())
    await bench.source.waiting.wait()
    await settled()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for alert_id in ids:
        assert bench.record.happened(alert_id) == ["attempt", "return"]
        assert bench.record.queue.entries[alert_id].available_at <= LoopClock().monotonic()
    assert (bench.lanes.fast_in_use, bench.lanes.slow_in_use) == (0, 0)


@pytest.mark.parametrize("method", ["to_wake", "extend", "hold", "receive"])
@on_virtual_time
async def test_a_side_task_that_dies_takes_the_worker_with_it(method: str) -> None:
    """One that no longer renews, sweeps or receives must not limp on."""
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    running = asyncio.create_task(bench.worker().run())
    await bench.source.waiting.wait()
    bench.record.failures[method] = [KeyError("a bug")]
    with pytest.raises(KeyError, match="a bug"):
        await running
    assert bench.record.happened(alert_id) == ["attempt", "return"]


@on_virtual_time
async def test_under_a_storm_of_store_failures_every_alert_is_decided_once() -> None:
    bench = Bench(options=WorkerOptions(max_attempts=1000, sinks=("hook",)))
    ids = bench.record.add(*IDS)
    for step, method in enumerate(["begin_attempt", "commit", "settle", "receive", "extend"]):
        of_a_store = method in ("begin_attempt", "commit")
        bench.record.failures[method] = [LOST if of_a_store else GONE] * (30 + step)
    await bench.run_out()
    commits = [about for event, about in bench.record.journal if event == "commit"]
    assert sorted(commits) == sorted(ids)
    assert len(bench.record.messages) == 100
    assert bench.commits == 100
