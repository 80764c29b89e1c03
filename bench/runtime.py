"""The real engine around a benchmark's SOP, library and source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from triage.clock import SystemClock
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import NoMark
from triage.library.catalogue import Library
from triage.model.alert import Alert
from triage.ports import Source
from triage.sop.procedure import Sop
from triage.sop.sites import parse_sites
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes


class World(Protocol):
    """What an engine is put around. The source is open."""

    @property
    def sop(self) -> Sop: ...
    @property
    def library(self) -> Library: ...
    @property
    def source(self) -> Source: ...
    @property
    def alert(self) -> Alert: ...


def engine_for(
    bench: World,
    metrics: Metrics,
    *,
    options: EngineOptions | None = None,
    limits: SourceLimits | None = None,
    at_once: int = 1,
) -> Callable[[], Awaitable[Decided]]:
    """Decides the bench's alert, metrics and evidence on, up to `at_once` times at once."""
    clock = SystemClock()
    metrics.nodes.for_nodes(bench.sop.nodes)
    name = bench.source.name
    source = GuardedSource(
        bench.source, limits or SourceLimits(), metrics.sources.cell(name), clock.monotonic
    )
    sites = parse_sites(b"sites: {site-1: {zone: UTC}}", "sites.yaml", bench.sop)
    pinned = snapshot(bench.sop, sites, bench.library, {name: source})
    engine = Engine(
        options=options or EngineOptions(), clock=clock, marker=NoMark(), metrics=metrics.nodes
    )
    lanes = Lanes(fast=at_once, slow=1)

    async def decide() -> Decided:
        slot = lanes.take()
        try:
            return await engine.decide(bench.alert, pinned, lane=slot)
        finally:
            slot.release()

    return decide
