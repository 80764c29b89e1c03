"""What the engine costs beside a hand-written loop and beside LangGraph, interleaved in one run."""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any, Protocol, TypedDict

from bench.peers.walk import ACTION, LAYERS, Bench, build
from bench.runtime import engine_for
from triage.model.query import Answer, Query
from triage.model.verdict import Truth, Verdict
from triage.telemetry.metrics import Metrics

ROUNDS = 150
WALKS_PER_ROUND = 10
WARM_UP_ROUNDS = 10

Walk = Callable[[], Awaitable[int]]
"""One decision; returns how many nodes it evaluated, so that no contender may do less."""


class BareContext:
    """The least a tool can be called with."""

    __slots__ = ("_answers",)

    def __init__(self, answers: Mapping[Query, Answer]) -> None:
        self._answers = answers

    def answer(self, query: Query) -> Answer:
        return self._answers[query]


async def ask_and_evaluate(bench: Bench, node: str) -> Verdict:
    """What any runtime must do for a node: its two queries at once, then the tool."""
    queries, evaluate = bench.tools[node]
    asked = queries("site-1", bench.alert.fired_at, None)
    answers = await asyncio.gather(*(bench.source.ask(q, timeout_s=2.0) for q in asked))
    context = BareContext(dict(zip(asked, answers, strict=True)))
    verdict = evaluate("site-1", bench.alert.fired_at, context)
    assert isinstance(verdict, Verdict)
    return verdict


def floor(bench: Bench) -> Walk:
    """A loop written for this walk alone: no metrics, no evidence, no deadline, no record."""

    async def walk() -> int:
        verdicts: dict[str, Verdict] = {}
        frontier = list(LAYERS[0])
        while frontier:
            done = await asyncio.gather(*(ask_and_evaluate(bench, node) for node in frontier))
            verdicts.update(zip(frontier, done, strict=True))
            following: dict[str, None] = {}
            for node, verdict in zip(frontier, done, strict=True):
                if verdict.value is Truth.TRUE:
                    for target in bench.following[node]:
                        if target != ACTION and target not in verdicts:
                            following[target] = None
            frontier = list(following)
        return len(verdicts)

    return walk


def _merged(left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    return {**left, **right}


class GraphState(TypedDict):
    verdicts: Annotated[dict[str, str], _merged]


class Step(Protocol):
    """What LangGraph calls a node; it goes by the parameter's name."""

    async def __call__(self, state: GraphState) -> dict[str, Any]: ...


def langgraph(bench: Bench) -> Walk:
    """The same graph as its own documentation builds one: a node a step, conditional edges."""
    from langgraph.graph import END, START, StateGraph  # a peer, in the extra `bench` only

    graph = StateGraph(GraphState)

    def step(node: str) -> Step:
        async def run(state: GraphState) -> dict[str, Any]:
            verdict = await ask_and_evaluate(bench, node)
            return {"verdicts": {node: verdict.value.value}}

        return run

    def route(node: str) -> Callable[[GraphState], list[str]]:
        targets = [t if t != ACTION else END for t in bench.following[node]]

        def choose(state: GraphState) -> list[str]:
            return targets if state["verdicts"][node] == "true" else [END]

        return choose

    for layer in LAYERS:
        for node in layer:
            graph.add_node(node, step(node))
            targets = sorted({t if t != ACTION else END for t in bench.following[node]} | {END})
            graph.add_conditional_edges(node, route(node), targets)
    graph.add_edge(START, LAYERS[0][0])
    compiled = graph.compile()

    async def walk() -> int:
        state = await compiled.ainvoke({"verdicts": {}})
        return len(state["verdicts"])

    return walk


def engine(bench: Bench) -> Walk:
    """The real thing: metrics on, evidence bodies made and digested, the decision sealed."""
    metrics = Metrics.register(version="bench", monotonic=time.monotonic)
    decide = engine_for(bench, metrics)

    async def walk() -> int:
        decided = await decide()
        assert len(decided.evidence) == 2 * len(decided.decision.nodes)
        return len(decided.decision.nodes)

    return walk


async def measure(rounds: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """p50 in microseconds of each contender's walks; contenders take turns within a round."""
    bench = build()
    contenders = {"floor": floor(bench), "engine": engine(bench), "langgraph": langgraph(bench)}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    nodes = sum(len(layer) for layer in LAYERS)
    for name, walk in contenders.items():
        if (evaluated := await walk()) != nodes:
            raise AssertionError(f"{name} evaluated {evaluated} nodes, not {nodes}")
    gc.collect()
    for index in range(WARM_UP_ROUNDS + rounds):
        for name, walk in contenders.items():
            for _ in range(WALKS_PER_ROUND):
                began = time.perf_counter()
                await walk()
                took = time.perf_counter() - began
                if index >= WARM_UP_ROUNDS:
                    samples[name].append(took * 1e6)
        progress(index + 1, WARM_UP_ROUNDS + rounds)
    p50 = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "floor_p50_us": round(p50["floor"], 1),
        "engine_p50_us": round(p50["engine"], 1),
        "langgraph_p50_us": round(p50["langgraph"], 1),
        "ratio_to_floor": round(p50["engine"] / p50["floor"], 3),
        "times_faster_than_langgraph": round(p50["langgraph"] / p50["engine"], 2),
        "walks_each": rounds * WALKS_PER_ROUND,
        "nodes": nodes,
        "layers": len(LAYERS),
        "python": platform.python_version(),
        "langgraph_version": version("langgraph"),
    }
