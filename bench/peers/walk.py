"""The walk that every contender makes: 9 nodes in 4 layers, each tool asking two queries.

The same tools, the same in-memory source and the same alert for all; only who calls them differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from triage.adapters.memory import MemorySource
from triage.library.catalogue import Library, Tool
from triage.model.alert import Alert, AlertId, Severity
from triage.model.decision import ActionId, Cost, NodeId, NodeKind
from triage.model.query import Query, Series
from triage.sop.procedure import WORDS, Action, Node, Sop
from triage.tool_api import Context, Verdict, compare, conclude, last, samples, selector

SOURCE = "memory"
ALARM = "queue_high"
FIRED_AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
WINDOW_S = 300
LAYERS: tuple[tuple[str, ...], ...] = (
    ("n0",),
    ("n1", "n2", "n3"),
    ("n4", "n5", "n6"),
    ("n7", "n8"),
)
ACTION = "restart"


def _selectors(node: str) -> tuple[str, str]:
    return (
        selector("queue_depth", node=node),
        selector("queue_capacity", node=node),
    )


def make_tool(node: str) -> tuple[Any, Any]:
    """The two functions of a tool, as a compiled file would hold them."""
    depth, capacity = _selectors(node)

    def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
        return [
            samples(SOURCE, depth, timestamp, WINDOW_S),
            samples(SOURCE, capacity, timestamp, WINDOW_S),
        ]

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        asked_depth, asked_capacity = queries(warehouse, timestamp, context)
        used = last(context.answer(asked_depth)[0])
        of = last(context.answer(asked_capacity)[0])
        clause = compare("queue_used", used / of, ">", 0.5, "ratio")
        return conclude([clause], "the queue is more than half full")

    return queries, evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    sop: Sop
    library: Library
    tools: Mapping[str, tuple[Any, Any]]
    source: MemorySource
    alert: Alert
    following: Mapping[str, Sequence[str]]


def build() -> Bench:
    tools = {node: make_tool(node) for layer in LAYERS for node in layer}
    following: dict[str, tuple[str, ...]] = {}
    for here, after in zip(LAYERS, (*LAYERS[1:], (ACTION,)), strict=True):
        for index, node in enumerate(here):
            # Every node of a layer leads to a share of the next, and some arrive twice.
            following[node] = tuple(after[index % len(after) :]) if len(here) > 1 else after
    answers = {
        query: (_series(query.selector, 8.0 if "depth" in query.selector else 10.0),)
        for queries, _ in tools.values()
        for query in queries("", FIRED_AT, None)
    }
    return Bench(
        sop=sop_of(following, SOURCE),
        library=library_of(tools),
        tools=tools,
        source=MemorySource(SOURCE, answers, keep_asked=False),
        alert=alert(),
        following=following,
    )


def alert() -> Alert:
    return Alert(
        alert_id=AlertId("0" * 32),
        integration="bench",
        tenant="",
        fingerprint="bench",
        alarm=ALARM,
        site="site-1",
        entity="queue-1",
        severity=Severity.WARNING,
        fired_at=FIRED_AT,
        accepted_at=FIRED_AT,
        labels={},
        annotations={},
    )


def _series(name: str, value: float) -> Series:
    end = FIRED_AT.timestamp()
    return Series(
        {"__name__": name},
        tuple(end - 30 * i for i in range(9, -1, -1)),
        tuple(value for _ in range(10)),
    )


def library_of(tools: Mapping[str, tuple[Any, Any]]) -> Library:
    """`tools` maps a node to its two functions."""
    return Library(
        tools={
            NodeId(node): Tool(
                node=NodeId(node), version=1, sha256="0" * 64, queries=queries, evaluate=evaluate
            )
            for node, (queries, evaluate) in tools.items()
        },
        broken={},
    )


def sop_of(following: Mapping[str, Sequence[str]], source: str) -> Sop:
    """`following` maps every node to what it leads to when true. The alarm enters at the first."""
    entry = next(iter(following))
    nothing: dict[str, tuple[str, ...]] = dict.fromkeys(WORDS, ())
    nodes = {
        NodeId(node): Node(
            node=NodeId(node),
            kind=NodeKind.ROOT_CAUSE if node != entry else NodeKind.OBSERVATION,
            text=f"Is the queue of {node} more than half full?",
            text_sha256="",
            sources=(source,),
            targets={**nothing, "true": tuple(targets)},
        )
        for node, targets in following.items()
    }
    action = Action(action=ActionId(ACTION), text="Restart it.", rank=1, cost=Cost.LOW)
    return Sop(
        name="bench",
        version=1,
        sha256="",
        file="bench",
        alarms={ALARM: (NodeId(entry),)},
        aliases={},
        params={},
        nodes=nodes,
        actions={action.action: action},
    )
