"""What looks at the tools of a daemon while they work: drift of what they see, and re-tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from triage.adapters.store import Store
from triage.app.current import Current
from triage.app.retest import Shelf, task_of
from triage.app.settings import Settings
from triage.app.trial_parts import LIVE_S
from triage.engine.engine import Decided
from triage.engine.snapshot import Snapshot
from triage.errors import Finding
from triage.evaluation.judge import Marker
from triage.model.alert import Alert
from triage.model.decision import NodeId
from triage.ports import Clock
from triage.telemetry.watch_metrics import WatchMetrics
from triage.trial.answers import LiveAnswers
from triage.trial.model import Answers
from triage.watching.findings import Findings
from triage.watching.retest_schedule import OpenLive, Retester, Task
from triage.watching.watcher import Watcher


class Watching:
    """The two of them as one thing that the worker offers decisions to and the daemon runs."""

    def __init__(self, watcher: Watcher, retester: Retester | None) -> None:
        self._watcher = watcher
        self._retester = retester

    def offer(self, alert: Alert, decided: Decided, snapshot: Snapshot, /) -> None:
        self._watcher.offer(alert, decided, snapshot)

    def stop(self) -> None:
        self._watcher.stop()
        if self._retester is not None:
            self._retester.stop()

    async def run(self) -> None:
        sides = [asyncio.create_task(self._watcher.run())]
        if self._retester is not None:
            sides.append(asyncio.create_task(self._retester.run()))
        try:
            for side in asyncio.as_completed(sides):
                await side
        finally:
            for task in sides:
                task.cancel()
            await asyncio.gather(*sides, return_exceptions=True)


def watching(
    settings: Settings,
    *,
    store: Store,
    current: Current,
    metrics: WatchMetrics,
    clock: Clock,
    is_draining: Callable[[], bool],
    marker: Marker | None = None,
) -> Watching:
    """Not yet running."""
    section = settings.watch
    findings = Findings(store.watch, clock, metrics)
    watcher = Watcher(
        log=store.watch,
        findings=findings,
        clock=clock,
        metrics=metrics,
        name=replica_name(),
        save_s=section.save_s,
        metrics_nodes=section.metrics_nodes,
    )
    retester = None
    if section.retest_s > 0:
        retester = Retester(
            nodes=lambda: list(current.snapshots.current.library.tools),
            task=_tasks(current, clock, marker),
            live=_live(current, clock) if section.live else None,
            findings=findings,
            log=store.watch,
            clock=clock,
            metrics=metrics,
            every_s=section.retest_s,
            is_draining=is_draining,
        )
    return Watching(watcher, retester)


def replica_name() -> str:
    """The host's: of a replica that keeps its name over a restart, what it learned is kept too. One
    that is new each time, as a pod of a Deployment, begins to learn anew."""
    return socket.gethostname()


def _tasks(
    current: Current, clock: Clock, marker: Marker | None
) -> Callable[[NodeId], Awaitable[Task | None]]:
    log = structlog.get_logger("triage.retest")

    def told(finding: Finding) -> None:
        log.warning("cases_unusable", file=finding.file, line=finding.line, problem=finding.problem)

    async def task(node: NodeId) -> Task | None:
        shelf = Shelf.of(current.settings, current.snapshots.current)
        return await asyncio.to_thread(
            task_of, shelf, node, monotonic=clock.monotonic, marker=marker, told=told
        )

    return task


def _live(current: Current, clock: Clock) -> OpenLive:
    @asynccontextmanager
    async def live() -> AsyncIterator[Answers]:
        snapshot = current.snapshots.pin()
        try:
            yield LiveAnswers(snapshot.sources, monotonic=clock.monotonic, timeout_s=LIVE_S)
        finally:
            await current.snapshots.release(snapshot)

    return live
