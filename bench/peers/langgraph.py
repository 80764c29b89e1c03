"""The same procedure as a LangGraph graph: a graph node for every decision node, compiled once.

Built as its documentation builds one that branches in parallel: state with a reducer, a
conditional edge from the alarm to its entry nodes, nodes that return `Command` to write their
verdict and to go on by it, and the alert in the run's context. `Command` because a conditional
edge after every node reads the state anew, and made a walk a quarter slower. It has no
checkpointer, no retries and no tracing, and its caller settles the actions: a node for that would
be one more step of every walk.

LangGraph is in the extra `bench` only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from bench.peers.floor import PATIENCE_S, Walked, settled
from triage.app.procedure import Loaded
from triage.evaluation.context import ToolContext
from triage.library.catalogue import Tool
from triage.model.alert import Alert
from triage.model.decision import NodeId
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.ports import Source
from triage.sop.procedure import Node, SiteProfile


def _merged(left: dict[NodeId, Verdict], right: dict[NodeId, Verdict]) -> dict[NodeId, Verdict]:
    return {**left, **right}


class State(TypedDict):
    verdicts: Annotated[dict[NodeId, Verdict], _merged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What every node of one walk shares: a query that two nodes ask is asked once, as by the
    other contenders."""

    alert: Alert
    profile: SiteProfile
    sources: Mapping[str, Source]
    asked: dict[Query, asyncio.Future[Answer]] = field(default_factory=dict)

    async def answers(self, queries: list[Query]) -> dict[Query, Answer]:
        for query in queries:
            if query not in self.asked:
                self.asked[query] = asyncio.ensure_future(
                    self.sources[query.source].ask(query, timeout_s=PATIENCE_S)
                )
        answered = await asyncio.gather(*(self.asked[query] for query in queries))
        return dict(zip(queries, answered, strict=True))


class Step(Protocol):
    """What LangGraph calls a node; it goes by the parameters' names."""

    async def __call__(self, state: State, runtime: Runtime[Run]) -> Command[str] | None: ...


class LangGraph:
    """Sources are open, and no tool is dynamic or reads its parents."""

    def __init__(self, loaded: Loaded, sources: Mapping[str, Source]) -> None:
        self._sop = loaded.sop
        self._sites = loaded.sites
        self._sources = sources
        graph = StateGraph(State, context_schema=Run)
        for node in loaded.sop.nodes.values():
            targets = {name for names in node.targets.values() for name in names}
            graph.add_node(
                node.node,
                self._step(node, loaded.library.tools[node.node]),
                destinations=tuple(sorted(targets & loaded.sop.nodes.keys())),
            )
        entries = {name for nodes in loaded.sop.alarms.values() for name in nodes}
        graph.add_conditional_edges(START, self._enter, sorted(entries))
        self._compiled = graph.compile()

    async def walk(self, alert: Alert) -> Walked:
        profile = self._sites.profile(alert.site)
        run = Run(alert=alert, profile=profile, sources=self._sources)
        state = await self._compiled.ainvoke({"verdicts": {}}, context=run)
        verdicts = state["verdicts"]
        return Walked(verdicts, settled(self._sop, profile, alert.entity, verdicts))

    def _enter(self, state: State, runtime: Runtime[Run]) -> list[str]:  # noqa: ARG002 - it is passed
        return list(self._sop.entry(runtime.context.alert.alarm) or ())

    def _step(self, node: Node, tool: Tool) -> Step:
        collect = tool.queries
        assert collect is not None
        following = {
            word: [name for name in names if name in self._sop.nodes]
            for word, names in node.targets.items()
        }

        async def run(state: State, runtime: Runtime[Run]) -> Command[str] | None:
            if node.node in state["verdicts"]:
                return None  # reached again by a node that was judged at the same time
            alert, profile = runtime.context.alert, runtime.context.profile
            context = ToolContext(alert, profile)
            queries = collect(profile.site.name, alert.fired_at, context)
            context.open_for_judging({}, await runtime.context.answers(queries))
            verdict = tool.evaluate(profile.site.name, alert.fired_at, context)
            return Command(
                update={"verdicts": {node.node: verdict}},
                goto=[
                    name for name in following[verdict.value.word] if name not in state["verdicts"]
                ],
            )

        return run
