"""How soon injected changes are named, and how often something is named that was not injected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.dock import CACHE
from bench.drift.changed import target_of
from bench.drift.floor import DAY_S, WATCHER, Floor, Watched, floor
from bench.drift.injections import Injection, Survey, injections
from bench.drift.retesting import Cases, retest
from bench.watching import Progress, Say
from bench.world.world import WHOLE, Extent
from triage.adapters.memory_watch import MemoryWatchLog
from triage.engine.engine import Decided
from triage.model.decision import NodeId
from triage.ports import WatchFinding, WatchKind
from triage.watching.retest import Seen

TUNED_ON = (8101, 8102, 8103)
"""Worlds that the monitors' figures were chosen on."""
NEVER_TUNED_ON = (9201, 9202, 9203, 9204, 9205, 9206, 9207, 9208, 9209, 9210)
"""Worlds that nothing was chosen on: what is reported."""

EXTENT = Extent(start=WHOLE.end - 20 * DAY_S, days=20, sites=3)
"""Fewer than three weeks, so that no node comes by its usual days in the midst of it: what it is
then asked to judge by would change, and rightly be named."""
ALERTS = 2600
"""Some 10,500 evaluations of nodes."""
WARM = 0.7
"""Of the alerts, before anything is changed."""
WITHIN = 30
EACH = 8

OF_KIND: Mapping[str, frozenset[WatchKind]] = {
    "unit": frozenset({WatchKind.VALUES_MOVED}),
    "moved": frozenset({WatchKind.VALUES_MOVED}),
    "renamed": frozenset({WatchKind.SCHEMA_CHANGED, WatchKind.FAILURES, WatchKind.RETEST_FAILED}),
    "dead": frozenset({WatchKind.SOURCE_DEAD}),
}


class Quiet(NamedTuple):
    """A world in which nothing was changed."""

    seed: int
    alerts: int
    evaluations: int
    findings: tuple[WatchFinding, ...]


class Named(NamedTuple):
    """One injection and one node: `after` evaluations it was named, None for not within those that
    there were, `seen`. `at_site` counts only evaluations that the change concerned, those at a site
    where it was made. `retested` is whether one re-test names it, None without a case to try."""

    injection: str
    kind: str
    node: NodeId
    seen: int
    after: int | None
    at_site: int | None
    finding: str
    concerned: int = 0
    retested: bool | None = None

    @property
    def in_time(self) -> bool:
        """Within 30 evaluations that it concerned, or at one re-test."""
        return bool(self.retested) or (self.at_site is not None and self.at_site <= WITHIN)

    @property
    def too_few(self) -> bool:
        """Neither named, nor evaluated often enough for it to be missed."""
        return not self.in_time and self.after is None and self.concerned < WITHIN


@dataclass(slots=True)
class Run:
    quiet: list[Quiet] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)
    seconds: float = 0.0


async def quiet(on: Floor, progress: Progress) -> Quiet:
    """Every alert of the floor, watched from nothing."""
    watched = Watched(on, MemoryWatchLog())
    running = Running(watched)
    found: list[WatchFinding] = []
    evaluations = 0
    async with running:
        for done, alert in enumerate(on.alerts):
            decided = await on.decide(alert)
            evaluations += len(decided.decision.nodes)
            found += await watched.see(alert, decided)
            progress(done, len(on.alerts))
    return Quiet(on.seed, len(on.alerts), evaluations, tuple(found))


async def injected(
    on: Floor, each: int, progress: Progress, say: Say, only: str = ""
) -> list[Named]:
    """The same floor up to a moment, then each change from there on, on its own."""
    begin = int(len(on.alerts) * WARM)
    log, survey, cases = MemoryWatchLog(), Survey(), Cases()
    watched = Watched(on, log)
    async with Running(watched):
        for done, alert in enumerate(on.alerts[:begin]):
            decided = await on.decide(alert)
            survey.see(decided)
            cases.see(alert, decided)
            await watched.see(alert, decided)
            progress(done, begin)
    states = await log.load_state(WATCHER)
    named: list[Named] = []
    chosen = [one for one in injections(survey, on.seed, each=each) if only in one.change.name]
    for number, injection in enumerate(chosen):
        fresh = MemoryWatchLog()
        await fresh.save_state(WATCHER, states)
        found = await _one(on, injection, fresh, begin, cases)
        named += found
        say(f"{number + 1}/{len(chosen)} {injection.change.name}: {_told(found)}")
    return named


async def _one(
    on: Floor, injection: Injection, log: MemoryWatchLog, begin: int, cases: Cases
) -> list[Named]:
    change = injection.change
    watched = Watched(on, log)
    seen: dict[NodeId, int] = dict.fromkeys(injection.nodes, 0)
    concerned: dict[NodeId, int] = dict.fromkeys(injection.nodes, 0)
    named: dict[NodeId, Named] = {}
    on.change(change)
    try:
        async with Running(watched):
            for alert in on.reaching(injection.nodes, begin):
                decided = await on.decide(alert)
                for node in _evaluated(decided, injection):
                    seen[node] += 1
                    concerned[node] += _concerns(decided, node, injection)
                for finding in await watched.see(alert, decided):
                    if _names(finding, injection) and finding.node not in named:
                        node = finding.node
                        named[node] = Named(
                            change.name,
                            change.kind,
                            node,
                            seen.get(node, 0),
                            seen.get(node, 0),
                            concerned.get(node, 0),
                            f"{finding.kind.value} {finding.subject}: {finding.detail}",
                        )
                if all(node in named or concerned[node] >= WITHIN for node in injection.nodes):
                    break
        retested = {node: await _retested(on, injection, node, cases) for node in injection.nodes}
    finally:
        on.change(None)
    return [
        (
            named.get(node) or Named(change.name, change.kind, node, seen[node], None, None, "")
        )._replace(concerned=concerned[node], retested=retested[node])
        for node in sorted(injection.nodes)
    ]


