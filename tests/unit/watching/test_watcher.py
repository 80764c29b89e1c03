"""The watcher: what it finds, keeps, counts and survives, and that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from tests.unit.evaluation.virtual_time import LoopClock, on_virtual_time, settled
from tests.unit.evaluation.world import (
    FIRED_AT,
    World,
    action,
    alert,
    library,
    memory,
    new_metrics,
    node,
    procedure,
    sample,
    tool,
    value,
)
from triage.adapters.memory_watch import MemoryWatchLog
from triage.engine.engine import Decided
from triage.errors import SourceFailed, SourceFailure
from triage.model.alert import Alert
from triage.model.decision import NodeId
from triage.ports import WatchKind
from triage.telemetry.metrics import Metrics
from triage.watching import features
from triage.watching import watcher as module
from triage.watching.drift import DEAD, SAME_S
from triage.watching.findings import Findings
from triage.watching.watcher import METRICS_NODES, Watcher

DOWN = SourceFailed(SourceFailure.CONNECT, "connection refused")
Answers = Callable[[int], Any]


def world(answer: Any, *, nodes: tuple[str, ...] = ("a", "b")) -> World:
    return World(
        sop=procedure(
            *(node(name, true=["act"]) for name in nodes), actions=[action("act")], entry=nodes
        ),
        library=library(*(tool(name) for name in nodes)),
        sources=[memory(dict.fromkeys(nodes, answer))],
    )


async def decisions(
    count: int, answer: Answers = lambda _: value(20.0), *, begin: int = 0, **more: Any
) -> list[tuple[Alert, Decided, World]]:
    made = []
    for number in range(begin, begin + count):
        around = world(answer(number), **more)
        at = FIRED_AT + timedelta(seconds=SAME_S * number)
        one = replace(alert(f"{number:032x}"), fired_at=at)
        made.append((one, await around.decide(one), around))
    return made


@dataclass(slots=True, kw_only=True)
class Bench:
    log: MemoryWatchLog = field(default_factory=MemoryWatchLog)
    metrics: Metrics = field(default_factory=new_metrics)
    name: str = "here"
    save_s: float = 300.0
    max_waiting: int = 256
    metrics_nodes: int = METRICS_NODES

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Watcher]:
        """It runs inside, and is stopped and done after it."""
        made = self.watcher()
        task = asyncio.create_task(made.run())
        try:
            await settled()
            yield made
            made.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def watcher(self) -> Watcher:
        clock = LoopClock()
        return Watcher(
            log=self.log,
            findings=Findings(self.log, clock, self.metrics.watch),
            clock=clock,
            metrics=self.metrics.watch,
            name=self.name,
            save_s=self.save_s,
            max_waiting=self.max_waiting,
            metrics_nodes=self.metrics_nodes,
        )

    async def look(self, watcher: Watcher, *those: tuple[Alert, Decided, World]) -> None:
        for one, decided, around in those:
            watcher.offer(one, decided, around.snapshot)
            await watcher.settled()

    async def open(self) -> set[tuple[str, str, str]]:
        found = await self.log.findings()
        return {(one.node, one.kind.value, one.subject) for one in found}

    def counted(self, name: str, **labels: str) -> float:
        return sample(self.metrics, f"triage_watch_{name}", **labels)


# --- what is found --------------------------------------------------------------------------------


@on_virtual_time
async def test_nothing_is_found_while_nothing_changes() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(100))
        assert await bench.open() == set()
    assert bench.counted("evaluations_total") == 200
    assert bench.counted("findings", kind="values_moved") == 0


@on_virtual_time
async def test_a_change_is_written_by_node_and_field() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(60))
        await bench.look(watcher, *await decisions(10, lambda _: value(20_000.0), begin=60))
        found = await bench.log.findings()
    assert {(one.node, one.kind) for one in found} == {
        ("a", WatchKind.VALUES_MOVED),
        ("b", WatchKind.VALUES_MOVED),
    }
    assert all(one.subject.endswith(": value") for one in found)
    assert all(one.tool_sha256 for one in found)
    assert bench.counted("findings", kind="values_moved") == 2


@on_virtual_time
async def test_what_no_longer_holds_is_ended() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(DEAD, lambda _: DOWN))
        assert {kind for _, kind, _ in await bench.open()} == {"source_dead"}
        await bench.look(watcher, *await decisions(1, begin=DEAD))
        assert await bench.open() == set()
        assert len(await bench.log.findings(closed=True)) == 2
    assert bench.counted("findings", kind="source_dead") == 0


@on_virtual_time
async def test_another_tool_has_findings_of_its_own() -> None:
    bench = Bench()
    dead = await decisions(DEAD + 1, lambda _: DOWN)
    async with bench.running() as watcher:
        await bench.look(watcher, *dead[:DEAD])
        before = {one.tool_sha256 for one in await bench.log.findings(node="a")}
        one, decided, around = dead[DEAD]
        decision = decided.decision
        nodes = tuple(result._replace(tool_sha256="cd" * 32) for result in decision.nodes)
        other = replace(decided, decision=replace(decision, nodes=nodes))
        await bench.look(watcher, (one, other, around))
        now = {one.tool_sha256 for one in await bench.log.findings(node="a")}
    assert before != now == {"cd" * 32}


@on_virtual_time
async def test_the_shares_of_a_node_are_metrics() -> None:
    bench = Bench()
    answers = [value(20.0), value(1.0), (), value(20.0)]
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(4, answers.__getitem__))
    assert bench.counted("verdict_share", node="a", verdict="true") == 0.5
    assert bench.counted("verdict_share", node="a", verdict="no_data") == 0.25
    assert bench.counted("empty_share", node="a") == 0.25
    assert bench.counted("null_share", node="a") == 0.0


@on_virtual_time
@pytest.mark.parametrize(("most", "shown"), [(2, True), (1, False), (0, False)])
async def test_a_procedure_of_many_nodes_has_no_shares(most: int, shown: bool) -> None:
    bench = Bench(metrics_nodes=most)
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(2))
    page = bench.metrics.render()[0].decode()
    for name in ("verdict_share", "null_share", "empty_share", "unwatched"):
        assert (f'triage_watch_{name}{{node="a"' in page) is shown, name
    assert bench.counted("evaluations_total") == 4


@on_virtual_time
async def test_nodes_that_the_sop_no_longer_has_are_forgotten() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(DEAD, lambda _: DOWN))
        [(one, decided, around)] = await decisions(1, begin=DEAD, nodes=("a",))
        pinned = replace(decided.decision.pinned, sop_sha256="other")
        decided = replace(decided, decision=replace(decided.decision, pinned=pinned))
        await bench.look(watcher, (one, decided, around))
        assert watcher.drift(NodeId("b")) is None
        assert await bench.open() == set()
    assert (
        "b" not in bench.metrics.render()[0].decode().split("triage_watch_null_share", 1)[1][:200]
    )


# --- what is not looked at ------------------------------------------------------------------------


@on_virtual_time
async def test_one_too_many_is_counted_and_dropped() -> None:
    bench = Bench(max_waiting=3)
    watcher = bench.watcher()
    for one, decided, around in await decisions(5):
        watcher.offer(one, decided, around.snapshot)
    assert bench.counted("dropped_total", reason="behind") == 2
    assert bench.counted("waiting") == 3


@on_virtual_time
async def test_much_evidence_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 50)
    bench = Bench()
    watcher = bench.watcher()
    for one, decided, around in await decisions(4):
        watcher.offer(one, decided, around.snapshot)
    assert 1 <= bench.counted("waiting") < 4
    assert bench.counted("dropped_total", reason="behind") == 4 - bench.counted("waiting")


@on_virtual_time
async def test_a_decision_without_nodes_is_no_evaluation() -> None:
    bench = Bench()
    around = world(value(20.0))
    resolved = alert(resolved_at=FIRED_AT)
    async with bench.running() as watcher:
        watcher.offer(resolved, await around.decide(resolved), around.snapshot)
        await watcher.settled()
    assert bench.counted("evaluations_total") == 0
    assert bench.counted("dropped_total", reason="behind") == 0


@on_virtual_time
async def test_what_waits_at_the_end_is_counted() -> None:
    bench = Bench()
    watcher = bench.watcher()
    for one, decided, around in await decisions(3):
        watcher.offer(one, decided, around.snapshot)
    watcher.stop()
    await watcher.run()
    assert bench.counted("dropped_total", reason="behind") == 3
    assert bench.counted("waiting") == 0
    await watcher.settled()


def with_bodies(decided: Decided, body: Callable[[bytes], bytes]) -> Decided:
    evidence: Mapping[str, bytes] = {key: body(one) for key, one in decided.evidence.items()}
    return replace(decided, evidence=evidence)


@on_virtual_time
async def test_bytes_that_are_no_answer_are_counted_and_pass() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        [(one, decided, around)] = await decisions(1)
        await bench.look(watcher, (one, with_bodies(decided, lambda _: b"nonsense"), around))
        await bench.look(watcher, (one, replace(decided, evidence={}), around))
    assert bench.counted("dropped_total", reason="unreadable") == 4
    assert bench.counted("evaluations_total") == 4


@on_virtual_time
async def test_an_answer_that_is_too_large_is_counted_and_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BODY", 5)
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(1))
    assert bench.counted("dropped_total", reason="oversized") == 2
    assert bench.counted("evaluations_total") == 2


async def test_a_large_answer_is_looked_at_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_THREAD", 5)
    threads = []
    real = features.slot_seen

    def spy(*arguments: Any) -> Any:
        import threading

        threads.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(module, "slot_seen", spy)
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(1))
    assert threads == [False, False]


@on_virtual_time
async def test_a_fault_of_ours_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    broken = [True]
    real = features.node_seen

    def fails(*arguments: Any) -> Any:
        if broken:
            broken.pop()
            raise RuntimeError("a fault")
        return real(*arguments)

    monkeypatch.setattr(module, "node_seen", fails)
    with structlog.testing.capture_logs() as said:
        async with bench.running() as watcher:
            await bench.look(watcher, *await decisions(2))
    assert bench.counted("evaluations_total") == 3
    assert bench.counted("dropped_total", reason="crashed") == 1
    assert [(one["node"], one["alert_id"]) for one in said if one["event"] == "watch_crashed"] == [
        ("a", f"{0:032x}")
    ]


# --- what is kept ---------------------------------------------------------------------------------


@on_virtual_time
async def test_what_was_learned_outlives_the_process() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(60))
    again = Bench(log=bench.log)
    async with again.running() as watcher:
        await again.look(watcher, *await decisions(10, lambda _: value(20_000.0), begin=60))
        assert {kind for _, kind, _ in await again.open()} == {"values_moved"}


@on_virtual_time
async def test_an_open_finding_is_the_same_one_after_a_restart() -> None:
    bench = Bench()
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(DEAD, lambda _: DOWN))
    again = Bench(log=bench.log)
    async with again.running() as watcher:
        await again.look(watcher, *await decisions(1, begin=DEAD))
        assert await again.open() == set()


@on_virtual_time
async def test_replicas_learn_apart() -> None:
    log = MemoryWatchLog()
    for name in ("one", "two"):
        bench = Bench(log=log, name=name)
        async with bench.running() as watcher:
            await bench.look(watcher, *await decisions(3))
    assert (await log.load_state("one")).keys() == {"a", "b"}
    assert (await log.load_state("two")).keys() == {"a", "b"}


@on_virtual_time
async def test_a_state_that_cannot_be_read_is_begun_anew() -> None:
    bench = Bench()
    await bench.log.save_state("here", {NodeId("a"): b"nonsense"})
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(1))
        drift = watcher.drift(NodeId("a"))
    assert drift is not None
    assert drift.evaluations == 1


@on_virtual_time
async def test_state_is_saved_now_and_then() -> None:
    bench = Bench(save_s=60.0)
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(1))
        assert await bench.log.load_state("here") == {}
        await asyncio.sleep(61.0)
        assert (await bench.log.load_state("here")).keys() == {"a", "b"}


@on_virtual_time
async def test_what_the_store_does_not_take_is_written_later() -> None:
    bench = Bench(save_s=60.0)
    async with bench.running() as watcher:
        bench.log.failing = True
        await bench.look(watcher, *await decisions(DEAD, lambda _: DOWN))
        bench.log.failing = False
        assert await bench.open() == set()
        await asyncio.sleep(61.0)
        assert {kind for _, kind, _ in await bench.open()} == {"source_dead"}


@on_virtual_time
async def test_a_store_that_is_away_at_the_start_keeps_nobody() -> None:
    bench = Bench()
    bench.log.failing = True
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(1))
        assert watcher.drift(NodeId("a")) is not None
        bench.log.failing = False


@on_virtual_time
async def test_open_findings_are_counted_again_with_each_save() -> None:
    bench = Bench(save_s=60.0)
    async with bench.running() as watcher:
        await bench.look(watcher, *await decisions(DEAD, lambda _: DOWN))
        [first, _] = await bench.log.findings()
        await asyncio.sleep(61.0)
        [renewed] = [o for o in await bench.log.findings() if o.finding_id == first.finding_id]
    assert renewed.count == first.count + 1
    assert renewed.first_at == first.first_at
