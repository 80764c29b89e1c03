"""`python -m bench shadow`: does a shadow run report exactly the alerts that its tools differ on?

The historical alerts go through the real worker and store; beside the active tools run four with a
changed threshold, in the sandbox. What they must say is worked out apart: the same changed tools,
in this interpreter, on the answers that each decision keeps, read back from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cases.tool_sources import ToolSource, compiled
from bench.dock import ANSWER_BYTES, CACHE, LIBRARY, dock_files, embedded_sources, procedure
from bench.replay.alerts import historical_alerts
from bench.replay.deciding import Decided, triage, warm_up
from bench.shadow.changed import CHANGES, shadows_of
from bench.watching import Progress, Say
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.adapters.store import Store
from triage.app.procedure import Loaded
from triage.app.watchers import shadow_trials
from triage.clock import SystemClock
from triage.evaluation.context import ToolContext
from triage.evaluation.judge import NoMark, collect_queries, judge
from triage.library.catalogue import Library, Tool
from triage.library.shadow import ShadowTool
from triage.model.decision import AnsweredBy, NodeId, NodeResult
from triage.model.query import Query, decode_answer
from triage.model.verdict import Verdict
from triage.ports import Compared, Tally
from triage.telemetry.metrics import Metrics
from triage.watching.shadow import Shadows
from triage.worker.worker import Watcher

ALERTS = 1500
WARM_UP = 10
LET_IN = 20  # alerts between two waits for the shadows: none is to be dropped here
PAGE = 500

Verdicts = Mapping[str, tuple[str, str]]
"""Alert id to the word and the subject."""


class ShadowRunFailed(Exception):
    """What was found cannot be held against what must be found; the message says why."""


@dataclass(slots=True)
class _Expected:
    """Of one node: who was asked, and on which of them the changed tool says something else."""

    asked: set[str] = field(default_factory=set)
    differs: dict[str, tuple[str, str]] = field(default_factory=dict)


async def measure_subset(
    *,
    count: int = ALERTS,
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    between: tuple[int, int] | None = None,
    progress: Progress,
    say: Say,
) -> dict[str, Any]:
    """Raises ShadowRunFailed, and InvalidFiles for a procedure that cannot be served."""
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    alerts = historical_alerts(files.world, count, between=between)
    with TemporaryDirectory(prefix="triage-shadow-") as name:
        run = Path(name)
        tools = shadows_of(LIBRARY, run, loaded.sop)
        say("deciding, with shadows")
        beside = _Beside(tools)
        async with embedded_sources(files) as sources:
            await warm_up(loaded, sources, alerts, WARM_UP)
            async with triage(loaded, sources, folder=run, watching=beside.watching) as running:
                decided = []
                for done, alert in enumerate(alerts, 1):
                    decided.append(await running.one(alert))
                    if done % LET_IN == 0:
                        await beside.settled()
                    progress(done, len(alerts))
        say("comparing")
        store = await Store.open(run / "replay.db", clock=SystemClock(), exclusive=False)
        try:
            expected = await _expected(store, decided, loaded, tools)
            found = {node: await _found(store, node) for node in tools}
        finally:
            await store.close()
    return _figures(len(alerts), expected, found)


class _Beside:
    """The shadows of a run, with the sandbox that the daemon gives them."""

    def __init__(self, tools: Mapping[NodeId, ShadowTool]) -> None:
        self._tools = tools
        self._shadows: Shadows | None = None

    @asynccontextmanager
    async def watching(self, store: Store, metrics: Metrics) -> AsyncIterator[Sequence[Watcher]]:
        """At the end all that was offered is compared and written."""
        clock = SystemClock()
        shadows = self._shadows = Shadows(
            tools=lambda: self._tools,
            trials=lambda: shadow_trials(clock, answer_bytes=ANSWER_BYTES),
            log=store.shadows,
            clock=clock,
            metrics=metrics.shadows,
            linger_s=0.0,
        )
        running = asyncio.create_task(shadows.run())
        try:
            yield (shadows,)
            await self.settled()
        finally:
            shadows.stop()
            await running

    async def settled(self) -> None:
        assert self._shadows is not None
        await self._shadows.settled()


# --- what must be found -----------------------------------------------------------------------


async def _expected(
    store: Store,
    decided: Sequence[Decided],
    loaded: Loaded,
    tools: Mapping[NodeId, ShadowTool],
) -> dict[NodeId, _Expected]:
    library = compiled({node: ToolSource(text=one.text) for node, one in tools.items()}, loaded.sop)
    expected: dict[NodeId, _Expected] = {node: _Expected() for node in tools}
    for one in decided:
        for result in one.decision.nodes:
            if result.node not in tools or result.answered_by is not AnsweredBy.TOOL:
                continue
            assert result.verdict is not None
            its = expected[result.node]
            its.asked.add(one.decision.alert_id)
            verdict = await _judged(store, one, result, loaded, library)
            said = (verdict.value.word, verdict.subject)
            if said != (result.verdict.value.word, result.verdict.subject):
                its.differs[one.decision.alert_id] = said
    return expected


async def _judged(
    store: Store, one: Decided, result: NodeResult, loaded: Loaded, library: Library
) -> Verdict:
    tool = library.get(result.node)
    if not isinstance(tool, Tool):
        raise ShadowRunFailed(f"the changed tool of {result.node} is not loaded: {tool}")
    profile = loaded.sites.profile(one.alert.arrival.site)
    stored = await store.alerts.stored(one.decision.alert_id)
    assert stored is not None
    context = ToolContext(stored.alert, profile)
    at = one.decision.fired_at
    asked = {each.query: each.answer_sha256 for each in result.asked}
    answers: dict[Query, Any] = {}
    for query in collect_queries(
        tool, loaded.sop.nodes[result.node].sources, profile.site.name, at, context, NoMark()
    ):
        body = await store.decisions.evidence(asked.get(query, ""))
        if body is None:
            raise ShadowRunFailed(f"{result.node} asks what {one.decision.alert_id} has not kept")
        answers[query] = decode_answer(body)
    context.open_for_judging({}, answers)
    return judge(tool, profile.site.name, at, context, NoMark())


# --- what was found ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    tally: Tally | None
    differs: Verdicts
    others: Sequence[str]
    """Of comparisons that neither agree nor differ: on which alert, and why not."""


async def _found(store: Store, node: NodeId) -> _Found:
    """Raises ShadowRunFailed for more pairs than one."""
    tallies = await store.shadows.tallies(node)
    if len(tallies) > 1:
        raise ShadowRunFailed(f"{node}: {len(tallies)} pairs were compared")
    if not tallies:
        return _Found(None, {}, ())
    differs: dict[str, tuple[str, str]] = {}
    others: list[str] = []
    cursor = ""
    while True:
        page = await store.shadows.comparison_page(
            tallies[0].pair, result=None, cursor=cursor, limit=PAGE
        )
        for one in page.comparisons:
            if one.result is Compared.DIFFERS:
                differs[one.alert_id] = (one.shadow["value"], one.shadow["subject"])
            else:
                shadow = one.shadow
                others.append(f"{one.alert_id} {shadow['failure']}: {shadow['detail']}")
        cursor = page.cursor
        if not cursor:
            return _Found(tallies[0], differs, others)


def _figures(
    alerts: int, expected: Mapping[NodeId, _Expected], found: Mapping[NodeId, _Found]
) -> dict[str, Any]:
    nodes: dict[str, dict[str, Any]] = {}
    for node, its in expected.items():
        told = found[node]
        counts = told.tally.counts if told.tally is not None else dict.fromkeys(Compared, 0)
        reported, right = set(told.differs), set(its.differs)
        nodes[node] = {
            "evaluated": len(its.asked),
            "compared": counts[Compared.AGREES] + counts[Compared.DIFFERS],
            "differ": len(right),
            "reported": counts[Compared.DIFFERS],
            "missing": len(right - reported),
            "extra": len(reported - right),
            "other_verdict": sum(told.differs[one] != its.differs[one] for one in reported & right),
            "unrecorded": counts[Compared.UNRECORDED],
            "failed": counts[Compared.FAILED],
            "dropped": counts[Compared.DROPPED],
        }
    names = next(iter(nodes.values())).keys()
    return {
        "alerts": alerts,
        "shadows": len(CHANGES),
        **{name: sum(one[name] for one in nodes.values()) for name in names},
        "not_compared": [text for told in found.values() for text in told.others],
        "nodes": nodes,
    }


def is_exact(figures: Mapping[str, Any]) -> bool:
    """Whether every evaluated node was compared, and just those are told that differ."""
    off = ("missing", "extra", "other_verdict", "unrecorded", "failed", "dropped")
    return (
        not any(figures[name] for name in off)
        and figures["compared"] == figures["evaluated"] > 0
        and all(one["differ"] > 0 for one in figures["nodes"].values())
    )