async def _retested(on: Floor, injection: Injection, node: NodeId, cases: Cases) -> bool | None:
    there = cases.of(node, frozenset(injection.change.factors))
    if not there:
        return None
    return any(_names(found, injection) for found in await retest(on, node, there))


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


def _concerns(decided: Decided, node: NodeId, injection: Injection) -> int:
    factors = injection.change.factors
    return int(not factors or decided.decision.site in factors)


def _names(finding: WatchFinding | Seen, injection: Injection) -> bool:
    """Whether the finding says which field or source it is: not only that something is wrong."""
    if finding.kind not in OF_KIND[injection.change.kind]:
        return False
    said = f"{finding.subject} {finding.detail}"
    words = injection.words
    if finding.kind in (WatchKind.FAILURES, WatchKind.RETEST_FAILED):
        return words[-1] in finding.detail
    return all(word in said for word in words)


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


async def measure(
    *,
    seeds: Sequence[int] = NEVER_TUNED_ON,
    injected_on: int = 2,
    extent: Extent = EXTENT,
    alerts: int = ALERTS,
    each: int = EACH,
    only: str = "",
    folder: Path = CACHE,
    progress: Progress,
    say: Say,
) -> Run:
    """False alarms on every seed, injections on the first `injected_on` of them."""
    run, began = Run(), time.perf_counter()
    for number, seed in enumerate(seeds):
        say(f"seed {seed}: the world and its files")
        async with floor(seed, extent, alerts, folder) as on:
            if number < injected_on:
                run.named += await injected(on, each, progress, say, only)
            if not only:
                one = await quiet(on, progress)
                run.quiet.append(one)
                say(f"seed {seed}: {one.evaluations} evaluations, {len(one.findings)} findings")
                for finding in one.findings:
                    say(
                        f"  {finding.node} {finding.kind.value} {finding.subject}: {finding.detail}"
                    )
    run.seconds = time.perf_counter() - began
    return run


def figures(run: Run) -> dict[str, Any]:
    """What `--json` writes. Of each kind of change: how many nodes' findings named it, after how
    many evaluations of the node, and of those at a site where it was made; and how many re-tests
    named it, of those that there was a case for. A node that was neither named nor evaluated 30
    times after a change counts as `too_few`, not as missed."""
    evaluations = sum(one.evaluations for one in run.quiet)
    false = sum(len(one.findings) for one in run.quiet)
    return {
        "seeds": [one.seed for one in run.quiet],
        "tuned_on": list(TUNED_ON),
        "evaluations": evaluations,
        "evaluations_per_seed": [one.evaluations for one in run.quiet],
        "false_alarms": false,
        "false_alarms_per_seed": [len(one.findings) for one in run.quiet],
        "false_alarms_per_10000": 10_000 * false / evaluations if evaluations else None,
        "false_alarm_findings": [
            f"{one.seed} {finding.node} {finding.kind.value} {finding.subject}"
            for one in run.quiet
            for finding in one.findings
        ],
        "injections": {kind: _of_kind(run.named, kind) for kind in OF_KIND},
        "missed": [
            f"{n.injection}: {n.node}" for n in run.named if not n.in_time and not n.too_few
        ],
        "seconds": run.seconds,
    }


def _of_kind(named: Sequence[Named], kind: str) -> dict[str, Any]:
    some = [one for one in named if one.kind == kind]
    after = [one.after for one in some if one.after is not None]
    at_site = [one.at_site for one in some if one.at_site is not None]
    retested = [one.retested for one in some if one.retested is not None]
    return {
        "changes": len({one.injection for one in some}),
        "nodes": len(some),
        "named": len(after),
        "named_within_30": len([n for n in after if n <= WITHIN]),
        "named_within_30_at_the_site": len([n for n in at_site if n <= WITHIN]),
        "retests": len(retested),
        "named_by_retest": retested.count(True),
        "in_time": len([one for one in some if one.in_time]),
        "too_few": len([one for one in some if one.too_few]),
        "missed": len([one for one in some if not one.in_time and not one.too_few]),
        "evaluations_median": median(after) if after else None,
        "evaluations_max": max(after, default=None),
        "at_the_site_median": median(at_site) if at_site else None,
        "at_the_site_max": max(at_site, default=None),
    }


def is_right(figures: Mapping[str, Any]) -> bool:
    rate = figures["false_alarms_per_10000"]
    return (rate is None or rate <= 1) and not figures["missed"]


def _told(found: Sequence[Named]) -> str:
    return ", ".join(
        f"{one.node} {'after ' + str(one.after) if one.after is not None else f'not in {one.seen}'}"
        f" ({one.at_site or one.concerned} at the site{', re-test' if one.retested else ''})"
        for one in found
    )
