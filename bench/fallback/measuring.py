"""`python -m bench fallback`: the historical alerts with tools out of order, through real agents.

Each alert is decided twice by the real engine: with all its tools, and with those disabled that the
reference system's mix disables for it. The second time the agent writes code for every node without
a tool, from what the scripted endpoint answers over HTTP; the code runs in the sandbox and asks the
sources over MCP. Both decisions have to be the same, to the clauses of every verdict, and are held
to the annotator's as well.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.annotator.judge import Judge
from bench.annotator.settings import load_settings
from bench.annotator.walk import annotate
from bench.dock import CACHE, SITES, SOP, DockFiles, dock_files, embedded_sources, procedure
from bench.fallback.agency import Agency, section
from bench.fallback.comparing import differences
from bench.fallback.disabled import disabled_nodes, without
from bench.fallback.endpoint_process import ScriptedEndpoint
from bench.fallback.walking import Tally, Walked, Walker
from bench.ranks import nearest_rank
from bench.replay.alerts import HistoricalAlert, historical_alerts
from bench.replay.deciding import DEADLINE_S
from bench.replay.deciding import LIMITS as SOURCE_LIMITS
from bench.replay.score import difference
from bench.watching import Progress, Say, silent, unseen
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage import __version__
from triage.app.fallback_section import FallbackSection
from triage.app.procedure import Loaded
from triage.evaluation.guard import GuardedSource
from triage.ports import Source
from triage.telemetry.metrics import Metrics

ALERTS = 1500
WARM_UP = 20
LISTED = 50
"""Of the differences, so many are written out."""


@dataclass(slots=True, kw_only=True)
class Run:
    """`differing` are alerts with what differs from the decision with tools, `wrong` counts those
    decided otherwise than the annotator. `seconds` are of the decisions without tools."""

    tally: Tally = field(default_factory=Tally)
    seconds: list[float] = field(default_factory=list)
    seconds_with_tools: list[float] = field(default_factory=list)
    differing: list[dict[str, Any]] = field(default_factory=list)
    wrong: int = 0
    untouched: int = 0
    """Alerts that came to no node whose tool was disabled."""
    all_disabled: int = 0
    gaps: int = 0


async def measure(
    *,
    count: int = ALERTS,
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    between: tuple[int, int] | None = None,
    budgets: Mapping[str, Any] | None = None,
    progress: Progress = unseen,
    say: Say = silent,
) -> dict[str, Any]:
    """`between` is as in `historical_alerts`, `budgets` are as in `agency.section`.

    Raises InvalidFiles for a procedure that cannot be served, ValueError when there are no alerts,
    FallbackOff when the agents cannot work, RuntimeError when the endpoint does not start.
    """
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    alerts = historical_alerts(files.world, count, between=between)
    if not alerts:
        raise ValueError("no alarm was raised in that time: give a longer one, or more sites")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="triage-bench-") as name:
        with ScriptedEndpoint(Path(name)) as endpoint:
            agency = Agency(section=section(endpoint.llm_url, endpoint.model, **budgets or {}))
            say("deciding")
            async with walker(loaded, files, agency) as walk:
                run = await _decided(loaded, files, alerts, walk, seed, progress)
            counted = endpoint.counts()
    return figures(run, len(alerts)) | {
        "seconds": round(time.perf_counter() - began, 1),
        "endpoint": counted,
        "budgets": shown_budgets(agency.section),
        "seed": seed,
    }


@asynccontextmanager
async def walker(loaded: Loaded, files: DockFiles, agency: Agency) -> AsyncIterator[Walker]:
    """Over sources of its own, with agents that `agency` puts to work."""
    metrics = Metrics.register(version=__version__, monotonic=time.monotonic)
    metrics.nodes.for_nodes(loaded.sop.nodes)
    async with AsyncExitStack() as stack:
        sources = await stack.enter_async_context(embedded_sources(files))
        guarded = _guarded(sources, metrics)
        fallback = await stack.enter_async_context(agency.at_work(guarded, metrics))
        yield Walker(
            loaded,
            guarded,
            metrics,
            fallback=fallback,
            deadline_s=DEADLINE_S,
            fallback_deadline_s=agency.attempt_s,
        )


def _guarded(sources: Mapping[str, Source], metrics: Metrics) -> dict[str, GuardedSource]:
    return {
        name: GuardedSource(source, SOURCE_LIMITS, metrics.sources.cell(name), time.monotonic)
        for name, source in sources.items()
    }


async def _decided(
    loaded: Loaded,
    files: DockFiles,
    alerts: Sequence[HistoricalAlert],
    walk: Walker,
    seed: int,
    progress: Progress,
) -> Run:
    judge = Judge(files.world, load_settings(SOP, SITES))
    for one in alerts[:: max(1, len(alerts) // WARM_UP)][:WARM_UP]:
        # The world builds what it keeps of a site when it is first asked.
        await walk.decide(one.alert(one.arrival.fired_at))
    run = Run()
    for done, one in enumerate(alerts, 1):
        alert = one.alert(one.arrival.fired_at)
        disabled = disabled_nodes(loaded.sop.nodes, seed, alert.alert_id)
        with_tools = await walk.decide(alert)
        walked = await walk.decide(alert, without(loaded.library, disabled))
        run.all_disabled += len(disabled) == len(loaded.sop.nodes)
        right = annotate(judge, one.site, one.at, one.alarm, one.entity)
        run.wrong += bool(difference(one, walked.decision, right))
        _take(run, one, with_tools, walked)
        progress(done, len(alerts))
    return run


def _take(run: Run, alert: HistoricalAlert, with_tools: Walked, walked: Walked) -> None:
    run.tally.take(walked.decision)
    run.seconds.append(walked.seconds)
    run.seconds_with_tools.append(with_tools.seconds)
    run.gaps += len(walked.decided.gaps)
    run.untouched += all(result.tool_failure is None for result in walked.decision.nodes)
    if found := differences(with_tools.decision, walked.decision):
        run.differing.append(
            {
                "alert": f"{alert.alarm} of {alert.entity} at site {alert.site}, t={alert.at}",
                "what": found,
            }
        )


def figures(run: Run, alerts: int) -> dict[str, Any]:
    """What `--json` writes. Latencies are milliseconds of a decision without its store, percentiles
    by nearest rank. `error_rate` is of alerts decided otherwise than the annotator."""
    return {
        "alerts": alerts,
        "error_rate": run.wrong / alerts,
        "differing_alerts": len(run.differing),
        "differing": run.differing[:LISTED],
        **run.tally.figures(),
        "p50_ms": _ms(nearest_rank(run.seconds, 0.5)),
        "p99_ms": _ms(nearest_rank(run.seconds, 0.99)),
        "p50_ms_with_tools": _ms(nearest_rank(run.seconds_with_tools, 0.5)),
        "p99_ms_with_tools": _ms(nearest_rank(run.seconds_with_tools, 0.99)),
        "gaps": run.gaps,
        "alerts_with_all_disabled": run.all_disabled,
        "alerts_without_fallback": run.untouched,
    }


def shown_budgets(section: FallbackSection) -> dict[str, Any]:
    """Of one node."""
    return section.model_dump(
        include={
            "max_turns",
            "max_tokens",
            "max_reply_tokens",
            "context_tokens",
            "timeout_s",
            "max_calls",
            "max_code_bytes",
        }
    )


def is_right(found: Mapping[str, Any]) -> bool:
    """Whether the agents answered every node as its tool does."""
    return not found["differing_alerts"] and not found["error_rate"]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
