"""Re-tests in a daemon: when, how much, what is told, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.unit.evaluation.virtual_time import LoopClock, on_virtual_time, settled
from tests.unit.evaluation.world import new_metrics, sample
from tests.unit.watching.test_retest import CANDIDATE, NODE, PROFILE
from tests.unit.watching.test_retest import case as labelled
from triage.adapters.memory_watch import MemoryWatchLog
from triage.errors import ConfigError
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.ports import WatchKind
from triage.telemetry.metrics import Metrics
from triage.trial.model import FAILED, Answers, Candidate, Setting, Tried
from triage.watching.findings import Findings, finding
from triage.watching.retest_schedule import SHARE, Retester, Task

TOOK_S = 2.0


@dataclass
class SlowTrials:
    """Implements `Trials`: says `word`, and takes TOOK_S for each."""

    word: str = "true"
    at: list[float] = field(default_factory=list)

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        self.at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(TOOK_S)
        failure = "tool_raised" if self.word == FAILED else ""
        return [Tried(self.word, failure=failure) for _ in settings]


@dataclass(kw_only=True)
class Bench:
    trials: SlowTrials = field(default_factory=SlowTrials)
    cases: list[LabelledCase] = field(default_factory=lambda: [labelled()])
    nodes: tuple[NodeId, ...] = (NODE,)
    log: MemoryWatchLog = field(default_factory=MemoryWatchLog)
    metrics: Metrics = field(default_factory=new_metrics)
    draining: bool = False
    broken: bool = False
    every_s: float = 86_400.0

    async def task(self, node: NodeId) -> Task | None:
        if self.broken:
            raise ConfigError("tools_lib/: cannot be read")
        if not self.cases:
            return None
        return Task(CANDIDATE, "ab" * 32, self.cases, lambda _: PROFILE, self.trials)

    def retester(self) -> Retester:
        clock = LoopClock()
        return Retester(
            nodes=lambda: self.nodes,
            task=self.task,
            live=None,
            findings=Findings(self.log, clock, self.metrics.watch),
            log=self.log,
            clock=clock,
            metrics=self.metrics.watch,
            every_s=self.every_s,
            is_draining=lambda: self.draining,
            jitter=lambda: 0.5,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Retester]:
        made = self.retester()
        task = asyncio.create_task(made.run())
        try:
            yield made
            made.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def open(self) -> list[tuple[str, str]]:
        return [(one.kind.value, one.subject) for one in await self.log.findings()]


def cases(count: int, expected: str = "true") -> list[LabelledCase]:
    return [labelled(expected)._replace(case_id=f"c{number}") for number in range(count)]


@on_virtual_time
async def test_it_begins_at_a_moment_of_its_own_and_again_each_time() -> None:
    bench = Bench(every_s=10_000.0)
    async with bench.running():
        await asyncio.sleep(1799.0)
        assert bench.trials.at == []
        await asyncio.sleep(2.0)
        assert bench.trials.at == [1800.0]
        await asyncio.sleep(10_000.0)
        assert len(bench.trials.at) == 2
        assert abs(bench.trials.at[1] - 11_800.0) <= 1


@on_virtual_time
async def test_it_takes_a_small_share_of_the_time() -> None:
    bench = Bench(cases=cases(10))
    began = asyncio.get_running_loop().time()
    await bench.retester().retest(NODE)
    took = asyncio.get_running_loop().time() - began
    assert 10 * TOOK_S / took <= SHARE * 1.01


@on_virtual_time
async def test_a_wrong_verdict_is_written_and_ended_when_it_is_right_again() -> None:
    bench = Bench(cases=cases(2), trials=SlowTrials("false"))
    retester = bench.retester()
    await retester.retest(NODE)
    assert sorted(await bench.open()) == [("retest_failed", "c0"), ("retest_failed", "c1")]
    assert sample(bench.metrics, "triage_watch_retests_total", result="failed") == 2
    bench.trials.word = "true"
    await bench.retester().retest(NODE)  # another process: what it ends is in the record
    assert await bench.open() == []


@on_virtual_time
async def test_findings_of_the_watcher_are_not_ended() -> None:
    bench = Bench()
    now = LoopClock().now()
    drift = finding(WatchKind.VALUES_MOVED, NODE, "metrics x: value", "ab" * 32, "moved", at=now)
    await bench.log.found([drift])
    await bench.retester().retest(NODE)
    assert await bench.open() == [("values_moved", "metrics x: value")]


@on_virtual_time
async def test_nothing_is_begun_while_draining() -> None:
    bench = Bench(draining=True)
    async with bench.running():
        await asyncio.sleep(100_000.0)
        assert bench.trials.at == []


@on_virtual_time
async def test_a_retest_that_is_cut_short_ends_nothing() -> None:
    bench = Bench(cases=cases(3), trials=SlowTrials("false"))
    await bench.retester().retest(NODE)
    assert len(await bench.open()) == 3
    bench.trials.word = "true"
    retester = bench.retester()
    task = asyncio.create_task(retester.retest(NODE))
    await asyncio.sleep(TOOK_S / 2)
    retester.stop()
    await task
    assert len(await bench.open()) == 3


@on_virtual_time
async def test_a_node_without_cases_is_passed_over() -> None:
    bench = Bench(cases=[])
    assert await bench.retester().retest(NODE) == []


@on_virtual_time
async def test_a_library_that_cannot_be_read_ends_nothing_else() -> None:
    bench = Bench(broken=True, every_s=1000.0)
    async with bench.running():
        await asyncio.sleep(600.0)
        bench.broken = False
        await asyncio.sleep(1000.0)
        assert len(bench.trials.at) == 1


@on_virtual_time
async def test_a_fault_of_ours_ends_the_retest_of_one_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(nodes=(NodeId("other"), NODE), every_s=10_000.0)
    real = bench.task

    async def task(node: NodeId) -> Task | None:
        if node == "other":
            raise RuntimeError("a fault")
        return await real(node)

    monkeypatch.setattr(bench, "task", task)
    async with bench.running():
        await asyncio.sleep(2000.0)
    assert len(bench.trials.at) == 1
    assert sample(bench.metrics, "triage_watch_retests_total", result="crashed") == 1
    assert sample(bench.metrics, "triage_watch_retests_total", result="passed") == 1


@on_virtual_time
async def test_stop_ends_a_rest() -> None:
    bench = Bench()
    async with bench.running() as retester:
        await settled()
        retester.stop()
