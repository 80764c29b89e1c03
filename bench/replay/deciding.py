"""The historical alerts, decided by the real worker, engine and store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from bench.fallback.staff import Staff
from bench.replay.alerts import HistoricalAlert
from bench.watching import Progress, unseen
from triage import __version__
from triage.adapters.store import Store
from triage.app.procedure import Loaded
from triage.clock import SystemClock
from triage.engine.engine import Engine, EngineOptions
from triage.engine.snapshot import SnapshotHolder, snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.model.decision import Decision
from triage.model.gap import Gap
from triage.ports import CommitStatus, DecisionFilter, DecisionPage, Message, Source
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes
from triage.worker.worker import Watcher, Worker, WorkerOptions

DEADLINE_S = 30.0
"""A replay measures how long a decision takes; it must not cut one off on a busy machine."""
LIMITS = SourceLimits(timeout_s=DEADLINE_S, max_answer_bytes=8 << 20)

Watching = Callable[[Store, Metrics], AbstractAsyncContextManager[Sequence[Watcher]]]
"""Who is told of decisions; it ends after the worker and before the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """`latency_s` is from the intended send to the durable commit."""

    alert: HistoricalAlert
    decision: Decision
    latency_s: float


@dataclass(slots=True)
class Tap:
    """The store's decision log, and what went through it."""

    inner: Any
    committed: dict[str, tuple[Decision, float]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def commit(
        self,
        decision: Decision,
        evidence: Mapping[str, bytes],
        messages: Sequence[Message],
        gaps: Sequence[Gap] = (),
    ) -> CommitStatus:
        status: CommitStatus = await self.inner.commit(decision, evidence, messages, gaps)
        if status is CommitStatus.COMMITTED:
            self.committed[decision.alert_id] = (decision, time.perf_counter())
            self.changed.set()
        return status

    async def get(self, alert_id: Any) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = await self.inner.get(alert_id)
        return found

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        page: DecisionPage = await self.inner.page(wanted, cursor=cursor, limit=limit)
        return page

    async def evidence(self, answer_sha256: str) -> bytes | None:
        body: bytes | None = await self.inner.evidence(answer_sha256)
        return body


class Triage:
    """A worker at work on a store of its own, without HTTP before it."""

    def __init__(self, store: Store, tap: Tap, at_once: int) -> None:
        self._store = store
        self._tap = tap
        self._at_once = at_once

    async def as_fast_as_possible(
        self, alerts: Sequence[HistoricalAlert], progress: Progress
    ) -> list[Decided]:
        """Never more than the lanes hold are under way, so none waits for another."""
        sent: dict[str, float] = {}
        for alert in alerts:
            while len(sent) - len(self._tap.committed) >= self._at_once:
                await self._commit(progress, len(alerts))
            sent[alert.alert_id] = time.perf_counter()
            await self._accept(alert)
        return await self._rest(alerts, sent, progress)

    async def open_loop(
        self, alerts: Sequence[HistoricalAlert], intended_s: Sequence[float], progress: Progress
    ) -> list[Decided]:
        """Each alert is sent when it is due, whatever became of those before; `intended_s` are
        seconds from the start, ascending. An alert that is sent late has waited since."""
        began = time.perf_counter()
        sent: dict[str, float] = {}
        for alert, due in zip(alerts, intended_s, strict=True):
            await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
            sent[alert.alert_id] = began + due
            await self._accept(alert)
            progress(len(self._tap.committed), len(alerts))
        return await self._rest(alerts, sent, progress)

    async def one(self, alert: HistoricalAlert) -> Decided:
        """Nothing else is under way. A store decides an alert once: the second time waits for
        ever."""
        began = time.perf_counter()
        await self._accept(alert)
        while alert.alert_id not in self._tap.committed:
            self._tap.changed.clear()
            await self._tap.changed.wait()
        decision, at = self._tap.committed[alert.alert_id]
        return Decided(alert=alert, decision=decision, latency_s=at - began)

    async def _accept(self, alert: HistoricalAlert) -> None:
        await self._store.alerts.accept([alert.arrival])

    async def _commit(self, progress: Progress, of: int) -> None:
        self._tap.changed.clear()
        await self._tap.changed.wait()
        progress(len(self._tap.committed), of)

    async def _rest(
        self, alerts: Sequence[HistoricalAlert], sent: Mapping[str, float], progress: Progress
    ) -> list[Decided]:
        while len(self._tap.committed) < len(sent):
            await self._commit(progress, len(alerts))
        ended = []
        for alert in alerts:
            decision, at = self._tap.committed[alert.alert_id]
            ended.append(
                Decided(alert=alert, decision=decision, latency_s=at - sent[alert.alert_id])
            )
        return ended


@asynccontextmanager
async def triage(
    loaded: Loaded,
    sources: Mapping[str, Source],
    *,
    prefetch: Literal["layer", "subtree"] = "layer",
    at_once: int = 1,
    folder: Path | None = None,
    staff: Staff | None = None,
    watching: Watching | None = None,
) -> AsyncIterator[Triage]:
    """A worker on a new store in `folder` (a temporary one by default). `staff` answers for the
    nodes without a tool; without it such a node fails."""
    clock = SystemClock()
    metrics = Metrics.register(version=__version__, monotonic=clock.monotonic)
    metrics.nodes.for_nodes(loaded.sop.nodes)
    metrics.sources.for_sources(sources)
    guarded = {
        name: GuardedSource(source, LIMITS, metrics.sources.cell(name), clock.monotonic)
        for name, source in sources.items()
    }
    pinned = snapshot(loaded.sop, loaded.sites, loaded.library, guarded)
    async with AsyncExitStack() as stack:
        engine = Engine(
            options=EngineOptions(
                deadline_s=DEADLINE_S,
                fallback_deadline_s=DEADLINE_S if staff is None else staff.attempt_s,
                prefetch=prefetch,
            ),
            clock=clock,
            marker=NoMark(),
            metrics=metrics.nodes,
            fallback=None
            if staff is None
            else await stack.enter_async_context(staff.at_work(guarded, metrics)),
        )
        if folder is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="triage-replay-")))
        store = await Store.open(folder / "replay.db", clock=clock)
        stack.push_async_callback(store.close)
        watchers: Sequence[Watcher] = ()
        if watching is not None:
            watchers = await stack.enter_async_context(watching(store, metrics))
        tap = Tap(store.decisions)
        worker = Worker(
            queue=store.queue,
            alerts=store.alerts,
            decisions=tap,
            engine=engine,
            snapshots=SnapshotHolder(pinned, _keep_open),
            lanes=Lanes(fast=at_once, slow=at_once),
            clock=clock,
            metrics=metrics.decisions,
            options=WorkerOptions(),
            on_commit=lambda: None,
            watchers=watchers,
        )
        running = asyncio.create_task(worker.run())
        stack.push_async_callback(_stopped, worker, running)
        yield Triage(store, tap, at_once)


async def warm_up(
    loaded: Loaded,
    sources: Mapping[str, Source],
    alerts: Sequence[HistoricalAlert],
    count: int,
    *,
    prefetch: Literal["layer", "subtree"] = "layer",
    at_once: int = 1,
) -> None:
    """Decides `count` of the alerts, spread over them, on a store of their own: first queries open
    connections, prepare statements, and build what the world keeps of a site."""
    some = alerts[:: max(1, len(alerts) // count)][:count]
    async with triage(loaded, sources, prefetch=prefetch, at_once=at_once) as warming:
        await warming.as_fast_as_possible(some, unseen)


async def _keep_open(source: GuardedSource) -> None:
    """Whoever opened the sources closes them."""


async def _stopped(worker: Worker, running: asyncio.Task[None]) -> None:
    worker.stop()
    await running
