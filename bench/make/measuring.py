"""`python -m bench make`: the maker over the dock's nodes, whole and with parts taken away.

The endpoint behind it (`author`, over HTTP) takes all that it knows of the data from its prompts.
So what is lost without traces is what traces are worth, and what is lost without repairs is what
failing cases are worth; that they are read, and not only the code rolled anew, is shown by an
endpoint that ignores them (`repair_uses_mismatches`).

Held-out cases are always all of them. Training cases may be a part (`train_cases`), and so those
that the gates are put to (`gate_cases`); the figures say how many. The agent's traces are collected
once a node and shown in every run that shows traces; a candidate that was tried on the same cases
is not tried again. Their seconds and tokens are counted in each run that would have needed them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.annotator.cases import CHEAP, Case
from bench.cases.judging import Store
from bench.cases.runner import CaseRunner
from bench.cases.store import CaseStore
from bench.cases.tool_sources import registered
from bench.dock import CACHE, LIBRARY, SITES, SOP, DockFiles, dock_files, embedded_sources
from bench.make.casework import chosen_bugs, labelled, spread
from bench.make.endpoint_process import AuthorEndpoint
from bench.make.nodes import (
    ABLATIONS,
    FULL,
    IGNORING,
    NO_REPAIR,
    NO_TRACES,
    SOP_ONLY,
    MakeOptions,
    NodeCases,
    NodeMaker,
    NodeRun,
)
from bench.make.workshop import Model, workshop
from bench.watching import Progress, unseen
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.model.decision import NodeId
from triage.ports import Source
from triage.sop.load import load_sop
from triage.sop.sites import load_sites

TARGET = 0.999
"""Of held-out cases, for every node of the full run."""
VISIBLE = 0.02
"""By so much an ablation's held-out rate must be below that of the full run."""
TRAIN_CASES = 90
"""Of some 180 a node: half of the time of a round, and more than enough that eight can be shown."""
BATCH = 3  # nodes that a process makes before it takes others
CONTEXT_TOKENS = 64_000
REPLY_TOKENS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`train_cases` of each node, all for 0. `seed` is of the world and of the bugs."""

    seed: int = OPEN_SEED
    extent: Extent = WHOLE
    folder: Path = CACHE
    train_cases: int = TRAIN_CASES
    heldout_cases: int = 0
    """For tests: a bench that measures leaves it 0, which is all of them."""
    options: MakeOptions = MakeOptions()  # noqa: RUF009 - frozen


def measure(
    plan: Plan,
    *,
    nodes: Collection[str] | None = None,
    processes: int = 1,
    progress: Progress = unseen,
) -> dict[str, Any]:
    """`nodes` are all of the SOP when None; at most two `processes` are of use on two cores. Raises
    InvalidFiles for a procedure that is not sound, RuntimeError when endpoint or sandbox do not
    start, ValueError for a node that there is not."""
    began = time.perf_counter()
    sop = load_sop(SOP)
    if unknown := set(nodes or ()) - set(sop.nodes):
        raise ValueError(f"the SOP has no node {', '.join(sorted(unknown))}")
    wanted = [node for node in _dearest_first(sop.nodes) if nodes is None or node in nodes]
    dock_files(plan.seed, plan.extent, plan.folder)  # not built by each process
    found: dict[str, dict[str, Any]] = {}
    progress(0, len(wanted))
    for made in _made(plan, wanted, processes):
        found |= made
        progress(len(found), len(wanted))
    return figures_of(plan, found, sop_nodes=len(sop.nodes)) | {
        "seconds": round(time.perf_counter() - began, 1)
    }


def _dearest_first(nodes: Collection[str]) -> list[str]:
    return sorted(nodes, key=lambda node: (node in CHEAP, node))


def _made(plan: Plan, wanted: Sequence[str], processes: int) -> Iterator[dict[str, dict[str, Any]]]:
    """By node, as batches end."""
    batches = [wanted[begin : begin + BATCH] for begin in range(0, len(wanted), BATCH)]
    if processes == 1:
        for batch in batches:
            yield make_batch(plan, batch)
        return
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawning) as pool:
        asked = [pool.submit(partial(make_batch, plan, batch)) for batch in batches]
        try:
            for future in as_completed(asked):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def make_batch(plan: Plan, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Some nodes, one after the other, with endpoints of their own."""
    return asyncio.run(_batch(plan, nodes))


