"""`python -m bench peers`: the dock's alerts through the engine and through its peers.

The same alerts, tools and sources for a hand-written loop (the floor), the engine, LangGraph, and
the whole product from accept to durable commit. They take turns alert by alert, and every one has
to come to the same verdicts and actions.

Every contender asks the sources anew for every alert, each distinct query once; nothing is kept
from one walk to the next. Metrics and equipment answer in this process, tables through the SQL
adapter from SQLite. Most of a walk is then the sources' and the tools' own work, which is the same
for all. So the walks are made once more with answers from memory, recorded from those sources:
what differs there is the cost of the orchestration.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.cases.runner import sources_in_process
from bench.dock import CACHE, dock_files, procedure
from bench.peers.floor import Floor, Reached, Walked
from bench.ranks import nearest_rank
from bench.replay.alerts import HistoricalAlert, historical_alerts
from bench.replay.deciding import DEADLINE_S, LIMITS, Triage, triage
from bench.watching import Progress, Say, silent, unseen
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage import __version__
from triage.adapters.memory import MemorySource
from triage.app.procedure import Loaded
from triage.clock import SystemClock
from triage.engine.engine import Engine, EngineOptions
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource
from triage.evaluation.judge import NoMark
from triage.model.alert import Alert
from triage.model.decision import Decision
from triage.model.query import Answer, Query
from triage.ports import Source
from triage.telemetry.metrics import Metrics
from triage.worker.lanes import Lanes

ALERTS = 80
ROUNDS = 2
NAMES = ("floor", "engine", "langgraph", "product")
RATIOS = (("engine", "floor"), ("langgraph", "engine"), ("product", "floor"))


class Different(AssertionError):
    """Two contenders decided one alert differently: then there is nothing to compare."""


class Turn(NamedTuple):
    """One alert, as the intake sees it and as the engine does."""

    historical: HistoricalAlert
    alert: Alert


class Said(NamedTuple):
    """A decision as contenders are compared by it: (node, verdict, subject), and actions."""

    verdicts: frozenset[tuple[str, str, str]]
    actions: frozenset[Reached]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """`walk` is timed, `said` is not. `samples` are milliseconds, of all rounds."""

    name: str
    walk: Callable[[Turn], Awaitable[Any]]
    said: Callable[[Any], Said]
    samples: list[float] = field(default_factory=list)


async def measure(
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    *,
    alerts: int = ALERTS,
    rounds: int = ROUNDS,
    between: tuple[int, int] | None = None,
    progress: Progress = unseen,
    say: Say = silent,
) -> dict[str, Any]:
    """p50 and p99 in milliseconds of every contender over `rounds` walks of each alert, percentiles
    by nearest rank; ratios are of p50s. Without LangGraph its figures are None, and `say` is told.

    `between` is as in `historical_alerts`. Raises Different when two contenders do not decide the
    same, ValueError when there are no alerts, InvalidFiles for a procedure that cannot be served,
    and ToolFailed or SourceFailed where a source or tool does not answer.
    """
    loaded = procedure()
    _only_plain_tools(loaded)
    with_langgraph = find_spec("langgraph") is not None
    if not with_langgraph:
        say("LangGraph is not installed, so it is left out: pip install 'triage[bench]'")
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    chosen = historical_alerts(files.world, alerts, between=between)
    if not chosen:
        raise ValueError("no alarm was raised in that time: give a longer one, or more sites")
    turns = [Turn(one, one.alert(one.arrival.fired_at)) for one in chosen]
    steps = _Steps(progress, 2 * (rounds + 1) * len(turns))
    async with sources_in_process(files) as sources:
        say("answers from the sources")
        live = await _compete(loaded, sources, turns, rounds, with_langgraph, steps)
        remembered = await _recorded(loaded, sources, turns)
    say("answers from memory")
    memory = await _compete(loaded, remembered, turns, rounds, with_langgraph, steps)
    return {
        "alerts": len(turns),
        "rounds": rounds,
        "differences": 0,  # Different was raised otherwise
        **_figures("dock", live),
        **_figures("dock_memory", memory),
        "langgraph_version": version("langgraph") if with_langgraph else None,
    }


def _only_plain_tools(loaded: Loaded) -> None:
    """The peers are written for what the dock's library has."""
    for node in loaded.sop.nodes:
        tool = loaded.library.tools[node]
        if tool.dynamic or tool.reads_parents:
            raise ValueError(
                f"the tool of {node} asks in steps or reads its parents: teach"
                " bench/peer_floor.py and bench/peer_langgraph.py to"
            )


# --- taking turns -----------------------------------------------------------------------------


class _Steps:
    def __init__(self, progress: Progress, of: int) -> None:
        self._progress = progress
        self._done = 0
        self._of = of

    def one(self) -> None:
        self._done += 1
        self._progress(self._done, self._of)


async def _compete(
    loaded: Loaded,
    sources: Mapping[str, Source],
    turns: Sequence[Turn],
    rounds: int,
    with_langgraph: bool,
    steps: _Steps,
) -> list[Contender]:
    """A round that is not measured, then `rounds` that are."""
    product = _Product()
    contenders = [
        *_walkers(loaded, sources, with_langgraph),
        Contender(name="product", walk=product.walk, said=_decided),
    ]
    gc.collect()
    gc.freeze()  # as the daemon does with what it loads: a collection looks at walks alone
    try:
        for index in range(rounds + 1):
            # A store decides an alert once, so every round has its own.
            async with triage(loaded, sources) as product.running:
                for at, turn in enumerate(turns):
                    await _turn(contenders, turn, index + at, measured=index > 0)
                    steps.one()
    finally:
        gc.unfreeze()
    return contenders


