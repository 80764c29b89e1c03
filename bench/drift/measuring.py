"""How soon injected changes are named, and how often something is named that was not injected."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import uvloop

from bench.dock import CACHE
from bench.drift.changed import target_of
from bench.drift.floor import DAY_S, WATCHER, Floor, Watched, floor
from bench.drift.injections import Injection, Survey, injections
from bench.drift.named import WITHIN, Named, Quiet, names
from bench.drift.retesting import Cases, retest
from bench.replay.alerts import HistoricalAlert
from bench.watching import Progress, Say, silent, unseen
from bench.world.world import WHOLE, Extent
from triage.adapters.memory_watch import MemoryWatchLog
from triage.engine.engine import Decided
from triage.model.decision import NodeId
from triage.ports import WatchFinding
from triage.telemetry.logs import configure

TUNED_ON = tuple(range(8101, 8114))
"""Worlds that the monitors' figures were chosen on."""
NEVER_TUNED_ON = tuple(range(9301, 9311))
"""Worlds that nothing was chosen on: what is reported. It was 9201 to 9210 until they showed 12
false alarms in 103,853 evaluations, and something was done about it."""

EXTENT = Extent(start=WHOLE.end - 20 * DAY_S, days=20, sites=3)
"""Fewer than three weeks, so that no node comes by its usual days in the midst of it: what it is
then asked to judge by would change, and rightly be named."""
ALERTS = 2600
"""Some 10,500 evaluations of nodes."""
WARM = 0.7
"""Of the alerts, before anything is changed."""
EACH = 8


class World(NamedTuple):
    """All that one seed shows. `lines` tell it to people."""

    quiet: Quiet | None
    named: Sequence[Named]
    lines: Sequence[str] = ()


@dataclass(slots=True)
class Run:
    quiet: list[Quiet] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, world: World) -> None:
        self.named += world.named
        if world.quiet is not None:
            self.quiet.append(world.quiet)


class Past(NamedTuple):
    """What is known at the moment at which something changes: `begin` alerts have been decided."""

    begin: int
    states: Mapping[NodeId, bytes]
    survey: Survey
    cases: Cases


async def quiet(
    on: Floor, progress: Progress, *, past: bool, whole: bool = True
) -> tuple[Quiet, Past]:
    """Every alert of the floor, watched from nothing by a watcher that is ended and begun anew at
    the moment at which changes are injected. With `past`, what there was to be known until then is
    collected; not `whole` ends with it."""
    begin = int(len(on.alerts) * WARM)
    log, survey, cases = MemoryWatchLog(), Survey(), Cases()
    found: list[WatchFinding] = []
    evaluations = 0

    async def watch(alerts: Sequence[HistoricalAlert], first: int, *, collect: bool) -> None:
        nonlocal evaluations
        watched = Watched(on, log)
        async with Running(watched):
            for done, alert in enumerate(alerts, start=first):
                decided = await on.decide(alert)
                evaluations += len(decided.decision.nodes)
                if collect:
                    survey.see(decided)
                    cases.see(alert, decided)
                found.extend(await watched.see(alert, decided))
                progress(done, len(on.alerts))

    await watch(on.alerts[:begin], 0, collect=past)
    known = Past(begin, await log.load_state(WATCHER), survey, cases)
    if whole:
        await watch(on.alerts[begin:], begin, collect=False)
    return Quiet(on.seed, len(on.alerts), evaluations, tuple(found)), known


async def injected(on: Floor, past: Past, each: int, say: Say, only: str = "") -> list[Named]:
    """Each change from the same moment on, on its own."""
    named: list[Named] = []
    chosen = [one for one in injections(past.survey, on.seed, each=each) if only in one.change.name]
    for number, injection in enumerate(chosen):
        found = await _one(on, injection, past)
        named += found
        say(f"{number + 1}/{len(chosen)} {injection.change.name}: {_told(found)}")
    return named


async def _one(on: Floor, injection: Injection, past: Past) -> list[Named]:
    change = injection.change
    log = MemoryWatchLog()
    its = {node: state for node, state in past.states.items() if node in injection.nodes}
    await log.save_state(WATCHER, its)
    watched = Watched(on, log, injection.nodes)
    seen: dict[NodeId, int] = dict.fromkeys(injection.nodes, 0)
    concerned: dict[NodeId, int] = dict.fromkeys(injection.nodes, 0)
    named: dict[NodeId, Named] = {}
    on.change(change)
    try:
        async with Running(watched):
            for alert in on.reaching(injection.nodes, past.begin):
                decided = await on.decide(alert)
                for node in _evaluated(decided, injection):
                    seen[node] += 1
                    concerned[node] += _concerns(decided, injection)
                for finding in await watched.see(alert, decided):
                    if names(finding, injection) and finding.node not in named:
                        node = finding.node
                        named[node] = Named(
                            on.seed,
                            change.name,
                            change.kind,
                            node,
                            seen[node],
                            seen[node],
                            concerned[node],
                            f"{finding.kind.value} {finding.subject}: {finding.detail}",
                        )
                if all(node in named or concerned[node] >= WITHIN for node in injection.nodes):
                    break
        retests = {node: await _retested(on, injection, node, past) for node in injection.nodes}
    finally:
        on.change(None)
    return [
        (
            named.get(node)
            or Named(on.seed, change.name, change.kind, node, seen[node], None, None, "")
        )._replace(concerned=concerned[node], retested=retests[node][0], cases=retests[node][1])
        for node in sorted(injection.nodes)
    ]


