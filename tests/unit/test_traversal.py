"""Every rule of the traversal in one small example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.unit.test_traversal_properties import ALARM, ENTITY, Walked, World, make_sop, walk
from triage.model.decision import ActionId, Cost, Edge, NodeKind, Outcome
from triage.sop.procedure import Action
from triage.traversal import advance, begin, conclude

OBS, CAUSE, CON = NodeKind.OBSERVATION, NodeKind.ROOT_CAUSE, NodeKind.CONSTRAINT
Spec = tuple[NodeKind, Mapping[str, Sequence[str]]]


def action(name: str, rank: int = 1, *, yields: bool = False, cancels: str = "") -> Action:
    return Action(
        action=ActionId(name),
        text=name,
        rank=rank,
        cost=Cost.LOW,
        yields=yields,
        cancels=frozenset(map(ActionId, cancels.split())),
    )


def world(
    nodes: Mapping[str, Spec],
    *actions: Action,
    words: Mapping[str, str] | None = None,
    subjects: Mapping[str, str] | None = None,
    parents: Mapping[str, str] | None = None,
    entry: Sequence[str] = ("a",),
) -> World:
    """Every node says `true` of the alert's entity unless told otherwise."""
    return World(
        sop=make_sop([(name, *spec) for name, spec in nodes.items()], actions, entry),
        words={name: (words or {}).get(name, "true") for name in nodes},
        subjects={name: (subjects or {}).get(name, "") for name in nodes},
        parents=parents or {},
    )


def standing(walked: Walked) -> list[tuple[str, str]]:
    return [(a.action, a.subject) for a in walked.conclusion.actions]


def dropped(walked: Walked) -> list[tuple[str, str, str]]:
    return [(d.action.action, d.reason.value, d.by) for d in walked.conclusion.dropped]


def test_an_alarm_that_nobody_routes_has_no_layer_and_an_alias_has_its_alarms() -> None:
    sop = world({"a": (OBS, {})}).sop
    assert begin(sop, "unheard of", ENTITY) is None
    step = begin(sop, "other", ENTITY)
    assert step is not None
    assert step.nodes == ("a",)
    assert step.walk.edges == (Edge(origin="other", on="alarm", target="a"),)


def test_a_later_arrival_adds_an_edge_and_no_evaluation() -> None:
    nodes: dict[str, Spec] = {
        "a": (OBS, {"true": ["c", "b"]}),
        "b": (OBS, {"true": ["c", "d"]}),
        "c": (OBS, {"true": ["d"]}),
        "d": (OBS, {}),
    }
    walked = walk(world(nodes))
    assert walked.layers == [("a",), ("c", "b"), ("d",)]
    assert Edge(origin="b", on="true", target="c") in walked.walk.edges
    assert [e.origin for e in walked.walk.edges if e.target == "d"] == ["c", "b"]


def test_a_result_that_is_missing_is_a_mistake_of_the_caller() -> None:
    step = begin(world({"a": (OBS, {})}).sop, ALARM, ENTITY)
    assert step is not None
    with pytest.raises(KeyError):
        advance(step.walk, {})


@pytest.mark.parametrize("word", ["true", "false", "no_data", "failed"])
def test_each_word_follows_its_own_edges_only(word: str) -> None:
    targets = {w: [f"on_{w}"] for w in ("true", "false", "no_data", "failed")}
    nodes: dict[str, Spec] = {"a": (OBS, targets), **{t[0]: (OBS, {}) for t in targets.values()}}
    walked = walk(world(nodes, words={"a": word}))
    assert walked.layers == [("a",), (f"on_{word}",)]


def test_a_failed_node_without_on_failed_leads_nowhere() -> None:
    nodes: dict[str, Spec] = {"a": (OBS, {"no_data": ["b"], "false": ["b"]}), "b": (OBS, {})}
    walked = walk(world(nodes, words={"a": "failed"}))
    assert walked.layers == [("a",)]
    assert walked.conclusion.degraded
    assert walked.conclusion.outcome is Outcome.ESCALATE


def test_a_failed_constraint_reaches_nodes_but_no_action() -> None:
    nodes: dict[str, Spec] = {"a": (CON, {"failed": ["stop", "b"]}), "b": (OBS, {"true": ["call"]})}
    walked = walk(world(nodes, action("stop"), action("call"), words={"a": "failed"}))
    assert standing(walked) == [("call", ENTITY)]
    assert all(edge.target != "stop" for edge in walked.walk.edges)
    assert walked.conclusion.outcome is Outcome.ESCALATE


def test_two_actions_that_cancel_each_other_both_go() -> None:
    walked = walk(
        world(
            {"a": (OBS, {"true": ["x", "y"]})}, action("x", cancels="y"), action("y", cancels="x")
        )
    )
    assert standing(walked) == []
    assert dropped(walked) == [("x", "cancelled", "y"), ("y", "cancelled", "x")]
    assert walked.conclusion.outcome is Outcome.NO_FAULT


