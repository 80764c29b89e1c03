"""`prefetch = subtree` against `layer`: the same decisions of one real Prometheus, taking turns.

Asking for everything that could be reached saves the round trips of the layers, and costs both
sides every query of the nodes that the walk then passes by. Here 15 nodes can be reached in 5
layers, and 7 of them are. On loopback a round trip is next to nothing but work, so the decisions
are made once more with a wait before each query, as to a server that is that far away.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop

from bench.peers.walk import ACTION, FIRED_AT, alert, library_of, sop_of
from bench.runtime import engine_for
from bench.servers import OldSeries, Prometheus
from triage.adapters.prometheus import PrometheusSource
from triage.engine.engine import Decided, EngineOptions, Prefetch
from triage.evaluation.guard import SourceLimits
from triage.library.catalogue import Library
from triage.model.alert import Alert
from triage.model.query import Answer, Query
from triage.sop.procedure import Sop
from triage.telemetry.metrics import Metrics
from triage.tool_api import (
    Context,
    Verdict,
    aggregate,
    compare,
    conclude,
    mean,
    samples,
    selector,
)

ROUNDS = 14
WARM_UP_ROUNDS = 1
ONE_BY_ONE = 5  # decisions of each mode a round, one at a time
FAR = 3  # and as many with the server far away
AT_ONCE = 10  # decisions of each mode a round, all at the same time
AWAY_MS = 20

SOURCE = "prometheus"
MODES: tuple[Prefetch, ...] = ("layer", "subtree")
FOLLOWING: Mapping[str, tuple[str, ...]] = {
    "a": ("b1", "b2"),
    "b1": ("c1", "c2"),
    "b2": ("c3", "c4"),
    "c1": ("d1",),
    "c2": ("d2", "d3"),
    "c3": ("d4",),
    "c4": ("d5",),
    "d1": ("e1",),
    "d2": (ACTION,),
    "d3": ("e2",),
    "d4": ("e3",),
    "d5": (ACTION,),
    "e1": (ACTION,),
    "e2": (ACTION,),
    "e3": (ACTION,),
}
TRUE = frozenset({"a", "b1", "c1", "d1", "e1"})
WALKED = frozenset({"a", "b1", "b2", "c1", "c2", "d1", "e1"})

WINDOW_S = 300
LONG_WINDOW_S = 3_600
SCRAPED_EVERY_S = 15
INSTANCES = 3
PATIENT = SourceLimits(timeout_s=30.0)  # a loaded machine shall be slow here, and not degraded
DEADLINE_S = 60.0
SERVED = 'prometheus_http_requests_total{code="200",handler="/api/v1/query"}'


def make_tool(node: str) -> tuple[Any, Any]:
    """Is the load of the last minutes high, and was it ever higher in the last hour?"""
    load = selector("bench_load", node=node)

    def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
        return [
            samples(SOURCE, load, timestamp, WINDOW_S),
            aggregate(SOURCE, load, timestamp, LONG_WINDOW_S, "max"),
        ]

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        recent, highest = queries(warehouse, timestamp, context)
        now = max(mean(series.values) for series in context.answer(recent))
        peak = max(reading.value for reading in context.answer(highest))
        return conclude(
            [
                compare("load", now, ">", 50, "percent"),
                compare("share of the peak", now / peak, ">", 0.5),
            ],
            "the load is high",
        )

    return queries, evaluate


def stored() -> list[OldSeries]:
    """An hour of three instances a node, high where the node is to be true."""
    end_ms = int(FIRED_AT.timestamp()) * 1000
    times = range(end_ms - LONG_WINDOW_S * 1000, end_ms + 1, SCRAPED_EVERY_S * 1000)
    return [
        OldSeries(
            "bench_load",
            {"node": node, "instance": f"host-{instance}", "job": "bench"},
            [(at, (90.0 if node in TRUE else 10.0) + at // 1000 % 7 / 10) for at in times],
        )
        for node in FOLLOWING
        for instance in range(INSTANCES)
    ]


class Counted:
    """A source that counts what it is asked, cancelled calls included, and is `away_s` away."""

    def __init__(self, source: PrometheusSource) -> None:
        self._source = source
        self.asked = 0
        self.away_s = 0.0

    @property
    def name(self) -> str:
        return self._source.name

    async def open(self) -> None:
        await self._source.open()

    async def close(self) -> None:
        await self._source.close()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        self.asked += 1
        if self.away_s:
            await asyncio.sleep(self.away_s)
        return await self._source.ask(query, timeout_s=timeout_s)

    async def probe(self, *, timeout_s: float) -> str:
        return await self._source.probe(timeout_s=timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    sop: Sop
    library: Library
    source: Counted
    alert: Alert


@dataclass(slots=True, kw_only=True)
class Mode:
    """One contender and what was seen of it. Times are milliseconds; `served` is the server's own
    count of the queries it answered."""

    decide: Callable[[], Awaitable[Decided]]
    source: Counted
    alone: list[float] = field(default_factory=list)
    far: list[float] = field(default_factory=list)
    crowded: list[float] = field(default_factory=list)
    round_trips: list[int] = field(default_factory=list)
    digests: set[str] = field(default_factory=set)
    decisions: int = 0
    served: int = 0

    async def run(self, server: Prometheus) -> None:
        """A round of this mode."""
        before = await asyncio.to_thread(_served, server)
        for _ in range(ONE_BY_ONE):
            self.alone.append(await self._timed())
        self.crowded += await asyncio.gather(*(self._timed() for _ in range(AT_ONCE)))
        self.source.away_s = AWAY_MS / 1000
        for _ in range(FAR):
            self.far.append(await self._timed())
        self.source.away_s = 0.0
        self.served += await asyncio.to_thread(_served, server) - before

    async def _timed(self) -> float:
        began = time.perf_counter()
        decision = (await self.decide()).decision
        took = (time.perf_counter() - began) * 1000
        assert not decision.degraded, [node.failure for node in decision.nodes if node.failure]
        assert {result.node for result in decision.nodes} == WALKED
        self.digests.add(decision.decision_sha256)
        self.round_trips.append(decision.round_trips)
        self.decisions += 1
        return took

    def forget(self) -> None:
        """Begin counting anew, after the warm-up."""
        self.alone.clear()
        self.far.clear()
        self.crowded.clear()
        self.round_trips.clear()
        self.source.asked = self.decisions = self.served = 0


def measure(rounds: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Milliseconds a decision in both modes, one at a time, ten at a time and from afar, and what
    each costs the server. Ratios are subtree's p50 by layer's: below 1, subtree is the faster.

    Raises MissingServer without Prometheus.
    """
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as folder:
        server = Prometheus(Path(folder))
        server.backfill(stored())
        with server:
            return uvloop.run(_measure(server, rounds, progress))


