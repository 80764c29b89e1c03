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
from bench.fallback.modelled import ModelSpeed, modelled_s, turns_and_tokens
from bench.fallback.modes import Mode, staffed
from bench.fallback.staff import Staff
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
    mode: Mode = Mode.DIRECT
    model: str = ""
    """Who answered in a mode that asks a model."""


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
    mode: Mode = Mode.DIRECT,
    staff: Staff | None = None,
    progress: Progress,
    say: Say,
) -> History:
    """With `rate_per_s` the alerts come as a Poisson process of that rate, else as fast as
    possible; `between` as in `historical_alerts`. `staff` is for the modes that ask a model.
    Raises InvalidFiles for a procedure that cannot be served, ValueError for such a mode without
    staff."""
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    say("choosing alerts")
    alerts = historical_alerts(files.world, count, between=between)
    say("deciding")
    async with embedded_sources(files) as sources:
        await warm_up(loaded, sources, alerts, WARM_UP, prefetch=prefetch, at_once=at_once)
        served, answering = staffed(mode, loaded, staff)
        began = time.perf_counter()
        async with triage(
            served, sources, prefetch=prefetch, at_once=at_once, staff=answering
        ) as running:
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
        mode=mode,
        model="" if answering is None else answering.model,
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


def figures(history: History, speed: ModelSpeed | None = None) -> dict[str, Any]:
    """What `--json` writes. Latencies are milliseconds from the intended send to the durable
    commit, percentiles by nearest rank; those called `modelled_` were not measured but worked out
    for a model of `speed` from the turns and tokens that were."""
    decided = history.decided
    count = len(decided)
    latencies = sorted(1000 * one.latency_s for one in decided)
    wrong = history.differences
    latent = history.latent
    speed = speed or ModelSpeed()
    turns, tokens = turns_and_tokens(one.decision for one in decided)
    return {
        "alerts": count,
        "mode": history.mode.value,
        "model": history.model,
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
        **_modelled(decided, speed),
        "llm_turns": turns,
        "llm_turns_per_alert_mean": turns / count,
        "tokens": tokens,
        "tokens_per_alert_mean": tokens / count,
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


def _modelled(decided: Sequence[Decided], speed: ModelSpeed) -> dict[str, Any]:
    found: dict[str, Any] = {
        "modelled_turn_s": speed.turn_s,
        "modelled_prompt_tokens_per_s": speed.prompt_tokens_per_s,
        "modelled_generated_tokens_per_s": speed.generated_tokens_per_s,
    }
    for name, one_slot in (("modelled", False), ("modelled_one_slot", True)):
        latencies = [
            1000 * modelled_s(one.decision, one.latency_s, speed, one_slot=one_slot)
            for one in decided
        ]
        found[f"{name}_p50_ms"] = nearest_rank(latencies, 0.5)
        found[f"{name}_p99_ms"] = nearest_rank(latencies, 0.99)
    return found


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
