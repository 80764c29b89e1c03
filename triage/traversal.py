"""The walk: from an alarm to a conclusion, as pure functions of verdicts.

Breadth first by layer. A node is evaluated once, at its first arrival; a later arrival only adds
an edge. `advance` folds one layer's results into the state and says what comes next, so whoever
evaluates nodes decides how, and a test can walk every path without a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from triage.model.decision import (
    ActionId,
    DroppedAction,
    DropReason,
    Edge,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    ReachedAction,
    RootCause,
)
from triage.sop.procedure import Sop

Within = Callable[[str, str], bool]
"""`within(asset, container)`: whether the asset is the container or lies in it."""


class Walk(NamedTuple):
    """What has been walked so far. `frontier` is the layer whose results are awaited."""

    sop: Sop
    default_subject: str
    layer: int
    frontier: tuple[NodeId, ...]
    results: Mapping[NodeId, NodeResult]
    edges: tuple[Edge, ...]
    reached: Mapping[tuple[ActionId, str], tuple[NodeId, ...]]
    """(action, subject) to the nodes that led there, both in order of arrival."""


class EvaluateLayer(NamedTuple):
    walk: Walk
    nodes: tuple[NodeId, ...]


class Conclude(NamedTuple):
    walk: Walk


def begin(sop: Sop, alarm: str, default_subject: str) -> EvaluateLayer | None:
    """The first layer, or None when no alarm of the SOP bears this name.

    `default_subject` is the asset of verdicts that name none.
    """
    entry = sop.entry(alarm)
    if entry is None:
        return None
    nodes = tuple(dict.fromkeys(entry))
    walk = Walk(
        sop=sop,
        default_subject=default_subject,
        layer=0,
        frontier=nodes,
        results={},
        edges=tuple(Edge(origin=alarm, on="alarm", target=node) for node in nodes),
        reached={},
    )
    return EvaluateLayer(walk=walk, nodes=nodes)


def advance(walk: Walk, results: Mapping[NodeId, NodeResult]) -> EvaluateLayer | Conclude:
    """Fold in the results of the frontier. Raises KeyError when one of them is missing."""
    sop = walk.sop
    done = dict(walk.results)
    edges = list(walk.edges)
    reached = dict(walk.reached)
    following: dict[NodeId, None] = {}
    for node_id in walk.frontier:
        done[node_id] = results[node_id]
    for node_id in walk.frontier:
        result = done[node_id]
        step = sop.steps[node_id][result.word]
        edges += step.edges
        for target in step.nodes:
            if target not in done:
                following[target] = None
        for action in step.actions:
            key = (action, subject_of(result, walk.default_subject))
            reached[key] = (*reached.get(key, ()), node_id)
    after = Walk(
        sop=sop,
        default_subject=walk.default_subject,
        layer=walk.layer + 1,
        frontier=tuple(following),
        results=done,
        edges=tuple(edges),
        reached=reached,
    )
    if following:
        return EvaluateLayer(walk=after, nodes=after.frontier)
    return Conclude(walk=after)


def reachable(sop: Sop, entry: Iterable[NodeId]) -> tuple[NodeId, ...]:
    """Every node any verdicts could lead to from `entry`, itself included, breadth first."""
    order: dict[NodeId, None] = dict.fromkeys(entry)
    queue = list(order)
    for node_id in queue:
        for step in sop.steps[node_id].values():
            for target in step.nodes:
                if target not in order:
                    order[target] = None
                    queue.append(target)
    return tuple(order)


def subject_of(result: NodeResult, default_subject: str) -> str:
    """The asset a result speaks of."""
    verdict = result.verdict
    return verdict.subject if verdict is not None and verdict.subject else default_subject


class Conclusion(NamedTuple):
    """`observed` and `root_causes` are the nodes that said `true`, in order of arrival."""

    outcome: Outcome
    degraded: bool
    observed: tuple[NodeId, ...]
    root_causes: tuple[RootCause, ...]
    actions: tuple[ReachedAction, ...]
    dropped: tuple[DroppedAction, ...]


def conclude(
    walk: Walk,
    within: Within = lambda asset, container: asset == container,
) -> Conclusion:
    """Which actions stand, and the outcome. `within` says whether an asset lies in another."""
    observed: list[NodeId] = []
    root_causes: list[RootCause] = []
    words: set[str] = set()
    for result in walk.results.values():
        word = result.word
        words.add(word)
        if word == "true" and result.kind is NodeKind.OBSERVATION:
            observed.append(result.node)
        elif word == "true" and result.kind is NodeKind.ROOT_CAUSE:
            subject = subject_of(result, walk.default_subject)
            root_causes.append(RootCause(node=result.node, subject=subject))
    degraded = "failed" in words
    actions, dropped = settle_actions(walk, within, escalating=degraded)
    if degraded:
        outcome = Outcome.ESCALATE
    elif actions:
        outcome = Outcome.ACTIONS
    elif "no_data" in words:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.NO_FAULT
    return Conclusion(
        outcome=outcome,
        degraded=degraded,
        observed=tuple(observed),
        root_causes=tuple(root_causes),
        actions=actions,
        dropped=dropped,
    )


def settle_actions(
    walk: Walk, within: Within, *, escalating: bool
) -> tuple[tuple[ReachedAction, ...], tuple[DroppedAction, ...]]:
    """Effective and dropped actions.

    Cancelling comes first and all at once: a cancelled action still cancels. An action cancels
    on its own subject and on every asset inside it. Then yielding actions give way to any other,
    and among yielding ones only the highest rank stands. A decision that escalates keeps no
    yielding action: "close as handled" must not stand beside a node that could not be judged.
    """
    reached = [_reached_action(walk.sop, key, nodes) for key, nodes in walk.reached.items()]
    dropped: list[DroppedAction] = []
    standing: list[ReachedAction] = []
    for action in reached:
        by = next(
            (
                other.action
                for other in reached
                if action.action in walk.sop.actions[other.action].cancels
                and within(action.subject, other.subject)
            ),
            None,
        )
        if by is None:
            standing.append(action)
        else:
            dropped.append(DroppedAction(action=action, reason=DropReason.CANCELLED, by=by))
    firm = [a for a in standing if not walk.sop.actions[a.action].yields]
    if len(firm) == len(standing):
        return tuple(standing), tuple(dropped)
    yielding = [a for a in standing if walk.sop.actions[a.action].yields]
    if escalating:
        dropped += [DroppedAction(action=a, reason=DropReason.ESCALATED) for a in yielding]
        return tuple(firm), tuple(dropped)
    if firm:
        by = max(firm, key=lambda a: a.rank).action
        dropped += [DroppedAction(action=a, reason=DropReason.YIELDED, by=by) for a in yielding]
        return tuple(firm), tuple(dropped)
    top = max(yielding, key=lambda a: a.rank)
    dropped += [
        DroppedAction(action=a, reason=DropReason.OUTRANKED, by=top.action)
        for a in yielding
        if a.rank < top.rank
    ]
    return tuple(a for a in yielding if a.rank == top.rank), tuple(dropped)


def _reached_action(
    sop: Sop, key: tuple[ActionId, str], nodes: tuple[NodeId, ...]
) -> ReachedAction:
    action = sop.actions[key[0]]
    return ReachedAction(
        action=action.action,
        subject=key[1],
        rank=action.rank,
        cost=action.cost,
        text=action.text,
        nodes=nodes,
    )
