"""`python -m bench make --llm-url URL`: what a real model makes of a sample of nodes, as it is.

The same pipeline with traces and repairs, on fewer training cases where they are to be fewer.
Held-out cases are all of them. What passes every gate could be registered, and is counted; nothing
is. A node takes minutes, so what there is so far is handed over after each.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any

from bench.cases.store import CaseStore
from bench.cases.tool_sources import registered
from bench.dock import LIBRARY, SOP, dock_files, embedded_sources
from bench.make.casework import labelled, spread
from bench.make.measuring import Plan
from bench.make.nodes import FULL, NodeCases, NodeMaker
from bench.make.workshop import Model, workshop
from bench.watching import Progress, Say, silent, unseen
from triage.model.decision import NodeId
from triage.sop.load import load_sop

SAMPLE = 10

Keep = Callable[[dict[str, Any]], None]
"""Is given the figures of the nodes so far."""


def sampled(nodes: Collection[str], most: int) -> list[str]:
    """By turns of each kind (observation, root cause, constraint), drawn by their names."""
    drawn = sorted(nodes, key=lambda node: sha256(node.encode()).digest())
    kinds: dict[str, list[str]] = {}
    for node in drawn:
        kinds.setdefault(node.partition("_")[0], []).append(node)
    chosen: list[str] = []
    while len(chosen) < min(most, len(nodes)):
        for own in kinds.values():
            if own and len(chosen) < most:
                chosen.append(own.pop(0))
    return chosen


def try_model(
    plan: Plan,
    model: Model,
    *,
    keep: Keep,
    sample: int = SAMPLE,
    nodes: Collection[str] | None = None,
    progress: Progress = unseen,
    say: Say = silent,
) -> dict[str, Any]:
    """`nodes` in place of a sample. Raises as `measuring.measure`."""
    sop = load_sop(SOP)
    wanted = sampled(sop.nodes, sample) if nodes is None else sorted(nodes)
    return asyncio.run(_tried(plan, model, wanted, keep, progress, say))


async def _tried(
    plan: Plan, model: Model, wanted: list[str], keep: Keep, progress: Progress, say: Say
) -> dict[str, Any]:
    began = time.perf_counter()
    files = dock_files(plan.seed, plan.extent, plan.folder)
    store = CaseStore(files.world, plan.extent, plan.folder)
    names = tuple(facts.name for facts in files.world.sites)
    tools = registered(LIBRARY, load_sop(SOP).nodes)
    found: dict[str, dict[str, Any]] = {}
    refused: Counter[str] = Counter()
    figures: dict[str, Any] = {}
    async with (
        embedded_sources(files) as sources,
        workshop(sources, {FULL: model}, collecting=[FULL]) as shop,
    ):
        for node in map(NodeId, wanted):
            say(f"{node} by {model.name}")
            own = store.of(node)
            cases = NodeCases(
                node=node,
                train=spread(labelled(own, names, "train"), plan.train_cases),
                heldout=spread(labelled(own, names, "heldout"), plan.heldout_cases),
                active=tools.get(node),
            )
            run = await NodeMaker(shop, cases, plan.options).full(model, FULL)
            refused.update(gate.name for gate in run.made.gates if not gate.passed)
            found[node] = run.document() | {
                "could_be_registered": bool(run.made.gates) and run.made.passed,
                "replies": Counter(one.step for one in run.made.transcript),
                "verdicts_of_agents": [trace.verdict for trace in run.made.traces],
            }
            figures = _figures(plan, model, found, refused, time.perf_counter() - began)
            keep(figures)
            progress(len(found), len(wanted))
    return figures


def _figures(
    plan: Plan,
    model: Model,
    found: Mapping[str, dict[str, Any]],
    refused: Counter[str],
    seconds: float,
) -> dict[str, Any]:
    rows = list(found.values())
    return {
        "model": model.name,
        "sampled": len(rows),
        "pass_at_1": _mean(rows, "pass_at_1"),
        "train_pass_rate": _mean(rows, "train_pass_rate"),
        "heldout_pass_rate": _mean(rows, "heldout_pass_rate"),
        "rounds_mean": _mean(rows, "rounds"),
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(seconds, 1),
        "gates_refused_by": dict(refused.most_common()),
        "could_be_registered": sorted(
            node for node, row in found.items() if row["could_be_registered"]
        ),
        "registered": [],
        "train_cases_a_node": plan.train_cases or "all",
        "heldout_cases_a_node": plan.heldout_cases or "all",
        "gate_cases_a_part": plan.options.gate_cases or "all",
        "context_tokens": model.context_tokens,
        "reply_tokens": model.reply_tokens,
        "request_timeout_s": model.timeout_s,
        "agent_timeout_s": model.agent_s,
        "by_node": dict(found),
    }


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows) / len(rows) if rows else 0.0
