"""How the asking is done changes how long it takes, and nothing that is decided."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.evaluation.virtual_time import VirtualLoop, on_virtual_time
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    above,
    action,
    alert,
    asks,
    library,
    memory,
    node,
    procedure,
    tool,
    value,
)
from triage.adapters.memory import MemorySource
from triage.engine.engine import Decided, Prefetch
from triage.errors import ToolFailed, ToolFailure
from triage.library.catalogue import Library, Tool
from triage.model.decision import Decision, NodeKind
from triage.model.query import Answer, Query
from triage.sop.procedure import WORDS, Sop

METRICS = ("m0", "m1", "m2", "m3")
ACTIONS = ("act0", "act1", "yield0", "yield1")


@dataclass(frozen=True)
class Case:
    sop: Sop
    library: Library
    answers: dict[str, Answer]
    delays: dict[str, float]


class Uneven(MemorySource):
    """Each metric takes its own time, so that answers come in any order."""

    def __init__(self, answers: dict[str, Answer], delays: dict[str, float]) -> None:
        source = memory(answers)
        super().__init__(MEMORY, source._answers)  # noqa: SLF001 - the same kind of source
        self._delays = delays

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        name = getattr(query, "sql").removeprefix("select ")  # noqa: B009 - one kind is asked
        loop.call_later(self._delays[name], passed.set_result, None)
        await passed
        return await super().ask(query, timeout_s=timeout_s)


def _tool(name: str, kind: str, asked: list[str]) -> Tool:
    if kind == "raises":
        return tool(name, asks(*asked), lambda *_: 1 / 0)
    if kind == "queries raise":
        return tool(name, lambda *_: 1 / 0)
    if kind == "dynamic":

        async def evaluate(warehouse: str, timestamp: Any, context: Any) -> Any:
            answers = {}
            for metric in asked:
                one = asks(metric)(warehouse, timestamp, context)[0]
                answers[one] = await context.ask(one)

            class Answered:
                answer = staticmethod(answers.__getitem__)

            return above(*asked)(warehouse, timestamp, Answered())  # type: ignore[arg-type]  # enough of one

        return tool(name, evaluate=evaluate, dynamic=True)
    return tool(name, asks(*asked), above(*asked))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 7))
    names = [f"n{n}" for n in range(count)]
    nodes, tools, broken = [], [], {}
    for index, name in enumerate(names):
        later = [*names[index + 1 :], *ACTIONS]
        targets = {
            word: draw(st.lists(st.sampled_from(later), max_size=3, unique=True)) for word in WORDS
        }
        nodes.append(node(name, draw(st.sampled_from(list(NodeKind))), **targets))
        kind = draw(
            st.sampled_from(["plain"] * 6 + ["raises", "queries raise", "dynamic", "missing"])
        )
        asked = draw(st.lists(st.sampled_from(METRICS), min_size=1, max_size=3))
        if kind == "missing":
            broken[name] = ToolFailed(ToolFailure.MISSING, "none")
        else:
            tools.append(_tool(name, kind, asked))
    answer = st.sampled_from(
        [value(20), value(5), (), ToolFailed(ToolFailure.QUERY_REJECTED, "bad")]
    )
    sop = procedure(
        *nodes,
        actions=[
            action(name, rank=rank, yields=name.startswith("yield"))
            for rank, name in enumerate(ACTIONS)
        ],
        entry=draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)),
    )
    return Case(
        sop=sop,
        library=library(*tools, broken=broken),
        answers={metric: draw(answer) for metric in METRICS},
        delays={metric: draw(st.sampled_from([0.0, 0.1, 0.3])) for metric in METRICS},
    )


def decide(case: Case, prefetch: Prefetch, delays: dict[str, float]) -> Decided:
    async def main() -> Decided:
        world = World(
            sop=case.sop,
            library=case.library,
            sources=[Uneven(case.answers, delays)],
            prefetch=prefetch,
        )
        decided = await world.decide()
        assert len(asyncio.all_tasks()) == 1
        return decided

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def said(decision: Decision) -> list[tuple[Any, ...]]:
    """All of a decision that is not a time."""
    return [
        (
            result._replace(elapsed_ms=0.0, evaluate_ms=0.0, asked=()),
            [(asked.query, asked.answer_sha256, asked.failure) for asked in result.asked],
        )
        for result in decision.nodes
    ]


@given(case=cases())
@settings(max_examples=120, deadline=None)
def test_the_same_decision_in_either_mode_and_whatever_comes_first(case: Case) -> None:
    at_once = dict.fromkeys(METRICS, 0.0)
    decided = [
        decide(case, "layer", at_once),
        decide(case, "layer", case.delays),
        decide(case, "subtree", case.delays),
        decide(case, "subtree", at_once),
    ]
    first = decided[0]
    for other in decided[1:]:
        assert other.decision.decision_sha256 == first.decision.decision_sha256
        assert said(other.decision) == said(first.decision)
        assert other.decision.edges == first.decision.edges
        assert other.decision.actions == first.decision.actions
        assert other.decision.dropped == first.decision.dropped
        assert other.evidence == first.evidence
    assert decided[3].decision.round_trips <= decided[0].decision.round_trips


def deep() -> World:
    names = [f"n{n}" for n in range(5)]
    return World(
        sop=procedure(
            *(node(name, true=[after]) for name, after in pairwise(names)),
            node(names[-1]),
        ),
        library=library(*map(tool, names)),
        sources=[Uneven(dict.fromkeys(names, value(20)), dict.fromkeys(names, 0.1))],
    )


@on_virtual_time
async def test_the_subtree_is_one_round_trip_where_layers_are_one_each() -> None:
    loop = asyncio.get_running_loop()
    layer, subtree = deep(), deep()
    subtree.prefetch = "subtree"
    one = await layer.decide()
    took = loop.time()
    other = await subtree.decide()
    assert (one.decision.round_trips, other.decision.round_trips) == (5, 1)
    assert took > 4 * (loop.time() - took)
    assert one.decision.prefetch == "layer"
    assert other.decision.prefetch == "subtree"
    assert one.decision.decision_sha256 == other.decision.decision_sha256


@on_virtual_time
async def test_the_subtree_of_an_alias_is_that_of_its_alarm() -> None:
    world = deep()
    world.prefetch = "subtree"
    world.sop = procedure(node("n0", true=["n1"]), node("n1"), aliases={"other name": "al"})
    decided = await world.decide(alert(alarm="other name"))
    assert [result.node for result in decided.decision.nodes] == ["n0", "n1"]
    assert decided.decision.round_trips == 1
