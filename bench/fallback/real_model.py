"""`python -m bench fallback --llm-url URL`: what a real model makes of a sample of nodes.

Alerts are walked with all tools until as many distinct nodes as asked for were come by. Then each
alert is decided once more with the tool of that one node disabled: the agent has the parents, the
sources and the alert that it would have had. Its verdict is held to the tool's. A wrong one is
counted and fails nothing; whether a budget was broken is counted too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bench.dock import CACHE, dock_files, procedure
from bench.fallback.agency import Agency
from bench.fallback.disabled import without
from bench.fallback.measuring import shown_budgets, walker
from bench.fallback.walking import Tally, Walker
from bench.ranks import nearest_rank
from bench.replay.alerts import HistoricalAlert, historical_alerts
from bench.watching import Progress, Say, silent, unseen
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.app.fallback_section import FallbackSection
from triage.app.procedure import Loaded
from triage.model.decision import NodeId, NodeResult
from triage.model.trace import Trace

SAMPLE = 44
SEARCHED = 1500
"""Alerts among which the sample is looked for."""
GRACE_S = 2.0
"""What an attempt may take beyond its time before that counts as broken: the machine is busy with
the model."""


class Sampled(NamedTuple):
    """A node as an alert came to it, with its tool."""

    alert: HistoricalAlert
    right: NodeResult


@dataclass(slots=True, kw_only=True)
class Trial:
    """What the model made of the sample. `nodes` is one line a node."""

    tally: Tally = field(default_factory=Tally)
    ended: Counter[str] = field(default_factory=Counter)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


async def try_model(
    agency: Agency,
    *,
    sample: int = SAMPLE,
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    between: tuple[int, int] | None = None,
    progress: Progress = unseen,
    say: Say = silent,
) -> dict[str, Any]:
    """With fewer distinct nodes than `sample`, nodes come again with another alert. Raises as
    `measuring.measure` does."""
    loaded = procedure()
    say("the world and its files")
    files = dock_files(seed, extent, folder)
    alerts = historical_alerts(files.world, SEARCHED, between=between)
    began = time.perf_counter()
    trial = Trial()
    async with walker(loaded, files, agency) as walk:
        say("looking for nodes")
        chosen = await _sample(walk, alerts, sample, len(loaded.sop.nodes))
        say(f"{len(chosen)} nodes of {agency.model}")
        for done, one in enumerate(chosen, 1):
            await _try_one(trial, walk, loaded, one, agency.section)
            progress(done, len(chosen))
    return _figures(trial, agency, time.perf_counter() - began)


async def _sample(
    walk: Walker, alerts: Sequence[HistoricalAlert], wanted: int, nodes: int
) -> list[Sampled]:
    """Nodes that were not sampled yet come first; alerts in the order of a fixed shuffle, so that
    neighbours in time do not follow each other."""
    new: dict[NodeId, Sampled] = {}
    again: list[Sampled] = []
    for alert in sorted(alerts, key=lambda one: one.alert_id):
        if len(new) >= min(wanted, nodes):
            break
        walked = await walk.decide(alert.alert(alert.arrival.fired_at))
        for result in walked.decision.nodes:
            if result.verdict is None:
                continue
            if result.node not in new:
                new[result.node] = Sampled(alert, result)
            else:
                again.append(Sampled(alert, result))
    return [*new.values(), *again][:wanted]


async def _try_one(
    trial: Trial, walk: Walker, loaded: Loaded, one: Sampled, section: FallbackSection
) -> None:
    node = one.right.node
    alert = one.alert.alert(one.alert.arrival.fired_at)
    began = time.perf_counter()
    walked = await walk.decide(alert, without(loaded.library, {node}))
    seconds = time.perf_counter() - began
    trial.tally.take(walked.decision)
    answered = next(result for result in walked.decision.nodes if result.node == node)
    ended = _ended(answered, one.right)
    trial.ended[ended] += 1
    trace = answered.trace
    trial.nodes.append(
        {
            "node": str(node),
            "alert": f"{one.alert.alarm} of {one.alert.entity}, t={one.alert.at}",
            "ended": ended,
            "right": one.right.word,
            "said": answered.word,
            "detail": answered.failure.detail if answered.failure else "",
            "turns": len(trace.turns) if trace else 0,
            "tokens": trace.tokens if trace else 0,
            "seconds": round(trace.elapsed_ms / 1000 if trace else seconds, 2),
        }
    )
    if trace is not None:
        trial.broken.extend(f"{node}: {what}" for what in broken_budgets(trace, section))


def _ended(answered: NodeResult, right: NodeResult) -> str:
    if answered.verdict is None:
        assert answered.failure is not None
        return answered.failure.reason
    assert right.verdict is not None
    if answered.word != right.word:
        return "wrong_verdict"
    # An empty subject and the alert's own entity are the same, however the entity is spelled.
    same = answered.verdict.subject == right.verdict.subject or not answered.verdict.subject
    return "right" if same else "wrong_subject"


def broken_budgets(trace: Trace, section: FallbackSection) -> list[str]:
    """What an attempt used up beyond its budgets."""
    used = (
        ("turns", len(trace.turns), section.max_turns),
        ("tokens", trace.tokens, section.max_tokens),
        ("seconds", trace.elapsed_ms / 1000, section.timeout_s + GRACE_S),
        ("calls", sum(len(turn.calls) for turn in trace.turns), section.max_calls),
        (
            "bytes of code",
            max((len(turn.code.encode()) for turn in trace.turns), default=0),
            section.max_code_bytes,
        ),
    )
    return [
        f"{amount:g} {what}, the limit is {limit:g}"
        for what, amount, limit in used
        if amount > limit
    ]


def _figures(trial: Trial, agency: Agency, seconds: float) -> dict[str, Any]:
    by_ending: dict[str, list[float]] = {}
    for one in trial.nodes:
        by_ending.setdefault(one["ended"], []).append(one["seconds"])
    return {
        "model": agency.model,
        "sampled": len(trial.nodes),
        "distinct_nodes": len({one["node"] for one in trial.nodes}),
        "right": trial.ended["right"],
        "wrong": trial.ended["wrong_verdict"] + trial.ended["wrong_subject"],
        "gave_up": sum(
            count for ended, count in trial.ended.items() if ended.startswith("fallback_")
        ),
        "ended": dict(trial.ended.most_common()),
        **trial.tally.figures(),
        "seconds_per_node_mean": round(fmean(one["seconds"] for one in trial.nodes), 2),
        "seconds_per_node_p99": nearest_rank([one["seconds"] for one in trial.nodes], 0.99),
        "seconds_by_ending": {
            ended: round(fmean(some), 2) for ended, some in sorted(by_ending.items())
        },
        "budgets_broken": trial.broken,
        "budgets": shown_budgets(agency.section),
        "seconds": round(seconds, 1),
        "nodes": trial.nodes,
    }