async def _retested(
    on: Floor, injection: Injection, node: NodeId, past: Past
) -> tuple[bool | None, int]:
    """Whether it is named, and by how many cases it was tried."""
    there = past.cases.of(node, injection.change)
    if not there:
        return None, 0
    found = await retest(on, node, there)
    return any(names(one, injection) for one in found), len(there)


def _evaluated(decided: Decided, injection: Injection) -> list[NodeId]:
    """Of the injection's nodes those that asked what was changed, whichever the site."""
    return [
        result.node
        for result in decided.decision.nodes
        if result.node in injection.nodes
        and any(
            asked.query.source == injection.change.source
            and injection.change.target in ("", target_of(asked.query))
            for asked in result.asked
        )
    ]


def _concerns(decided: Decided, injection: Injection) -> int:
    factors = injection.change.factors
    return int(not factors or decided.decision.site in factors)


class Running:
    """The watcher's task, as a block."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    async def __aenter__(self) -> None:
        await self._watched.begin()
        self._task = asyncio.create_task(self._watched.watcher.run())

    async def __aexit__(self, *_: object) -> None:
        self._watched.watcher.stop()
        await self._task


def measure(
    *,
    seeds: Sequence[int] = NEVER_TUNED_ON,
    injected_on: int = len(NEVER_TUNED_ON),
    extent: Extent = EXTENT,
    alerts: int = ALERTS,
    each: int = EACH,
    only: str = "",
    folder: Path = CACHE,
    processes: int = 1,
    progress: Progress = unseen,
    say: Say = silent,
) -> Run:
    """False alarms on every seed, injections on the first `injected_on` of them. `processes` share
    the seeds: `progress` is then of those, and in the one process of their alerts."""
    began = time.perf_counter()
    one = partial(_world, extent=extent, alerts=alerts, each=each, only=only, folder=folder)
    jobs = [(seed, number < injected_on) for number, seed in enumerate(seeds)]
    if processes == 1:
        worlds = [one(seed, changes=changes, progress=progress, say=say) for seed, changes in jobs]
    else:
        worlds = _shared(one, jobs, processes, progress, say)
    run = Run()
    for world in worlds:
        run.add(world)
    run.seconds = time.perf_counter() - began
    return run


class _Make(Protocol):
    def __call__(self, seed: int, *, changes: bool) -> World: ...


def _shared(
    make: _Make, jobs: Sequence[tuple[int, bool]], processes: int, progress: Progress, say: Say
) -> list[World]:
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawning, initializer=quiet_logs) as pool:
        progress(0, len(jobs))
        asked: list[Future[World]] = [
            pool.submit(make, seed, changes=changes) for seed, changes in jobs
        ]
        try:
            for done, future in enumerate(as_completed(asked), start=1):
                for line in future.result().lines:
                    say(line)
                progress(done, len(jobs))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [future.result() for future in asked]


def quiet_logs() -> None:
    """What the watcher warns of is what is counted."""
    configure(format="console", level="error")


def _world(
    seed: int,
    *,
    changes: bool,
    extent: Extent,
    alerts: int,
    each: int,
    only: str,
    folder: Path,
    progress: Progress = unseen,
    say: Say = silent,
) -> World:
    lines: list[str] = []

    def tell(text: str) -> None:
        lines.append(f"seed {seed}: {text}")
        say(lines[-1])

    async def run() -> World:
        tell("the world and its files")
        async with floor(seed, extent, alerts, folder) as on:
            still, past = await quiet(on, progress, past=changes, whole=not only)
            if not only:
                tell(f"{still.evaluations} evaluations, {len(still.findings)} findings")
                for one in still.findings:
                    tell(f"  {one.node} {one.kind.value} {one.subject}: {one.detail}")
            named = await injected(on, past, each, tell, only) if changes else []
        return World(None if only else still, named, lines)

    return uvloop.run(run())


def _told(found: Sequence[Named]) -> str:
    return ", ".join(
        f"{one.node} {'after ' + str(one.after) if one.after is not None else f'not in {one.seen}'}"
        f" ({one.concerned if one.at_site is None else one.at_site} where it was made"
        f"{', re-test' if one.retested else ''})"
        for one in found
    )
