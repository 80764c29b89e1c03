"""The real engine around a benchmark's SOP, library and source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.walk import Bench
from triage.clock import SystemClock
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.sop.sites import no_sites
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes


def engine_for(bench: Bench, metrics: Metrics) -> Callable[[], Awaitable[Decided]]:
    """Decides the bench's alert, metrics and evidence on."""
    clock = SystemClock()
    metrics.nodes.for_nodes(bench.sop.nodes)
    name = bench.source.name
    source = GuardedSource(
        bench.source, SourceLimits(), metrics.sources.cell(name), clock.monotonic
    )
    pinned = snapshot(bench.sop, no_sites(bench.sop), bench.library, {name: source})
    engine = Engine(options=EngineOptions(), clock=clock, marker=NoMark(), metrics=metrics.nodes)
    lanes = Lanes(fast=1, slow=1)

    async def decide() -> Decided:
        slot = lanes.take()
        try:
            return await engine.decide(bench.alert, pinned, lane=slot)
        finally:
            slot.release()

    return decide
