"""Every tool against the annotator's labelled cases, and the cases against mutants of the tools.

Two questions: does each tool answer as the annotator does, on cases it was developed on and on
those it was not; and would the held-out cases notice if a tool were subtly wrong.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol

from bench.annotator.cases import CHEAP, Case
from bench.annotator.settings import load_settings
from bench.cases.edges import EdgeFinder
from bench.cases.more import MoreCases
from bench.cases.mutants import MOST
from bench.cases.runner import CaseRunner, sources_in_process
from bench.cases.store import CaseStore
from bench.cases.tool_sources import ToolSource, compiled, lying_in, registered
from bench.cases.trials import Failing, NodeFigures, Trial, judge_node
from bench.dock import CACHE, LIBRARY, SITES, SOP, DockFiles, dock_files
from bench.watching import Progress, unseen
from bench.world.world import OPEN_SEED, WHOLE, Extent
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, load_sites

WORST = 10  # nodes listed


class Store(Protocol):
    def of(self, node: str) -> list[Case]:
        """Train and held-out cases of one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    nodes: Mapping[str, NodeFigures]
    seconds: Mapping[str, float]

    @property
    def failing(self) -> list[Failing]:
        return [one for figures in self.nodes.values() for one in figures.failing]

    def document(self) -> dict[str, Any]:
        figures = self.nodes.values()
        totals = {split: sum(one.total[split] for one in figures) for split in ("train", "heldout")}
        passed = {split: sum(one.passed[split] for one in figures) for split in totals}
        mutants, killed, more, more_passed, edges, edges_passed = (
            sum(getattr(one, key) for one in figures)
            for key in ("mutants", "killed", "more", "more_passed", "edges", "edges_passed")
        )
        return {
            "train_cases": totals["train"],
            "heldout_cases": totals["heldout"],
            **{
                f"{split}_pass_rate": passed[split] / totals[split] if totals[split] else None
                for split in totals
            },
            "worst_nodes": _worst(figures),
            "mutants": mutants,
            "mutants_killed": killed,
            "mutants_killed_by_more_only": sum(one.killed_by_more for one in figures),
            "more_cases": more,
            "more_pass_rate": more_passed / more if more else None,
            "edge_cases": edges,
            "edge_pass_rate": edges_passed / edges if edges else None,
            "mutants_killed_rate": killed / mutants if mutants else None,
            "survivors": [str(one) for each in figures for one in each.survivors],
            "equivalent": [f"{mutant}: {why}" for each in figures for mutant, why in each.left_out],
            "nodes": {one.node: one.document() for one in figures},
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
        }


def _worst(figures: Iterable[NodeFigures]) -> list[list[Any]]:
    """Node and held-out pass rate of those that are not wholly right, the worst first."""
    rates = [[one.node, one.rate("heldout")] for one in figures if one.rate("heldout") < 1]
    return sorted(rates, key=lambda pair: (pair[1], pair[0]))[:WORST]


def measure(
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    progress: Progress = unseen,
    *,
    nodes: Collection[str] | None = None,
    tools: Path | None = None,
    mutants: int = MOST,
    store: Store | None = None,
    processes: int = 1,
) -> dict[str, Any]:
    """The figures of `bench cases`. `processes` share the nodes when there are several; see
    `judge_tools` for the other arguments, of which `store` is for one process only."""
    if processes == 1:
        return judge_tools(
            seed, extent, folder, progress, nodes=nodes, tools=tools, mutants=mutants, store=store
        ).document()
    began = perf_counter()
    dock_files(seed, extent, folder)  # not built by each
    wanted = [node for node in _by_cost(load_sop(SOP)) if nodes is None or node in nodes]
    judge = partial(judge_tools, seed, extent, folder, tools=tools, mutants=mutants)
    spawning = multiprocessing.get_context("spawn")
    found: dict[str, Measured] = {}
    with ProcessPoolExecutor(processes, mp_context=spawning) as pool:
        progress(0, len(wanted))
        asked = {pool.submit(judge, nodes=[node]): node for node in wanted}
        try:
            for done, future in enumerate(as_completed(asked), start=1):
                found[asked[future]] = future.result()
                progress(done, len(wanted))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return _together([found[node] for node in sorted(found)], perf_counter() - began).document()