async def _measure(
    server: Prometheus, rounds: int, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    modes = {mode: _contender(server, mode) for mode in MODES}
    for mode in modes.values():
        await mode.source.open()
    try:
        gc.collect()
        for index in range(WARM_UP_ROUNDS + rounds):
            if index == WARM_UP_ROUNDS:
                for mode in modes.values():
                    mode.forget()
            # Each goes first in every other round: what one leaves behind is the other's start.
            for name in MODES if index % 2 else MODES[::-1]:
                await modes[name].run(server)
            progress(index + 1, WARM_UP_ROUNDS + rounds)
    finally:
        for mode in modes.values():
            await mode.source.close()
    digests = modes["layer"].digests | modes["subtree"].digests
    assert len(digests) == 1, f"the modes do not agree: {digests}"
    return _figures(modes["layer"], modes["subtree"], rounds)


def _contender(server: Prometheus, mode: Prefetch) -> Mode:
    source = Counted(PrometheusSource(SOURCE, server.url, max_connections=PATIENT.max_concurrency))
    world = World(
        sop=sop_of(FOLLOWING, SOURCE),
        library=library_of({node: make_tool(node) for node in FOLLOWING}),
        source=source,
        alert=alert(),
    )
    decide = engine_for(
        world,
        Metrics.register(version="bench", monotonic=time.monotonic),
        options=EngineOptions(prefetch=mode, deadline_s=DEADLINE_S),
        limits=PATIENT,
        at_once=AT_ONCE,
    )
    return Mode(decide=decide, source=source)


def _figures(layer: Mode, subtree: Mode, rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, mode in (("layer", layer), ("subtree", subtree)):
        for suffix, times in (
            ("", mode.alone),
            (f"_at_{AT_ONCE}", mode.crowded),
            (f"_{AWAY_MS}ms_away", mode.far),
        ):
            figures[f"{name}{suffix}_p50_ms"] = _quantile(times, 0.5)
            figures[f"{name}{suffix}_p99_ms"] = _quantile(times, 0.99)
        figures[f"{name}_round_trips_p50"] = statistics.median(mode.round_trips)
        figures[f"{name}_queries_per_decision"] = round(mode.source.asked / mode.decisions, 2)
        figures[f"{name}_served_per_decision"] = round(mode.served / mode.decisions, 2)
    ratios = {
        f"ratio{suffix}": round(
            figures[f"subtree{suffix}_p50_ms"] / figures[f"layer{suffix}_p50_ms"], 3
        )
        for suffix in ("", f"_at_{AT_ONCE}", f"_{AWAY_MS}ms_away")
    }
    return {
        **ratios,
        **figures,
        "decisions_each": rounds * (ONE_BY_ONE + AT_ONCE + FAR),
        "nodes_reachable": len(FOLLOWING),
        "nodes_walked": len(WALKED),
        "decision_sha256": next(iter(layer.digests)),
    }


def _quantile(values: list[float], q: float) -> float:
    """The nearest rank, of the raw values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 2)


def _served(server: Prometheus) -> int:
    """How many queries the server says it has answered."""
    with urlopen(f"{server.url}/metrics", timeout=30) as page:  # noqa: S310 - our own server
        lines = page.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(SERVED))