def test_a_cancelled_action_still_cancels() -> None:
    actions = (action("x", cancels="y"), action("y", cancels="z"), action("z"))
    walked = walk(world({"a": (OBS, {"true": ["z", "y", "x"]})}, *actions))
    assert standing(walked) == [("x", ENTITY)]


@pytest.mark.parametrize(
    ("link_subject", "stop_subject", "cancels"),
    [
        ("cell", "cell", True),
        ("row", "cell", True),  # what contains the asset
        ("hall", "cell", True),  # at any depth
        ("cell", "row", False),  # not what it contains
        ("other", "cell", False),
    ],
)
def test_cancelling_reaches_the_subject_and_what_lies_in_it(
    link_subject: str, stop_subject: str, cancels: bool
) -> None:
    nodes: dict[str, Spec] = {"a": (OBS, {"true": ["link"]}), "b": (OBS, {"true": ["stop"]})}
    walked = walk(
        world(
            nodes,
            action("link", cancels="stop"),
            action("stop"),
            subjects={"a": link_subject, "b": stop_subject},
            parents={"cell": "row", "row": "hall"},
            entry=("a", "b"),
        )
    )
    assert (("stop", stop_subject) not in standing(walked)) is cancels


def test_one_action_on_two_subjects_is_two_actions() -> None:
    nodes: dict[str, Spec] = {
        "a": (CAUSE, {"true": ["fix"]}),
        "b": (CAUSE, {"true": ["fix"]}),
        "c": (CAUSE, {"true": ["fix"]}),
    }
    walked = walk(
        world(nodes, action("fix"), subjects={"a": "x", "b": "y", "c": "x"}, entry=("a", "b", "c"))
    )
    assert standing(walked) == [("fix", "x"), ("fix", "y")]
    assert walked.conclusion.actions[0].nodes == ("a", "c")
    assert [c.subject for c in walked.conclusion.root_causes] == ["x", "y", "x"]


def test_yielding_actions_give_way_to_any_other_whatever_its_rank() -> None:
    actions = (action("close", 9, yields=True), action("call", 1), action("ticket", 2))
    walked = walk(world({"a": (OBS, {"true": ["close", "call", "ticket"]})}, *actions))
    assert standing(walked) == [("call", ENTITY), ("ticket", ENTITY)]
    assert dropped(walked) == [("close", "yielded", "ticket")]


def test_among_yielding_actions_the_highest_rank_stands() -> None:
    actions = (action("close", 1, yields=True), action("watch", 2, yields=True))
    walked = walk(world({"a": (OBS, {"true": ["close", "watch"]})}, *actions))
    assert standing(walked) == [("watch", ENTITY)]
    assert dropped(walked) == [("close", "outranked", "watch")]


def test_cancelling_comes_before_yielding() -> None:
    """A cancelled action is gone: nothing yields to it."""
    actions = (action("close", yields=True, cancels="call"), action("call"))
    walked = walk(world({"a": (OBS, {"true": ["close", "call"]})}, *actions))
    assert standing(walked) == [("close", ENTITY)]


def test_a_decision_that_escalates_does_not_close_the_alert() -> None:
    nodes: dict[str, Spec] = {"a": (OBS, {"true": ["close"]}), "b": (OBS, {})}
    walked = walk(
        world(nodes, action("close", yields=True), words={"b": "failed"}, entry=("a", "b"))
    )
    assert standing(walked) == []
    assert dropped(walked) == [("close", "escalated", "")]
    assert walked.conclusion.outcome is Outcome.ESCALATE


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ({"a": "failed", "b": "no_data"}, Outcome.ESCALATE),
        ({"a": "true", "b": "failed"}, Outcome.ESCALATE),
        ({"a": "true", "b": "no_data"}, Outcome.ACTIONS),
        ({"a": "false", "b": "no_data"}, Outcome.INCONCLUSIVE),
        ({"a": "false", "b": "true"}, Outcome.NO_FAULT),
    ],
)
def test_outcomes_in_their_order(words: dict[str, str], outcome: Outcome) -> None:
    nodes: dict[str, Spec] = {"a": (OBS, {"true": ["fix"]}), "b": (OBS, {})}
    assert (
        walk(world(nodes, action("fix"), words=words, entry=("a", "b"))).conclusion.outcome
        is outcome
    )


def test_without_a_site_only_the_same_subject_is_cancelled() -> None:
    nodes: dict[str, Spec] = {"a": (OBS, {"true": ["x"]}), "b": (OBS, {"true": ["y"]})}
    state = walk(
        world(
            nodes,
            action("x", cancels="y"),
            action("y"),
            subjects={"a": "row", "b": "cell"},
            parents={"cell": "row"},
            entry=("a", "b"),
        )
    ).walk
    assert [a.action for a in conclude(state).actions] == ["x", "y"]


def test_a_long_chain_is_walked() -> None:
    nodes: dict[str, Spec] = {f"n{i}": (OBS, {"true": [f"n{i + 1}"]}) for i in range(400)}
    nodes["n400"] = (OBS, {})
    assert len(walk(world(nodes, entry=("n0",))).layers) == 401
