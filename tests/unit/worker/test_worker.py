"""From a delivery to a stored decision, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise

import orjson
import pytest

from tests.unit.evaluation.virtual_time import START, LoopClock, on_virtual_time, settled
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    action,
    library,
    memory,
    node,
    procedure,
    sample,
    tool,
    value,
)
from tests.unit.worker.fakes import LEASE_S, Record
from triage.adapters.memory import MemorySource
from triage.engine.snapshot import Closer, SnapshotHolder, snapshot
from triage.errors import StoreError
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.model.alert import AlertId, Severity
from triage.model.canonical import canonical_json
from triage.model.decision import decision_document
from triage.model.query import Answer, Query
from triage.ports import AlertStatus, FallbackAnswer, FallbackRequest
from triage.sop.sites import no_sites
from triage.tool_api import compare, conclude
from triage.worker.lanes import Lanes
from triage.worker.worker import RETRY_DELAY_S, Worker, WorkerOptions

IDS = [f"{n:032x}" for n in range(1, 101)]
LOST = StoreError("disk full")


async def nothing_closed(_: GuardedSource) -> None:
    """Sources in memory need no closing."""


@dataclass(slots=True, kw_only=True)
class Bench:
    """A worker around a fake record and a real engine."""

    record: Record = field(default_factory=Record)
    source: MemorySource = field(default_factory=lambda: memory({"a": value(20)}))
    lanes: Lanes = field(default_factory=lambda: Lanes(fast=4, slow=2))
    options: WorkerOptions = field(
        default_factory=lambda: WorkerOptions(lease_s=LEASE_S, sinks=("hook",))
    )
    world: World | None = None
    commits: int = 0
    close: Closer = nothing_closed
    snapshots: SnapshotHolder | None = None

    def worker(self) -> Worker:
        if self.world is None:
            self.world = World(
                sop=procedure(node("a", true=["act"]), actions=[action("act")]),
                library=library(tool("a")),
                sources=[self.source],
                limits=SourceLimits(timeout_s=1000, max_concurrency=1000),
                deadline_s=1000,
                fallback_deadline_s=1000,
                lanes=self.lanes,
            )
        self.snapshots = SnapshotHolder(self.world.snapshot, self.close)
        return Worker(
            queue=self.record.queue,
            alerts=self.record,
            decisions=self.record,
            engine=self.world.engine,
            snapshots=self.snapshots,
            lanes=self.lanes,
            clock=LoopClock(),
            metrics=self.world.metrics.decisions,
            options=self.options,
            on_commit=self._committed,
        )

    def _committed(self) -> None:
        self.commits += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """The worker runs inside, and is stopped and done after it."""
        worker = self.worker()
        task = asyncio.create_task(worker.run())
        try:
            yield worker
            worker.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def run_out(self) -> None:
        """Runs until nothing is pending and the queue is empty."""
        async with self.running():
            await until(lambda: self.record.settled and not self.record.queue.entries)


async def until(holds: Callable[[], bool], *, within_s: float = 3600) -> None:
    """Steps through (virtual) time until it holds."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + within_s
    while not holds():
        assert loop.time() < ends, "it never came to hold"
        await passed(0.05)


async def passed(seconds: float) -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, future.set_result, None)
    await future


# --- the way it goes ------------------------------------------------------------------------------


@on_virtual_time
async def test_a_delivery_is_acked_after_the_decision_is_committed() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.run_out()
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]
    assert bench.commits == 1
    assert bench.record.decisions[alert_id].attempt == 1
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 1


@on_virtual_time
async def test_each_sink_is_told_of_the_decision_as_it_is_stored() -> None:
    bench = Bench(options=WorkerOptions(sinks=("hook", "file")))
    (alert_id,) = bench.record.add(IDS[0])
    await bench.run_out()
    body = canonical_json(decision_document(bench.record.decisions[alert_id]))
    assert [(m.sink, m.key, m.body) for m in bench.record.messages] == [
        ("hook", f"{alert_id}:decision", body),
        ("file", f"{alert_id}:decision", body),
    ]


