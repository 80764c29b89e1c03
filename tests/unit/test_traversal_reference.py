"""The traversal against a reference that is slow, short and written another way.

The reference does not walk layer by layer: it relaxes arrival paths until none gets better. A
path is the list positions taken from the alarm on; the best is the shortest, then the one whose
positions come first. That order is the order of arrival.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings

from tests.unit.test_traversal_properties import ALARM, ENTITY, World, thorough, walk, worlds
from triage.model.decision import NodeId, NodeKind

Arrival = tuple[int, tuple[int, ...]]


class Reference(NamedTuple):
    nodes: list[str]
    layers: dict[str, int]
    outcome: str
    standing: set[tuple[str, str]]
    dropped: dict[tuple[str, str], str]
    led_by: dict[tuple[str, str], list[str]]
    causes: list[tuple[str, str]]


def refer(world: World) -> Reference:
    sop, words = world.sop, world.words
    best: dict[str, Arrival] = {str(n): (0, (i,)) for i, n in enumerate(sop.alarms[ALARM])}
    steps = [
        (str(name), position, target)
        for name, node in sop.nodes.items()
        for position, target in enumerate(node.targets[words[name]])
    ]
    changed = True
    while changed:
        changed = False
        for name, position, target in steps:
            if name in best and target in sop.nodes:
                arrival = (best[name][0] + 1, (*best[name][1], position))
                if target not in best or arrival < best[target]:
                    best[target] = arrival
                    changed = True
    nodes = sorted(best, key=best.__getitem__)
    failed = {n for n in nodes if words[n] == "failed"}
    subject = {n: ENTITY if n in failed else world.subjects[n] or ENTITY for n in nodes}
    silent = {n for n in failed if sop.nodes[NodeId(n)].kind is NodeKind.CONSTRAINT}
    led_by: dict[tuple[str, str], list[str]] = {}
    for name in nodes:
        for origin, _, target in steps:
            if origin == name and name not in silent and target in sop.actions:
                led_by.setdefault((target, subject[name]), []).append(name)
    rules = {str(name): action for name, action in sop.actions.items()}
    dropped = {
        (a, s): "cancelled"
        for a, s in led_by
        for b, t in led_by
        if a in rules[b].cancels and t in _containers(world, s)
    }
    left = led_by.keys() - dropped.keys()
    soft = {key for key in left if rules[key[0]].yields}
    if failed:
        dropped |= dict.fromkeys(soft, "escalated")
    elif left - soft:
        dropped |= dict.fromkeys(soft, "yielded")
    elif soft:
        top = max(rules[a].rank for a, _ in soft)
        dropped |= {key: "outranked" for key in soft if rules[key[0]].rank != top}
    standing = led_by.keys() - dropped.keys()
    silent_data = any(words[n] == "no_data" for n in nodes)
    tests = [(failed, "escalate"), (standing, "actions"), (silent_data, "inconclusive")]
    return Reference(
        nodes=nodes,
        layers={n: best[n][0] for n in nodes},
        outcome=next((name for holds, name in tests if holds), "no_fault"),
        standing=set(standing),
        dropped=dropped,
        led_by=led_by,
        causes=[
            (n, subject[n])
            for n in nodes
            if words[n] == "true" and sop.nodes[NodeId(n)].kind is NodeKind.ROOT_CAUSE
        ],
    )


def _containers(world: World, asset: str) -> list[str]:
    """The asset and everything it lies in."""
    up = [asset]
    while up[-1] in world.parents:
        up.append(world.parents[up[-1]])
    return up


@settings(thorough, max_examples=1000)
@given(worlds())
def test_the_traversal_does_what_the_reference_does(world: World) -> None:
    expected = refer(world)
    walked = walk(world)
    conclusion = walked.conclusion
    assert list(walked.walk.results) == expected.nodes
    assert {n: r.layer for n, r in walked.walk.results.items()} == expected.layers
    assert conclusion.outcome.value == expected.outcome
    assert {(a.action, a.subject) for a in conclusion.actions} == expected.standing
    assert {
        (d.action.action, d.action.subject): d.reason.value for d in conclusion.dropped
    } == expected.dropped
    assert {key: list(nodes) for key, nodes in walked.walk.reached.items()} == expected.led_by
    assert list(walked.walk.reached) == list(expected.led_by)
    assert [(c.node, c.subject) for c in conclusion.root_causes] == expected.causes
