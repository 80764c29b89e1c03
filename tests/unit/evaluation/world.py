"""Procedures, tools and an engine built by hand around sources in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.evaluation.virtual_time import LoopClock
from triage.adapters.memory import MemorySource
from triage.engine.engine import Decided, Engine, EngineOptions, Prefetch
from triage.engine.snapshot import Snapshot, snapshot
from triage.errors import ToolFailed
from triage.evaluation.guard import GuardedSource, SourceLimits
from triage.evaluation.judge import Marker, NoMark
from triage.library.catalogue import Library, Tool
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import sha256_hex
from triage.model.decision import ActionId, Cost, NodeId, NodeKind, NodeResult
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.ports import Clock, Fallback, Lane, Source
from triage.sop.procedure import WORDS, Action, Node, Sop
from triage.sop.sites import Sites, no_sites
from triage.telemetry.metrics import Metrics
from triage.tool_api import Context, compare, conclude, no_data, rows
from triage.worker.lanes import Lanes

FIRED_AT = datetime(2026, 3, 1, 11, 59, tzinfo=UTC)
MEMORY = "memory"
ALARM = "al"

Queries = Callable[[str, datetime, Context], Any]
Evaluate = Callable[[str, datetime, Context], Any]


def node(
    name: str,
    kind: NodeKind = NodeKind.OBSERVATION,
    /,
    *,
    sources: Sequence[str] = (MEMORY,),
    **targets: Sequence[str],
) -> Node:
    """`targets` are named by the word: true, false, no_data, failed."""
    return Node(
        node=NodeId(name),
        kind=kind,
        text=f"Is {name} so?",
        text_sha256=sha256_hex(name.encode()),
        sources=tuple(sources),
        targets={word: tuple(targets.get(word, ())) for word in WORDS},
    )


def action(
    name: str,
    *,
    rank: int = 1,
    cost: Cost = Cost.LOW,
    yields: bool = False,
    cancels: Sequence[str] = (),
) -> Action:
    return Action(
        action=ActionId(name),
        text=f"Do {name}.",
        rank=rank,
        cost=cost,
        yields=yields,
        cancels=frozenset(ActionId(other) for other in cancels),
    )


def procedure(
    *nodes: Node,
    actions: Sequence[Action] = (),
    entry: Sequence[str] = (),
    aliases: Mapping[str, str] | None = None,
    version: int = 1,
) -> Sop:
    """Entered at the first node unless `entry` says where."""
    return Sop(
        name="test",
        version=version,
        sha256=sha256_hex(f"sop {version}".encode()),
        file="sop.yaml",
        alarms={ALARM: tuple(NodeId(name) for name in entry or (nodes[0].node,))},
        aliases=aliases or {},
        params={},
        nodes={one.node: one for one in nodes},
        actions={one.action: one for one in actions},
    )


def asks(*names: str, source: str = MEMORY) -> Queries:
    """`queries` of a tool that asks one row a name."""

    def queries(warehouse: str, timestamp: datetime, context: Context) -> Any:
        return [query(name, source) for name in names]

    return queries


def query(name: str, source: str = MEMORY) -> Query:
    return rows(source, f"select {name}")


def above(*names: str, source: str = MEMORY, limit: float = 10) -> Evaluate:
    """TRUE when every value asked is above the limit, NO_DATA when one is missing."""

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        clauses = []
        for name in names:
            found = context.answer(query(name, source))
            if not found:
                return no_data(f"{name} is missing")
            clauses.append(compare(name, found[0]["value"], ">", limit))
        return conclude(clauses, "looked")

    return evaluate


def tool(
    name: str,
    queries: Queries | None = None,
    evaluate: Evaluate | None = None,
    *,
    reads_parents: Sequence[str] = (),
    dynamic: bool = False,
) -> Tool:
    """Asks for the value of its own name, TRUE above 10, unless told otherwise."""
    return Tool(
        node=NodeId(name),
        version=1,
        sha256=sha256_hex(f"tool {name}".encode()),
        dynamic=dynamic,
        reads_parents=tuple(NodeId(parent) for parent in reads_parents),
        queries=None if dynamic else (queries or asks(name)),
        evaluate=evaluate or above(name),
    )


def dynamic_tool(name: str, evaluate: Callable[..., Awaitable[Any]]) -> Tool:
    return tool(name, evaluate=evaluate, dynamic=True)


def library(*tools: Tool, broken: Mapping[str, ToolFailed] | None = None) -> Library:
    return Library(
        tools={one.node: one for one in tools},
        broken={NodeId(name): failed for name, failed in (broken or {}).items()},
    )


def value(number: float) -> Answer:
    return ({"value": number},)


def memory(answers: Mapping[str, Answer] | None = None, *, name: str = MEMORY) -> MemorySource:
    """By the name asked; what is not there is a missing metric. An exception is raised."""
    found = {query(key, name): answer for key, answer in (answers or {}).items()}
    return MemorySource(name, lambda asked: found.get(asked, ()))


def alert(
    alert_id: str = "a" * 32,
    *,
    alarm: str = ALARM,
    site: str = "north",
    resolved_at: datetime | None = None,
    labels: Mapping[str, str] | None = None,
) -> Alert:
    return Alert(
        alert_id=AlertId(alert_id),
        integration="test",
        tenant="",
        fingerprint="f",
        alarm=alarm,
        site=site,
        entity="unit-7",
        severity=Severity.WARNING,
        fired_at=FIRED_AT,
        accepted_at=FIRED_AT + timedelta(seconds=30),
        labels=labels or {},
        annotations={},
        resolved_at=resolved_at,
    )


def guarded(
    source: Source, limits: SourceLimits | None = None, *, metrics: Metrics | None = None
) -> GuardedSource:
    metrics = metrics or new_metrics()
    return GuardedSource(
        source,
        limits or SourceLimits(),
        metrics.sources.cell(source.name),
        LoopClock().monotonic,
    )


def new_metrics() -> Metrics:
    return Metrics.register(version="test", monotonic=lambda: 0.0)


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    """A metric's value as the page shows it, 0 when it is not there."""
    found = metrics.registry.get_sample_value(name, labels)
    return found or 0.0


