"""A worker around a fake record and a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from tests.unit.evaluation.virtual_time import START, LoopClock
from tests.unit.evaluation.world import (
    World,
    action,
    library,
    memory,
    node,
    procedure,
    tool,
    value,
)
from tests.unit.worker.fakes import LEASE_S, Record
from triage.adapters.memory import MemorySource
from triage.engine.snapshot import Closer, SnapshotHolder
from triage.errors import QueueError, StoreError
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.model.alert import AlertId
from triage.ports import AlertStatus
from triage.worker.lanes import Lanes
from triage.worker.worker import Watcher, Worker, WorkerOptions

IDS = [f"{n:032x}" for n in range(1, 101)]
LOST = StoreError("disk full")
GONE = QueueError("the broker is away")


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
    swept: list[int] = field(default_factory=list)
    close: Closer = nothing_closed
    watchers: Sequence[Watcher] = ()
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
            on_sweep=self.swept.append,
            watchers=self.watchers,
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

    async def lose(self, alert_id: AlertId) -> None:
        """Runs an attempt during which another process decides the alert."""
        self.source.hold()
        async with self.running():
            await self.source.waiting.wait()
            self.record.rows[alert_id].status = AlertStatus.DECIDED
            self.source.release()
            await until(lambda: not self.record.queue.entries)

    async def decide_resolved(self, alert_id: AlertId) -> None:
        """Runs an attempt during which the alert is resolved."""
        self.source.hold()
        async with self.running():
            await self.source.waiting.wait()
            row = self.record.rows[alert_id]
            row.alert = replace(row.alert, resolved_at=START)
            self.source.release()
            await until(lambda: self.record.settled)


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
