"""An alert that ends the process must not take the others with it for good."""

from __future__ import annotations

import asyncio

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import MEMORY, value
from tests.unit.worker.bench import IDS, LOST, Bench, passed, until
from tests.unit.worker.fakes import LEASE_S, Record
from triage.adapters.memory import MemorySource
from triage.model.alert import AlertId
from triage.model.query import Answer, Query
from triage.ports import StoredAlert
from triage.worker.lanes import Lanes
from triage.worker.worker import SUSPECTS, SUSPICIOUS, WorkerOptions


@on_virtual_time
async def test_suspects_are_decided_one_at_a_time_and_wait_without_using_up_attempts() -> None:
    bench = Bench(lanes=Lanes(fast=8, slow=1))
    suspects = bench.record.add(*IDS[:4])
    for alert_id in suspects:
        bench.record.rows[alert_id].attempts = SUSPICIOUS + 1
    fresh = bench.record.add(*IDS[4:6])
    bench.source.hold()
    async with bench.running() as worker:
        await passed(5)
        assert worker.under_way == 6
        assert len(bench.source.asked) == 3, "one suspect and those that are none"
        counted = sorted(bench.record.rows[alert_id].attempts for alert_id in suspects)
        assert counted == [SUSPICIOUS + 1] * 3 + [SUSPICIOUS + 2]
        bench.source.release()
        await until(lambda: bench.record.settled)
    assert set(bench.record.decisions) == {*suspects, *fresh}


@on_virtual_time
async def test_those_that_are_just_suspicious_are_decided_some_at_a_time() -> None:
    bench = Bench(lanes=Lanes(fast=16, slow=1))
    alerts = bench.record.add(*IDS[: SUSPECTS + 2])
    for alert_id in alerts:
        bench.record.rows[alert_id].attempts = SUSPICIOUS
    bench.source.hold()
    async with bench.running():
        await passed(5)
        assert len(bench.source.asked) == SUSPECTS
        bench.source.release()
        await until(lambda: bench.record.settled)


@on_virtual_time
async def test_the_one_that_used_up_most_attempts_is_decided_last() -> None:
    """Else processes that end early would take an attempt from the oldest alone, each time."""
    bench = Bench(lanes=Lanes(fast=8, slow=1))
    suspects = bench.record.add(*IDS[:4])
    for alert_id, attempts in zip(suspects, (3, 4, 2, 2), strict=True):
        bench.record.rows[alert_id].attempts = attempts
    async with bench.running():
        await until(lambda: bench.record.settled)
    decided = list(bench.record.decisions)
    assert set(decided[:2]) == {suspects[2], suspects[3]}
    assert decided[2:] == [suspects[0], suspects[1]]


@on_virtual_time
async def test_attempts_that_failed_here_make_no_suspect() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["commit"] = [LOST] * 4
    await bench.run_out()
    assert "release" not in bench.record.happened(alert_id)


@on_virtual_time
async def test_a_suspect_that_was_decided_meanwhile_is_acked() -> None:
    class Gone(Record):
        calls: int = 0

        async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
            self.calls += 1
            return await super().begin_attempt(alert_id) if self.calls == 1 else None

    bench = Bench(record=Gone())
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].attempts = SUSPICIOUS
    async with bench.running():
        await until(lambda: not bench.record.queue.entries)
    assert bench.record.decisions == {}


class Deadly(Record):
    """`culprit` ends the process soon after it is begun, unless that is taken back."""

    culprit: AlertId = AlertId("")
    ended: asyncio.Event
    soon: asyncio.TimerHandle | None = None

    async def begin_attempt(self, alert_id: AlertId) -> StoredAlert | None:
        stored = await super().begin_attempt(alert_id)
        if alert_id == self.culprit:
            self.soon = asyncio.get_running_loop().call_later(0.01, self.ended.set)
        return stored

    async def release_attempt(self, alert_id: AlertId) -> None:
        await super().release_attempt(alert_id)
        if alert_id == self.culprit and self.soon is not None:
            self.soon.cancel()


class OneSecond(MemorySource):
    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        await passed(1)
        return await super().ask(query, timeout_s=timeout_s)


@on_virtual_time
async def test_only_the_alert_that_ends_processes_becomes_a_dead_letter() -> None:
    record = Deadly()
    record.ended = asyncio.Event()
    bench = Bench(
        record=record,
        source=OneSecond(MEMORY, lambda _: value(20)),
        options=WorkerOptions(max_attempts=5, lease_s=LEASE_S),
        lanes=Lanes(fast=16, slow=1),
    )
    culprit, *others = record.add(*IDS[:12])
    record.culprit = culprit
    lives = 0
    while not record.settled:
        lives += 1
        assert lives < 20, "it never came to an end"
        record.ended.clear()
        life = asyncio.create_task(bench.worker().run())
        ended = asyncio.create_task(record.ended.wait())
        while not (record.ended.is_set() or record.settled):
            await passed(0.05)
        for task in (life, ended):
            task.cancel()
        await asyncio.wait([life, ended])
    assert set(record.dead) == {culprit}
    assert set(record.decisions) == set(others)