@dataclass(slots=True, kw_only=True)
class World:
    """One engine, one snapshot."""

    sop: Sop
    library: Library
    sources: Sequence[Source]
    limits: SourceLimits = field(default_factory=SourceLimits)
    prefetch: Prefetch = "layer"
    deadline_s: float = 5.0
    fallback_deadline_s: float = 60.0
    fallback: Fallback | None = None
    lanes: Lanes = field(default_factory=lambda: Lanes(fast=4, slow=1))
    marker: Marker = field(default_factory=NoMark)
    clock: Clock = field(default_factory=LoopClock)
    sites: Sites | None = None
    metrics: Metrics = field(default_factory=new_metrics)
    _snapshot: Snapshot | None = None
    _engine: Engine | None = None

    @property
    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = snapshot(
                self.sop,
                self.sites or no_sites(self.sop),
                self.library,
                {
                    source.name: guarded(source, self.limits, metrics=self.metrics)
                    for source in self.sources
                },
            )
        return self._snapshot

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(
                options=EngineOptions(
                    deadline_s=self.deadline_s,
                    fallback_deadline_s=self.fallback_deadline_s,
                    prefetch=self.prefetch,
                ),
                clock=self.clock,
                marker=self.marker,
                metrics=self.metrics.nodes,
                fallback=self.fallback,
            )
        return self._engine

    async def decide(self, one: Alert | None = None, *, lane: Lane | None = None) -> Decided:
        if lane is not None:
            return await self.engine.decide(one or alert(), self.snapshot, lane=lane)
        slot = self.lanes.take()
        try:
            return await self.engine.decide(one or alert(), self.snapshot, lane=slot)
        finally:
            slot.release()


def one_node(*tools: Tool, sources: Sequence[str] = (MEMORY,), **targets: Sequence[str]) -> Sop:
    """A procedure whose nodes are those of `tools`, all entered at once."""
    nodes = [node(one.node, sources=sources, **targets) for one in tools]
    return procedure(*nodes, entry=[one.node for one in nodes])


def by_node(decided: Decided) -> dict[str, NodeResult]:
    return {result.node: result for result in decided.decision.nodes}


def reasons(results: Iterable[NodeResult]) -> dict[str, str]:
    """Node to the reason it failed for, its verdict otherwise."""
    return {
        result.node: result.failure.reason if result.failure else result.word for result in results
    }
