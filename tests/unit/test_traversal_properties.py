"""What holds of every walk, whatever the SOP and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import assert_never

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.model.decision import (
    ActionId,
    Cost,
    DropReason,
    Edge,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
)
from triage.model.site import Site
from triage.model.verdict import Truth, Verdict
from triage.sop.procedure import WORDS, Action, Node, SiteProfile, Sop
from triage.traversal import (
    Conclude,
    Conclusion,
    EvaluateLayer,
    Walk,
    advance,
    begin,
    conclude,
    reachable,
)

# No test may depend on how fast the machine is.
thorough = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

ALARM = "alarm"
ASSETS = ("hall", "row", "cell", "cup")
ENTITY = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An SOP, what each node would say if asked, and which asset lies in which."""

    sop: Sop
    words: Mapping[str, str]
    subjects: Mapping[str, str]
    parents: Mapping[str, str]

    @property
    def within(self) -> Callable[[str, str], bool]:
        site = Site(name="s", zone="UTC", units={}, facts={})
        return SiteProfile(site=site, params={}, parents=self.parents, known=True).within

    def result(self, node: NodeId, layer: int) -> NodeResult:
        word = self.words[node]
        kind = self.sop.nodes[node].kind
        if word == "failed":
            failure = Failure(reason="source_timeout", detail="no answer")
            return NodeResult(node=node, kind=kind, layer=layer, failure=failure)
        verdict = Verdict(value=Truth(word), subject=self.subjects[node])
        return NodeResult(node=node, kind=kind, layer=layer, verdict=verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    layers: Sequence[tuple[NodeId, ...]]
    walk: Walk
    conclusion: Conclusion


def make_sop(
    nodes: Sequence[tuple[str, NodeKind, Mapping[str, Sequence[str]]]],
    actions: Sequence[Action],
    entry: Sequence[str],
) -> Sop:
    return Sop(
        name="s",
        version=1,
        sha256="",
        file="sop.yaml",
        alarms={ALARM: tuple(map(NodeId, entry))},
        aliases={"other": ALARM},
        params={},
        nodes={
            NodeId(name): Node(
                node=NodeId(name),
                kind=kind,
                text="",
                text_sha256="",
                sources=(),
                targets={word: tuple(targets.get(word, ())) for word in WORDS},
            )
            for name, kind, targets in nodes
        },
        actions={action.action: action for action in actions},
    )


@st.composite
def worlds(draw: st.DrawFn, *, acyclic: bool = True) -> World:
    """Sizes shrink; the rest follows from a seed, because drawing every edge is slow."""
    size, count = draw(st.integers(1, 9)), draw(st.integers(0, 5))
    random = Random(draw(st.integers(0, 2**32)))
    names, action_names = [f"n{i}" for i in range(size)], [f"a{i}" for i in range(count)]
    actions = [
        Action(
            action=ActionId(name),
            text=name,
            rank=random.randrange(4),
            cost=random.choice(list(Cost)),
            yields=random.random() < 0.5,
            cancels=frozenset(
                ActionId(o) for o in action_names if o != name and random.random() < 0.3
            ),
        )
        for name in action_names
    ]
    nodes: list[tuple[str, NodeKind, Mapping[str, Sequence[str]]]] = []
    for index, name in enumerate(names):
        choices = (names[index + 1 :] if acyclic else names) + action_names
        targets = {
            word: random.sample(choices, min(random.randrange(5), len(choices))) for word in WORDS
        }
        nodes.append((name, random.choice(list(NodeKind)), targets))
    random.shuffle(nodes)
    # Mostly without failures, so that every outcome comes up.
    words = random.choice([WORDS, WORDS[:3], WORDS[:1], WORDS[2:]])
    return World(
        sop=make_sop(nodes, actions, random.sample(names, random.randint(1, min(3, size)))),
        words={name: random.choice(words) for name in names},
        subjects={name: random.choice(("", *ASSETS)) for name in names},
        parents={
            asset: random.choice(ASSETS[:index])
            for index, asset in enumerate(ASSETS)
            if index and random.random() < 0.5
        },
    )


def walk(world: World, *, reverse: bool = False) -> Walked:
    """Walk to the end; `reverse` hands every layer's results over in the opposite order."""
    step: EvaluateLayer | Conclude | None = begin(world.sop, ALARM, ENTITY)
    layers: list[tuple[NodeId, ...]] = []
    while True:
        match step:
            case EvaluateLayer(walk=state, nodes=nodes):
                assert nodes == state.frontier
                assert state.layer == len(layers)
                layers.append(nodes)
                assert sum(map(len, layers)) <= len(world.sop.nodes), "a node is asked twice"
                order = nodes[::-1] if reverse else nodes
                step = advance(state, {node: world.result(node, state.layer) for node in order})
            case Conclude(walk=state):
                return Walked(layers=layers, walk=state, conclusion=conclude(state, world.within))
            case None:
                raise AssertionError("the alarm is not routed")
            case _:
                assert_never(step)


def distances(world: World) -> dict[str, int]:
    """Least number of edges from the alarm to every node that the verdicts lead to."""
    distance: dict[str, int] = dict.fromkeys(world.sop.alarms[ALARM], 0)
    for _ in world.sop.nodes:
        for name, node in world.sop.nodes.items():
            for target in node.targets[world.words[name]]:
                if name in distance and NodeId(target) in world.sop.nodes:
                    distance[target] = min(distance.get(target, 99), distance[name] + 1)
    return distance


@thorough
@given(worlds() | worlds(acyclic=False))
def test_every_node_is_asked_once_and_at_its_shortest_arrival(world: World) -> None:
    walked = walk(world)
    asked = [node for layer in walked.layers for node in layer]
    assert len(asked) == len(set(asked))
    assert {n: i for i, layer in enumerate(walked.layers) for n in layer} == distances(world)
    assert list(walked.walk.results) == asked


@thorough
@given(worlds())
def test_edges_are_exactly_what_the_words_lead_to(world: World) -> None:
    walked = walk(world)
    expected = [Edge(origin=ALARM, on="alarm", target=n) for n in world.sop.alarms[ALARM]]
    for name in walked.walk.results:
        node, word = world.sop.nodes[name], world.words[name]
        expected += [
            Edge(origin=name, on=word, target=target)
            for target in node.targets[word]
            if NodeId(target) in world.sop.nodes
            or not (word == "failed" and node.kind is NodeKind.CONSTRAINT)
        ]
    assert list(walked.walk.edges) == expected


@thorough
@given(worlds())
def test_a_failed_node_never_follows_no_data_nor_any_verdict(world: World) -> None:
    for edge in walk(world).walk.edges:
        if edge.on != "alarm":
            assert edge.on == world.words[edge.origin]
            assert edge.target in world.sop.nodes[NodeId(edge.origin)].targets[edge.on]


@thorough
@given(worlds())
def test_a_failed_constraint_reaches_no_action(world: World) -> None:
    walked = walk(world)
    for nodes in walked.walk.reached.values():
        for name in nodes:
            constraint = world.sop.nodes[name].kind is NodeKind.CONSTRAINT
            assert not (constraint and world.words[name] == "failed")


@thorough
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_results_and_mappings_changes_nothing(world: World, random: Random) -> None:
    nodes, actions = list(world.sop.nodes.items()), list(world.sop.actions.items())
    random.shuffle(nodes)
    random.shuffle(actions)
    shuffled = replace(world, sop=replace(world.sop, nodes=dict(nodes), actions=dict(actions)))
    first, second = walk(world), walk(shuffled, reverse=True)
    assert second.layers == first.layers
    assert second.conclusion == first.conclusion
    assert second.walk.edges == first.walk.edges
    assert list(second.walk.reached.items()) == list(first.walk.reached.items())


@thorough
@given(worlds())
def test_every_reached_action_stands_or_is_dropped_exactly_once(world: World) -> None:
    walked = walk(world)
    settled = [(a.action, a.subject) for a in walked.conclusion.actions]
    settled += [(d.action.action, d.action.subject) for d in walked.conclusion.dropped]
    assert sorted(settled) == sorted(walked.walk.reached)
    for action in walked.conclusion.actions:
        assert action.nodes == walked.walk.reached[action.action, action.subject]


@thorough
@given(worlds())
def test_cancelling_is_simultaneous_and_respects_the_asset(world: World) -> None:
    """What cancels counts whether or not it is cancelled itself."""
    walked = walk(world)
    actions = world.sop.actions
    reached = list(walked.walk.reached)
    cancelled = {
        (d.action.action, d.action.subject)
        for d in walked.conclusion.dropped
        if d.reason is DropReason.CANCELLED
    }
    assert cancelled == {
        (name, subject)
        for name, subject in reached
        if any(
            name in actions[other].cancels and world.within(subject, container)
            for other, container in reached
        )
    }


@thorough
@given(worlds())
def test_yielding_actions_give_way(world: World) -> None:
    conclusion = walk(world).conclusion
    actions = world.sop.actions
    yielding = [a for a in conclusion.actions if actions[a.action].yields]
    firm = [a for a in conclusion.actions if not actions[a.action].yields]
    assert not (yielding and firm)
    assert not (yielding and conclusion.degraded)
    assert len({a.rank for a in yielding}) <= 1
    for dropped in conclusion.dropped:
        match dropped.reason:
            case DropReason.CANCELLED:
                assert dropped.action.action in actions[ActionId(dropped.by)].cancels
            case DropReason.YIELDED:
                assert actions[dropped.action.action].yields
                assert dropped.by in {a.action for a in firm}
                assert not conclusion.degraded
            case DropReason.OUTRANKED:
                assert actions[dropped.action.action].yields
                assert dropped.by in {a.action for a in yielding}
                assert dropped.action.rank < yielding[0].rank
            case DropReason.ESCALATED:
                assert actions[dropped.action.action].yields
                assert conclusion.degraded
            case DropReason.RESOLVED:
                raise AssertionError("only a resolve drops an action as resolved")
            case _:
                assert_never(dropped.reason)


@thorough
@given(worlds())
def test_the_first_outcome_that_matches(world: World) -> None:
    walked = walk(world)
    words = {result.word for result in walked.walk.results.values()}
    conclusion = walked.conclusion
    assert conclusion.degraded == ("failed" in words)
    if "failed" in words:
        expected = Outcome.ESCALATE
    elif conclusion.actions:
        expected = Outcome.ACTIONS
    elif "no_data" in words:
        expected = Outcome.INCONCLUSIVE
    else:
        expected = Outcome.NO_FAULT
    assert conclusion.outcome is expected


@thorough
@given(worlds())
def test_observed_and_root_causes_are_the_nodes_that_said_true(world: World) -> None:
    walked = walk(world)
    true = [r for r in walked.walk.results.values() if r.word == "true"]
    kinds = {r.node: world.sop.nodes[r.node].kind for r in true}
    assert list(walked.conclusion.observed) == [
        n for n, kind in kinds.items() if kind is NodeKind.OBSERVATION
    ]
    assert [(c.node, c.subject) for c in walked.conclusion.root_causes] == [
        (n, world.subjects[n] or ENTITY) for n, kind in kinds.items() if kind is NodeKind.ROOT_CAUSE
    ]


@thorough
@given(worlds() | worlds(acyclic=False))
def test_a_walk_stays_within_what_is_reachable(world: World) -> None:
    entry = world.sop.alarms[ALARM]
    order = reachable(world.sop, entry)
    assert len(order) == len(set(order))
    assert order[: len(entry)] == entry
    assert set(walk(world).walk.results) <= set(order)
    edges = {
        (name, NodeId(target))
        for name, node in world.sop.nodes.items()
        for targets in node.targets.values()
        for target in targets
        if NodeId(target) in world.sop.nodes
    }
    assert all(after in order for before, after in edges if before in order)
    assert all(
        name in entry or any((before, name) in edges for before in order[:index])
        for index, name in enumerate(order)
    )
