"""What differs between two decisions, and what differs whatever an unknown node would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_traversal_properties import (
    ALARM,
    ASSETS,
    ENTITY,
    World,
    thorough,
    walk,
    worlds,
)
from triage.app.difference import (
    EFFECTIVE,
    REACHED,
    ActionChange,
    Difference,
    compare,
    compare_known,
)
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import Decision, Pinned, decision_document, decision_sha256
from triage.sop.procedure import WORDS

AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
ALERT = AlertId("a" * 32)


def decided(world: World) -> dict[str, Any]:
    """The document of the decision that the world leads to, as a store would give it."""
    walked = walk(world)
    conclusion, nodes = walked.conclusion, tuple(walked.walk.results.values())
    decision = Decision(
        alert_id=ALERT,
        alarm=ALARM,
        site="s",
        entity=ENTITY,
        outcome=conclusion.outcome,
        degraded=conclusion.degraded,
        observed=conclusion.observed,
        root_causes=conclusion.root_causes,
        actions=conclusion.actions,
        dropped=conclusion.dropped,
        nodes=nodes,
        edges=walked.walk.edges,
        pinned=Pinned(sop="s", sop_version=1, sop_sha256="", sites_sha256="", library_sha256=""),
        fired_at=AT,
        accepted_at=AT,
        evaluated_at=AT,
        decision_sha256=decision_sha256(
            alert_id=ALERT,
            outcome=conclusion.outcome,
            degraded=conclusion.degraded,
            nodes=nodes,
            edges=walked.walk.edges,
            actions=conclusion.actions,
            dropped=conclusion.dropped,
        ),
    )
    document: dict[str, Any] = orjson.loads(canonical_json(decision_document(decision)))
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A world, one that differs from it a little, and nodes that nothing is known of."""

    before: World
    after: World
    unknown: frozenset[str]

    def completed(self, random: Random) -> World:
        """The world after, with anything in place of what is not known."""
        words, subjects = dict(self.after.words), dict(self.after.subjects)
        for node in sorted(self.unknown):
            words[node] = random.choice(WORDS)
            subjects[node] = random.choice(("", *ASSETS))
        return replace(self.after, words=words, subjects=subjects)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    before = draw(worlds())
    random = Random(draw(st.integers(0, 2**32)))
    nodes = sorted(before.words)
    words, subjects = dict(before.words), dict(before.subjects)
    for node in random.sample(nodes, random.randint(0, min(2, len(nodes)))):
        words[node] = random.choice(WORDS)
    if random.random() < 0.3:
        subjects[random.choice(nodes)] = random.choice(("", *ASSETS))
    sop = before.sop
    if random.random() < 0.5:
        # Another edge, as long as the graph stays without a cycle: a target is taken away.
        changed = dict(sop.nodes)
        node_id = random.choice(list(changed))
        word = random.choice(WORDS)
        targets = changed[node_id].targets
        changed[node_id] = replace(
            changed[node_id], targets={**targets, word: tuple(targets[word])[1:]}
        )
        sop = replace(sop, nodes=changed)
    after = replace(before, sop=sop, words=words, subjects=subjects)
    unknown = frozenset(random.sample(nodes, random.randint(1, min(3, len(nodes)))))
    return Change(before=before, after=after, unknown=unknown)


@thorough
@given(changes())
def test_no_difference_and_the_same_hash_are_one(change: Change) -> None:
    old, new = decided(change.before), decided(change.after)
    assert compare(old, new).same == (old["decision_sha256"] == new["decision_sha256"])
    assert compare(old, old).same


@thorough
@given(changes())
def test_a_difference_is_told_from_both_sides(change: Change) -> None:
    there = compare(decided(change.before), decided(change.after))
    back = compare(decided(change.after), decided(change.before))
    assert {(n.node, n.old is None, n.new is None) for n in there.nodes} == {
        (n.node, n.new is None, n.old is None) for n in back.nodes
    }
    assert {(a.action, a.subject, a.old, a.new) for a in there.actions} == {
        (a.action, a.subject, a.new, a.old) for a in back.actions
    }