async def _batch(plan: Plan, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    files = dock_files(plan.seed, plan.extent, plan.folder)
    found: dict[str, dict[str, Any]] = {}
    async with embedded_sources(files) as sources:
        prepared, bugs = await _prepared(plan, files, sources, nodes)
        with (
            tempfile.TemporaryDirectory(prefix="triage-bench-") as name,
            AuthorEndpoint(Path(name) / FULL, bugs) as author,
            AuthorEndpoint(Path(name) / IGNORING, bugs, ignores_mismatches=True) as ignoring,
        ):
            models = {FULL: model_of(author), IGNORING: model_of(ignoring)}
            async with workshop(sources, models, collecting=[FULL]) as shop:
                for cases in prepared:
                    made = await make_node(NodeMaker(shop, cases, plan.options), models)
                    found[cases.node] = {
                        "bugs": bugs[cases.node],
                        "train_cases": len(cases.train),
                        "heldout_cases": len(cases.heldout),
                        "runs": {run: one.document() for run, one in made.items()},
                    }
    return found


def model_of(endpoint: AuthorEndpoint) -> Model:
    return Model(endpoint.llm_url, endpoint.model, CONTEXT_TOKENS, REPLY_TOKENS)


async def _prepared(
    plan: Plan, files: DockFiles, sources: Mapping[str, Source], nodes: Sequence[str]
) -> tuple[list[NodeCases], dict[str, list[str]]]:
    """Cases, and what first drafts get wrong, by the training cases alone."""
    store: Store = CaseStore(files.world, plan.extent, plan.folder)
    sop = load_sop(SOP)
    names = tuple(facts.name for facts in files.world.sites)
    tools = registered(LIBRARY, sop.nodes)
    runner = CaseRunner(sop, load_sites(SITES, sop), names, sources)
    prepared: list[NodeCases] = []
    bugs: dict[str, list[str]] = {}
    for node in map(NodeId, nodes):
        own = store.of(node)
        train = spread(labelled(own, names, "train"), plan.train_cases)
        heldout = spread(labelled(own, names, "heldout"), plan.heldout_cases)
        taken = {(one.warehouse, int(one.timestamp.timestamp()), one.entity) for one in train}
        of_train = [case for case in own if _key(case, names) in taken]
        found = await chosen_bugs(runner, node, tools[node], of_train, sop, seed=plan.seed)
        bugs[node] = [str(bug) for bug in found]
        prepared.append(NodeCases(node=node, train=train, heldout=heldout, active=tools[node]))
        runner.forget()
    return prepared, bugs


def _key(case: Case, names: Sequence[str]) -> tuple[str, int, str] | None:
    return (names[case.site], case.t, case.entity) if case.split == "train" else None


async def make_node(maker: NodeMaker, models: Mapping[str, Model]) -> dict[str, NodeRun]:
    """The four ablations, and the full pipeline with an endpoint that ignores mismatches."""
    full = await maker.full(models[FULL], FULL)
    traces = full.made.traces
    collecting_s = sum(
        (turn.model_ms + turn.sandbox_ms) / 1000 for trace in traces for turn in trace.turns
    )
    return {
        FULL: full,
        NO_TRACES: await maker.ablated(models[FULL], FULL, traces=False),
        NO_REPAIR: await maker.ablated(
            models[FULL], FULL, given=traces, repair=False, given_s=collecting_s
        ),
        SOP_ONLY: await maker.ablated(models[FULL], FULL, traces=False, repair=False),
        IGNORING: await maker.ablated(
            models[IGNORING], IGNORING, given=traces, given_s=collecting_s
        ),
    }


# --- figures ------------------------------------------------------------------------------------


def figures_of(
    plan: Plan, found: Mapping[str, Mapping[str, Any]], *, sop_nodes: int
) -> dict[str, Any]:
    runs = {name: _of_run(found, name) for name in (*ABLATIONS, IGNORING)}
    full = runs[FULL]
    below = {
        node: one["runs"][FULL]["heldout_pass_rate"]
        for node, one in sorted(found.items())
        if one["runs"][FULL]["heldout_pass_rate"] < TARGET
    }
    ignoring = runs[IGNORING]
    return {
        "nodes_made": len(found),
        "nodes_of_sop": sop_nodes,
        "target": TARGET,
        "nodes_below_target": below,
        "ablations": {name: runs[name] for name in ABLATIONS},
        "repair_uses_mismatches": {
            **ignoring,
            "improved_nodes": [
                node
                for node, one in sorted(found.items())
                if one["runs"][IGNORING]["heldout_pass_rate"] > one["runs"][IGNORING]["pass_at_1"]
            ],
            "improves": ignoring["heldout_pass_rate"] > ignoring["pass_at_1"],
            "full_improves": full["heldout_pass_rate"] > full["pass_at_1"],
        },
        "worse_by": {
            name: full["heldout_pass_rate"] - runs[name]["heldout_pass_rate"]
            for name in ABLATIONS
            if name != FULL
        },
        "bugs": {node: one["bugs"] for node, one in sorted(found.items())},
        "cases": {
            "train_cases_a_node": plan.train_cases or "all",
            "heldout_cases_a_node": plan.heldout_cases or "all",
            "gate_cases_a_part": plan.options.gate_cases or "all",
            "train_cases": sum(one["train_cases"] for one in found.values()),
            "heldout_cases": sum(one["heldout_cases"] for one in found.values()),
        },
        "shared": "traces of the full run, and trials of the same code on the same cases; their"
        " seconds and tokens are counted in every run that needs them",
        "options": asdict(plan.options),
        "seed": plan.seed,
    }


def _of_run(found: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Rates are of cases, all nodes together."""
    rows = {node: one["runs"][name] for node, one in sorted(found.items())}

    def rate(key: str, cases: str) -> float:
        total = sum(one[cases] for one in found.values())
        passed = sum(rows[node][key] * one[cases] for node, one in found.items())
        return passed / total if total else 0.0

    return {
        "nodes": len(rows),
        "pass_at_1": rate("pass_at_1", "heldout_cases"),
        "train_pass_rate": rate("train_pass_rate", "train_cases"),
        "heldout_pass_rate": rate("heldout_pass_rate", "heldout_cases"),
        "nodes_at_target": sum(row["heldout_pass_rate"] >= TARGET for row in rows.values()),
        "rounds_mean": sum(row["rounds"] for row in rows.values()) / max(1, len(rows)),
        "tokens": sum(row["tokens"] for row in rows.values()),
        "seconds": round(sum(row["seconds"] for row in rows.values()), 1),
        "by_node": rows,
    }


def summary(figures: Mapping[str, Any]) -> dict[str, Any]:
    """For people: one line a run."""
    runs = {
        **figures["ablations"],
        "ignoring the mismatches": figures["repair_uses_mismatches"],
    }
    return {
        name: f"held-out {100 * run['heldout_pass_rate']:.2f} %, pass@1"
        f" {100 * run['pass_at_1']:.2f} %, {run['nodes_at_target']} of {run['nodes']} nodes at"
        f" the target, {run['rounds_mean']:.2f} repairs, {run['tokens']} tokens"
        for name, run in runs.items()
    } | {
        "below the target": ", ".join(
            f"{node} {100 * rate:.2f} %" for node, rate in figures["nodes_below_target"].items()
        )
        or "none",
        "seconds": figures["seconds"],
    }


def is_right(figures: Mapping[str, Any]) -> bool:
    """Whether every node made came to the target, each ablation is visibly worse, and repairs are
    worth nothing to whoever ignores the mismatches."""
    return (
        not figures["nodes_below_target"]
        and all(by >= VISIBLE for by in figures["worse_by"].values())
        and not figures["repair_uses_mismatches"]["improves"]
        and figures["repair_uses_mismatches"]["full_improves"]
    )