def _by_cost(sop: Sop) -> list[str]:
    """The dearest first, so that no process is left with one at the end."""
    return sorted(sop.nodes, key=lambda node: (node in CHEAP, node))


def _together(parts: Sequence[Measured], seconds: float) -> Measured:
    spent: Counter[str] = Counter()
    for part in parts:
        spent.update(part.seconds)
    return Measured(
        nodes={node: figures for part in parts for node, figures in part.nodes.items()},
        seconds={**spent, "all": seconds},
    )


def failing_cases(
    seed: int = OPEN_SEED,
    extent: Extent = WHOLE,
    folder: Path = CACHE,
    *,
    nodes: Collection[str] | None = None,
    tools: Path | None = None,
    store: Store | None = None,
) -> list[Failing]:
    """Every case that a tool gets wrong; `str()` of one is for people."""
    return judge_tools(
        seed, extent, folder, nodes=nodes, tools=tools, mutants=0, store=store
    ).failing


def judge_tools(
    seed: int,
    extent: Extent,
    folder: Path,
    progress: Progress = unseen,
    *,
    nodes: Collection[str] | None = None,
    tools: Path | None = None,
    mutants: int = MOST,
    store: Store | None = None,
) -> Measured:
    """`nodes` are all that have a tool when None; `tools` is a folder of files NODE.py, in the
    place of the library; up to `mutants` of each tool are tried; `store` has the cases when they
    are not the world's own. `folder` keeps the world and its
    cases. Raises triage.errors.InvalidFiles for a procedure or library that is not sound.
    """
    began, busy = perf_counter(), process_time()
    files = dock_files(seed, extent, folder)
    made = process_time() - busy
    sop = load_sop(SOP)
    sites = load_sites(SITES, sop)
    sources = registered(LIBRARY, sop.nodes) if tools is None else lying_in(tools, sop.nodes)
    wanted = {node: one for node, one in sources.items() if nodes is None or node in nodes}
    store = CaseStore(files.world, extent, folder) if store is None else store
    figures = asyncio.run(_judge_all(files, store, sop, sites, wanted, mutants, progress))
    return Measured(
        nodes=figures.nodes,
        seconds={
            "world_cpu": made,
            **figures.seconds,
            "all_cpu": process_time() - busy,
            "all": perf_counter() - began,
        },
    )


async def _judge_all(
    files: DockFiles,
    store: Store,
    sop: Sop,
    sites: Sites,
    sources: Mapping[NodeId, ToolSource],
    most: int,
    progress: Progress,
) -> Measured:
    names = tuple(facts.name for facts in files.world.sites)
    library = compiled(sources, sop)
    found: dict[str, NodeFigures] = {}
    seconds: Counter[str] = Counter()
    settings = load_settings()
    finder = EdgeFinder(files.world, settings)
    more = MoreCases(files.world, settings, finder)
    async with sources_in_process(files) as opened:
        runner = CaseRunner(sop, sites, names, opened)
        for done, (node, source) in enumerate(sources.items()):
            progress(done, len(sources))
            since = process_time()
            own = store.of(node)
            since = _spent(seconds, "making_cpu", since)
            figures = found[node] = await judge_node(runner, node, own, library)
            since = _spent(seconds, "cases_cpu", since)
            if most:
                trial = Trial(runner, figures, source, sop)
                await trial.judge_more(more, finder, own)
                since = _spent(seconds, "more_cpu", since)
                await trial.kill(own, most)
                _spent(seconds, "mutants_cpu", since)
                finder.forget()
            runner.forget()
        progress(len(sources), len(sources))
    return Measured(nodes=found, seconds=seconds)


def _spent(seconds: Counter[str], name: str, since: float) -> float:
    """Adds the processor's seconds since then; now."""
    now = process_time()
    seconds[name] += now - since  # type: ignore[assignment] # a Counter of floats adds as well
    return now


def write_failing(path: Path, failing: Iterable[Failing]) -> None:
    path.write_text("".join(f"{one}\n" for one in failing), "utf-8")
