"""`python -m bench replay`: the historical alerts decided, and how right and how fast that was."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any, Literal

from bench.annotator.judge import Judge
from bench.annotator.settings import load_settings
from bench.annotator.walk import Annotation, annotate
from bench.dock import CACHE, SITES, SOP, DockFiles, dock_files, embedded_sources, procedure
from bench.ranks import nearest_rank
from bench.replay.alerts import historical_alerts
from bench.replay.deciding import Decided, triage, warm_up
from bench.replay.score import Difference, LatentScore, LeadsTo, Rate, difference, latent_score
from bench.watching import Progress, Say
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.app.procedure import Loaded
from triage.model.alert import AlertId
from triage.model.decision import AnsweredBy, Decision, NodeId, run_sha256
from triage.traversal import reachable

ALERTS = 1500
WARM_UP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A run and what is right about it. `annotations` go with `decided`, one by one."""

    files: DockFiles
    decided: Sequence[Decided]
    annotations: Sequence[Annotation]
    differences: Sequence[Difference]
    latent: LatentScore
    seconds: float
    loaded: Loaded


async def replay(
    *,
    count: int = ALERTS,
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    between: tuple[int, int] | None = None,
    prefetch: Literal["layer", "subtree"] = "layer",
    at_once: int = 1,
    rate_per_s: float = 0.0,
    progress: Progress,
    say: Say,
) -> History:
    """With `rate_per_s` the alerts come as a Poisson process of that rate, else as fast as
    possible; `between` as in `historical_alerts`. Raises InvalidFiles for a procedure that cannot
    be served."""
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    say("choosing alerts")
    alerts = historical_alerts(files.world, count, between=between)
    say("deciding")
    async with embedded_sources(files) as sources:
        await warm_up(loaded, sources, alerts, WARM_UP, prefetch=prefetch, at_once=at_once)
        began = time.perf_counter()
        async with triage(loaded, sources, prefetch=prefetch, at_once=at_once) as running:
            if rate_per_s > 0:
                decided = await running.open_loop(
                    alerts, poisson(seed, len(alerts), rate_per_s), progress
                )
            else:
                decided = await running.as_fast_as_possible(alerts, progress)
            seconds = time.perf_counter() - began
    say("annotating")
    judge = Judge(files.world, load_settings(SOP, SITES))
    annotations = [
        annotate(judge, one.alert.site, one.alert.at, one.alert.alarm, one.alert.entity)
        for one in decided
    ]
    return History(
        files=files,
        decided=decided,
        annotations=annotations,
        differences=[
            found
            for one, right in zip(decided, annotations, strict=True)
            if (found := difference(one.alert, one.decision, right))
        ],
        latent=latent_score(
            (
                (one.alert, one.decision, right)
                for one, right in zip(decided, annotations, strict=True)
            ),
            files.world.minutes.episodes,
            _root_causes(loaded),
            _ways(loaded),
        ),
        seconds=seconds,
        loaded=loaded,
    )


def poisson(seed: int, count: int, rate_per_s: float) -> list[float]:
    """Seconds from the start at which `count` alerts are due."""
    chance = Random(seed)
    due, at = [], 0.0
    for _ in range(count):
        at += chance.expovariate(rate_per_s)
        due.append(at)
    return due


def _root_causes(loaded: Loaded) -> dict[str, frozenset[str]]:
    return {
        alarm: frozenset(node for node in reachable(loaded.sop, entry) if node.startswith("rc_"))
        for alarm, entry in loaded.sop.alarms.items()
    }


def _ways(loaded: Loaded) -> LeadsTo:
    @cache
    def leads_to(node: str, word: str) -> frozenset[str]:
        return frozenset(reachable(loaded.sop, loaded.sop.steps[NodeId(node)][word].nodes))

    return leads_to


# --- figures ----------------------------------------------------------------------------------


def figures(history: History) -> dict[str, Any]:
    """What `--json` writes. Latencies are milliseconds from the intended send to the durable
    commit, percentiles by nearest rank."""
    decided = history.decided
    count = len(decided)
    latencies = sorted(1000 * one.latency_s for one in decided)
    wrong = history.differences
    latent = history.latent
    return {
        "alerts": count,
        "errors": len(wrong),
        "error_rate": len(wrong) / count,
        "observation_errors": len([one for one in wrong if one.observed]),
        "root_cause_errors": len([one for one in wrong if one.root_causes]),
        "action_errors": len([one for one in wrong if one.actions]),
        "root_cause_precision": latent.precision.value,
        "root_cause_precision_interval": latent.precision.interval,
        "root_cause_recall": latent.recall.value,
        "root_cause_recall_interval": latent.recall.interval,
        "p50_ms": nearest_rank(latencies, 0.5),
        "p99_ms": nearest_rank(latencies, 0.99),
        "nodes_per_alert_mean": fmean(len(one.decision.nodes) for one in decided),
        "queries_per_alert_mean": fmean(_queries(one.decision) for one in decided),
        "round_trips_p50": median(one.decision.round_trips for one in decided),
        "llm_calls": len(
            [
                result
                for one in decided
                for result in one.decision.nodes
                if result.answered_by is AnsweredBy.FALLBACK
            ]
        ),
        "decisions_sha256": run_sha256(
            {AlertId(one.decision.alert_id): one.decision.decision_sha256 for one in decided}
        ),
        "seconds": history.seconds,
        "degraded": len([one for one in decided if one.decision.degraded]),
        "outcomes": dict(Counter(one.decision.outcome.value for one in decided)),
        "alarms": dict(Counter(one.alert.alarm for one in decided)),
        "kinds": dict(Counter(kind for one in decided for kind in one.alert.kinds)),
        "boundary": len([right for right in history.annotations if _is_boundary(right)]),
        "no_data": len(
            [
                one
                for one in decided
                if any(result.word == "no_data" for result in one.decision.nodes)
            ]
        ),
        "layers_max": max(
            (result.layer + 1 for one in decided for result in one.decision.nodes), default=0
        ),
        "misses": {f"{node}: {why}": n for (node, why), n in latent.misses.most_common()},
        "false_alarms": {
            f"{node}: {why}": n for (node, why), n in latent.false_alarms.most_common()
        },
        "by_root_cause": {
            node: {"precision": _shown(precision), "recall": _shown(recall)}
            for node, (precision, recall) in latent.by_fault.items()
        },
    }


BOUNDARY = 0.02
"""A figure within so much of its threshold, relative to it."""


def _is_boundary(right: Annotation) -> bool:
    return any(
        judged.margin is not None and abs(judged.margin) <= BOUNDARY
        for judged in right.verdicts.values()
    )


def _queries(decision: Decision) -> int:
    return len({id(asked) for result in decision.nodes for asked in result.asked})


def _shown(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.hits}/{rate.of} ({low:.2f}-{high:.2f})" if rate.of else "-"