@on_virtual_time
async def test_without_sinks_there_are_no_messages() -> None:
    bench = Bench(options=WorkerOptions())
    bench.record.add(IDS[0])
    await bench.run_out()
    assert bench.record.messages == []


@on_virtual_time
async def test_the_most_severe_is_taken_first() -> None:
    bench = Bench(lanes=Lanes(fast=1, slow=1))
    bench.record.add(IDS[0], severity=Severity.INFO)
    bench.record.add(IDS[1], severity=Severity.WARNING)
    bench.record.add(IDS[2], severity=Severity.CRITICAL)
    await bench.run_out()
    commits = [about for event, about in bench.record.journal if event == "commit"]
    assert commits == [IDS[2], IDS[1], IDS[0]]


@on_virtual_time
async def test_closing_the_sources_of_an_old_snapshot_holds_up_no_decision() -> None:
    may_close = asyncio.Event()

    async def close(_: GuardedSource) -> None:
        await may_close.wait()

    bench = Bench(close=close)
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        assert bench.snapshots is not None
        sop = procedure(node("a"), version=2)
        await bench.snapshots.replace(snapshot(sop, no_sites(sop), library(), {}))
        bench.source.release()
        await until(lambda: bench.record.happened(alert_id) == ["attempt", "commit", "ack"])
        assert bench.lanes.fast_in_use == 1
        may_close.set()


# --- what others did meanwhile --------------------------------------------------------------------


@on_virtual_time
async def test_a_delivery_of_an_alert_that_nobody_knows_is_acked() -> None:
    bench = Bench()
    bench.record.queue.put(AlertId(IDS[0]), Severity.WARNING)
    await bench.run_out()
    assert bench.record.journal == [("ack", IDS[0])]


@pytest.mark.parametrize(
    "status", [AlertStatus.DECIDED, AlertStatus.DEAD_LETTERED, AlertStatus.DISCARDED]
)
@on_virtual_time
async def test_a_delivery_of_an_alert_that_is_done_is_acked(status: AlertStatus) -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].status = status
    await bench.run_out()
    assert bench.record.journal == [("ack", alert_id)]
    assert not bench.source.asked


@on_virtual_time
async def test_the_loser_of_two_attempts_acks_and_tells_nobody() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        bench.record.rows[alert_id].status = AlertStatus.DECIDED
        bench.source.release()
        await until(lambda: not bench.record.queue.entries)
    assert bench.record.happened(alert_id) == ["attempt", "ack"]
    assert bench.commits == 0
    assert bench.record.messages == []
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 0


@on_virtual_time
async def test_a_resolve_during_the_attempt_suppresses_the_actions() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        row = bench.record.rows[alert_id]
        row.alert = replace(row.alert, resolved_at=START)
        bench.source.release()
        await until(lambda: bench.record.settled)
    decision = bench.record.decisions[alert_id]
    assert (decision.outcome.value, decision.actions) == ("resolved", ())
    assert [dropped.reason.value for dropped in decision.dropped] == ["resolved"]
    assert bench.record.happened(alert_id).count("commit") == 1
    (message,) = bench.record.messages
    assert orjson.loads(message.body)["outcome"] == "resolved"
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="resolved") == 1
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 0


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["receive", "begin_attempt", "commit", "settle"])
@on_virtual_time
async def test_a_store_that_fails_once_costs_an_attempt_and_no_decision(method: str) -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures[method] = [LOST]
    await bench.run_out()
    assert bench.record.happened(alert_id).count("commit") == 1
    assert bench.record.happened(alert_id)[-1] == "ack"
    assert bench.record.dead == {}
    assert asyncio.get_running_loop().time() >= RETRY_DELAY_S


