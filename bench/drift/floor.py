"""Alerts of a world through the engine, with the watcher behind it, on sources that may change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bench.cases.runner import sources_in_process
from bench.dock import ANSWER_BYTES, CACHE, DockFiles, dock_files, procedure
from bench.drift.changed import Change, ChangedSource
from bench.replay.alerts import HistoricalAlert, historical_alerts
from bench.world.world import Extent
from triage.adapters.memory_watch import MemoryWatchLog
from triage.app.oneoff import OwnLane
from triage.clock import SystemClock
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import Snapshot, snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.model.decision import NodeId
from triage.ports import WatchFinding
from triage.sop.procedure import Sop
from triage.telemetry.metrics import Metrics
from triage.watching.findings import Findings
from triage.watching.watcher import Watcher

DAY_S = 86_400
DEADLINE_S = 30.0
LIMITS = SourceLimits(timeout_s=DEADLINE_S, max_answer_bytes=ANSWER_BYTES, breaker_failures=1 << 30)
"""No source is left alone after failures: one change would still be felt during the next."""
WATCHER = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A world that alerts can be decided on. Its sources are open."""

    seed: int
    files: DockFiles
    alerts: Sequence[HistoricalAlert]
    sources: Mapping[str, ChangedSource]
    snapshot: Snapshot
    engine: Engine
    metrics: Metrics

    async def decide(self, alert: HistoricalAlert) -> Decided:
        return await self.engine.decide(
            alert.alert(SystemClock().now()), self.snapshot, lane=OwnLane()
        )

    def change(self, change: Change | None) -> None:
        for source in self.sources.values():
            source.change = change

    def reaching(self, nodes: frozenset[NodeId], begin: int) -> list[HistoricalAlert]:
        """Those from `begin` on whose walk could come to one of the nodes."""
        ways = self.snapshot.downstream
        return [one for one in self.alerts[begin:] if nodes & set(ways[one.alarm])]


@asynccontextmanager
async def floor(
    seed: int, extent: Extent, count: int, folder: Path = CACHE
) -> AsyncIterator[Floor]:
    """`count` alerts of all but the first day, as many of each alarm as a quarter's are mixed."""
    loaded = procedure()
    files = dock_files(seed, extent, folder)
    alerts = historical_alerts(files.world, count, between=(extent.start + DAY_S, extent.end))
    clock = SystemClock()
    metrics = Metrics.register(version="drift", monotonic=clock.monotonic)
    metrics.nodes.for_nodes(loaded.sop.nodes)
    async with AsyncExitStack() as stack:
        inner = await stack.enter_async_context(sources_in_process(files))
        sources = {name: ChangedSource(source) for name, source in inner.items()}
        guarded = {
            name: GuardedSource(source, LIMITS, metrics.sources.cell(name), clock.monotonic)
            for name, source in sources.items()
        }
        yield Floor(
            seed=seed,
            files=files,
            alerts=alerts,
            sources=sources,
            snapshot=snapshot(loaded.sop, loaded.sites, loaded.library, guarded),
            engine=Engine(
                options=EngineOptions(deadline_s=DEADLINE_S),
                clock=clock,
                marker=NoMark(),
                metrics=metrics.nodes,
            ),
            metrics=metrics,
        )


class _Pinned(NamedTuple):
    sop: Sop


class Watched:
    """A watcher with a record in memory. What it found is read after each decision. Nodes are
    watched each for itself: where only some matter, `nodes`, the others cost nothing."""

    def __init__(
        self, on: Floor, log: MemoryWatchLog, nodes: frozenset[NodeId] | None = None
    ) -> None:
        clock = SystemClock()
        sop = on.snapshot.sop
        wanted = {name: one for name, one in sop.nodes.items() if nodes is None or name in nodes}
        self._pinned = _Pinned(replace(sop, nodes=wanted))
        self.log = log
        self.watcher = Watcher(
            log=log,
            findings=Findings(log, clock, on.metrics.watch),
            clock=clock,
            metrics=on.metrics.watch,
            name=WATCHER,
            save_s=1e9,
        )
        self._known: set[str] = set()

    async def begin(self) -> None:
        self._known = {one.finding_id for one in await self.log.findings()}

    async def see(self, alert: HistoricalAlert, decided: Decided) -> list[WatchFinding]:
        """What was found at this decision and was not open before."""
        self.watcher.offer(alert.alert(decided.decision.accepted_at), decided, self._pinned)
        await self.watcher.settled()
        there = {one.finding_id: one for one in await self.log.findings()}
        new = [one for its_id, one in there.items() if its_id not in self._known]
        self._known = set(there)
        return new