async def _turn(contenders: Sequence[Contender], turn: Turn, by: int, *, measured: bool) -> None:
    """The order changes with `by`, but the product, which is the last of `contenders`, comes last:
    its worker acks after it has answered, and must not do so while another is timed. The ack falls
    into the first walk of the next turn, which nobody times; that one also finds caches cold."""
    *walkers, product = contenders
    first = by % len(walkers)
    await walkers[0].walk(turn)
    said: list[tuple[str, Said]] = []
    for contender in (*walkers[first:], *walkers[:first], product):
        began = time.perf_counter()
        walked = await contender.walk(turn)
        took_s = time.perf_counter() - began
        if measured:
            contender.samples.append(1000 * took_s)
        said.append((contender.name, contender.said(walked)))
        if said[-1][1] != said[0][1]:
            raise Different(_difference(turn, said[0], said[-1]))


def _difference(turn: Turn, *both: tuple[str, Said]) -> str:
    what = turn.historical
    lines = [f"{what.alarm} of {what.entity} at site {turn.alert.site}, t={what.at}:"]
    for (name, mine), (_, theirs) in (both, both[::-1]):
        only = sorted(mine.verdicts - theirs.verdicts) + sorted(mine.actions - theirs.actions)
        lines.append(f"only {name} says {', '.join(map(' '.join, only)) or 'nothing'}")
    return "\n".join(lines)


# --- the contenders ---------------------------------------------------------------------------


def _walkers(
    loaded: Loaded, sources: Mapping[str, Source], with_langgraph: bool
) -> Iterator[Contender]:
    floor = Floor(loaded, sources)
    yield Contender(name="floor", walk=lambda turn: floor.walk(turn.alert), said=_walked)
    yield Contender(name="engine", walk=_engine(loaded, sources), said=_decided)
    if with_langgraph:
        from bench.peers.langgraph import LangGraph  # a peer, in the extra `bench` only

        graph = LangGraph(loaded, sources)
        yield Contender(name="langgraph", walk=lambda turn: graph.walk(turn.alert), said=_walked)


def _engine(loaded: Loaded, sources: Mapping[str, Source]) -> Callable[[Turn], Awaitable[Decision]]:
    """As the daemon runs it, without store: guards, evidence and metrics on."""
    clock = SystemClock()
    metrics = Metrics.register(version=__version__, monotonic=clock.monotonic)
    metrics.nodes.for_nodes(loaded.sop.nodes)
    metrics.sources.for_sources(sources)
    guarded = {
        name: GuardedSource(source, LIMITS, metrics.sources.cell(name), clock.monotonic)
        for name, source in sources.items()
    }
    pinned = snapshot(loaded.sop, loaded.sites, loaded.library, guarded)
    engine = Engine(
        options=EngineOptions(deadline_s=DEADLINE_S, fallback_deadline_s=DEADLINE_S),
        clock=clock,
        marker=NoMark(),
        metrics=metrics.nodes,
    )
    lanes = Lanes(fast=1, slow=1)

    async def walk(turn: Turn) -> Decision:
        slot = lanes.take()
        try:
            return (await engine.decide(turn.alert, pinned, lane=slot)).decision
        finally:
            slot.release()

    return walk


class _Product:
    """From accept to durable commit: worker, engine and store. `running` is of one round."""

    running: Triage

    async def walk(self, turn: Turn) -> Decision:
        return (await self.running.one(turn.historical)).decision


def _walked(walked: Walked) -> Said:
    return Said(
        frozenset(
            (str(node), verdict.value.word, verdict.subject)
            for node, verdict in walked.verdicts.items()
        ),
        walked.actions,
    )


def _decided(decision: Decision) -> Said:
    return Said(
        frozenset(
            (str(one.node), one.word, one.verdict.subject if one.verdict else "")
            for one in decision.nodes
        ),
        frozenset((str(one.action), one.subject) for one in decision.actions),
    )


# --- answers from memory ----------------------------------------------------------------------


class Recording:
    """A source, and what it answered."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.answers: dict[Query, Answer] = {}

    @property
    def name(self) -> str:
        return self._source.name

    async def open(self) -> None:
        await self._source.open()

    async def close(self) -> None:
        await self._source.close()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        answer = self.answers[query] = await self._source.ask(query, timeout_s=timeout_s)
        return answer


async def _recorded(
    loaded: Loaded, sources: Mapping[str, Source], turns: Sequence[Turn]
) -> dict[str, MemorySource]:
    """What every walk asks, in memory."""
    recordings = {name: Recording(source) for name, source in sources.items()}
    floor = Floor(loaded, recordings)
    for turn in turns:
        await floor.walk(turn.alert)
    return {
        name: MemorySource(name, recording.answers, keep_asked=False)
        for name, recording in recordings.items()
    }


# --- figures ----------------------------------------------------------------------------------


def _figures(prefix: str, contenders: Sequence[Contender]) -> dict[str, float | None]:
    p50: dict[str, float] = {}
    figures: dict[str, float | None] = dict.fromkeys(
        f"{prefix}_{name}_{figure}_ms" for name in NAMES for figure in ("p50", "p99")
    )
    for one in contenders:
        p50[one.name] = median(one.samples)
        figures[f"{prefix}_{one.name}_p50_ms"] = round(p50[one.name], 3)
        figures[f"{prefix}_{one.name}_p99_ms"] = round(nearest_rank(one.samples, 0.99), 3)
    for one_name, other in RATIOS:
        there = one_name in p50
        figures[f"{prefix}_{one_name}_over_{other}"] = (
            round(p50[one_name] / p50[other], 3) if there else None
        )
    return figures