@on_virtual_time
async def test_what_could_not_even_be_given_back_comes_again_when_its_lease_ends() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures = {"commit": [LOST], "settle": [LOST]}
    await bench.run_out()
    assert bench.record.happened(alert_id) == ["attempt", "attempt", "commit", "ack"]
    assert asyncio.get_running_loop().time() >= LEASE_S


@on_virtual_time
async def test_a_fault_of_this_project_ends_as_a_dead_letter_and_spares_the_others() -> None:
    class Broken(MemorySource):
        async def ask(self, query: Query, *, timeout_s: float) -> Answer:
            if self.crashes:
                self.crashes -= 1
                raise ZeroDivisionError("a bug")
            return await super().ask(query, timeout_s=timeout_s)

        crashes = 3

    bench = Bench(
        source=Broken(MEMORY, lambda _: value(20)),
        options=WorkerOptions(max_attempts=3),
        lanes=Lanes(fast=1, slow=1),
    )
    bad, good = bench.record.add(IDS[0], IDS[1])
    bench.record.queue.entries[good].available_at = 100.0
    await bench.run_out()
    assert bench.record.happened(bad) == [*["attempt", "return"] * 3, "attempt", "dead", "ack"]
    assert bench.record.dead[bad] == ("attempts_used_up", "3 attempts ended without a decision")
    assert bench.record.happened(good) == ["attempt", "commit", "ack"]


@on_virtual_time
async def test_a_dead_letter_that_cannot_be_written_is_tried_again() -> None:
    bench = Bench(options=WorkerOptions(max_attempts=1))
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].attempts = 1
    bench.record.failures["dead_letter"] = [LOST]
    await bench.run_out()
    assert bench.record.happened(alert_id)[-2:] == ["dead", "ack"]


@on_virtual_time
async def test_a_store_in_trouble_for_long_loses_nothing() -> None:
    """Nor does it dead-letter: what was never tried has not used up its attempts."""
    bench = Bench()
    bench.record.add(*IDS[:20])
    bench.record.failures["begin_attempt"] = [LOST] * 200
    bench.record.failures["receive"] = [LOST] * 10
    await bench.run_out()
    assert len(bench.record.decisions) == 20
    assert bench.record.dead == {}


@on_virtual_time
async def test_a_disk_that_stays_full_uses_up_no_attempts() -> None:
    """A small write may still succeed where the decision does not fit."""
    bench = Bench(options=WorkerOptions(max_attempts=3))
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["commit"] = [LOST] * 50
    await bench.run_out()
    assert bench.record.dead == {}
    assert bench.record.decisions[alert_id].attempt == 51


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
        assert timeout_s > 0, request.node
        await self.may_answer.wait()
        return FallbackAnswer(verdict=conclude([compare("one", 1, "==", 1)], "yes"))


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
async def test_a_lost_lease_costs_a_second_attempt_and_never_a_second_decision() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["extend"] = [LOST] * 4
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
    old = bench.record.add(IDS[0], enqueue=False, accepted_at=START - timedelta(hours=1))
    new = bench.record.add(IDS[1], enqueue=False, accepted_at=START)
    await bench.run_out()
    assert set(bench.record.decisions) == {*old, *new}
    assert 10 <= asyncio.get_running_loop().time() <= 25


@on_virtual_time
async def test_a_sweep_that_fails_is_made_again() -> None:
    bench = Bench(options=WorkerOptions(sweep_s=10))
    bench.record.add(IDS[0], enqueue=False, accepted_at=START - timedelta(hours=1))
    bench.record.failures = {"unheld": [LOST], "publish": [LOST]}
    await bench.run_out()
    assert len(bench.record.decisions) == 1


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


@pytest.mark.parametrize("method", ["unheld", "extend", "receive"])
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
        bench.record.failures[method] = [LOST] * (30 + step)
    await bench.run_out()
    commits = [about for event, about in bench.record.journal if event == "commit"]
    assert sorted(commits) == sorted(ids)
    assert len(bench.record.messages) == 100
    assert bench.commits == 100