@thorough
@given(changes(), st.randoms(use_true_random=False))
def test_what_is_sure_to_differ_does_whatever_the_unknown_say(
    change: Change, random: Random
) -> None:
    old = decided(change.before)
    words = {**change.after.words, **dict.fromkeys(change.unknown, "failed")}
    new = decided(replace(change.after, words=words))
    reached = change.unknown & {node["node"] for node in new["nodes"]}
    sure = compare_known(old, new, change.after.sop, reached)
    assert (sure.outcome, sure.degraded) == (None, None)
    for _ in range(10):
        whole = compare(old, decided(change.completed(random)))
        told = {(n.node, n.old is None, n.new is None) for n in sure.nodes}
        assert told <= {(n.node, n.old is None, n.new is None) for n in whole.nodes}
        acts = {(a.action, a.subject, a.old == "", a.new == "") for a in sure.actions}
        assert acts <= {(a.action, a.subject, a.old == "", a.new == "") for a in whole.actions}
        if not sure.same:
            assert not whole.same


@thorough
@given(changes())
def test_with_nothing_unknown_every_node_is_sure(change: Change) -> None:
    old, new = decided(change.before), decided(change.after)
    assert compare_known(old, new, change.after.sop, ()).nodes == compare(old, new).nodes


# --- by hand ----------------------------------------------------------------------------------


def clause(name: str, *, holds: bool | None, observed: float = 1.0) -> dict[str, Any]:
    return {
        "name": name,
        "observed": observed,
        "op": ">",
        "threshold": 2.0,
        "unit": "",
        "holds": holds,
    }


def document(
    *nodes: dict[str, Any],
    edges: Sequence[tuple[str, str, str]] = (),
    outcome: str = "actions",
    actions: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "degraded": False,
        "nodes": nodes,
        "edges": edges,
        "actions": [{"action": a, "subject": "", "nodes": ["a"]} for a in actions],
        "dropped_actions": [],
    }


def node(name: str, verdict: str, *clauses: dict[str, Any]) -> dict[str, Any]:
    return {"node": name, "verdict": verdict, "clauses": clauses}


def test_the_clauses_that_flipped_are_named() -> None:
    old = document(
        node(
            "a",
            "true",
            clause("same", holds=True),
            clause("each", holds=True, observed=1),
            clause("each", holds=True, observed=2),
            clause("gone", holds=None),
        )
    )
    new = document(
        node(
            "a",
            "false",
            clause("same", holds=True),
            clause("each", holds=True, observed=1),
            clause("each", holds=False, observed=2),
            clause("fresh", holds=True),
        )
    )
    (change,) = compare(old, new).nodes
    flipped = [(c.name, c.old and c.old["holds"], c.new and c.new["holds"]) for c in change.clauses]
    assert flipped == [("each", True, False), ("gone", None, None), ("fresh", None, True)]
    assert [c.new is None for c in change.clauses] == [False, True, False]
    assert [c.old is None for c in change.clauses] == [False, False, True]


def test_another_figure_with_the_same_verdict_is_no_difference() -> None:
    old = document(node("a", "true", clause("depth", holds=True, observed=3)))
    new = document(node("a", "true", clause("depth", holds=True, observed=4)))
    assert compare(old, new) == Difference()


def test_what_became_of_an_action() -> None:
    old = document(actions=["restart", "look", "stay"])
    new = document(actions=["page", "stay"])
    new["dropped_actions"] = [
        {"action": "look", "subject": "", "dropped": "yielded", "by": "page", "nodes": ["a"]}
    ]
    difference = compare(old, new)
    assert difference.actions == (
        ActionChange(action="restart", subject="", old=EFFECTIVE, new=""),
        ActionChange(action="look", subject="", old=EFFECTIVE, new="yielded", by="page"),
        ActionChange(action="page", subject="", old="", new=EFFECTIVE),
    )
    assert REACHED not in {change.new for change in difference.actions}
