from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.library.building import node, sop
from triage.library.catalogue import Library, Tool
from triage.library.check import check_parents
from triage.model.decision import NodeId
from triage.sop.procedure import WORDS, Sop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from triage.errors import Finding


def nothing(*_: object) -> list[object]:
    return []


def library(reads: Mapping[str, Sequence[str]]) -> Library:
    return Library(
        tools={
            NodeId(name): Tool(
                node=NodeId(name),
                version=1,
                sha256="0" * 64,
                reads_parents=tuple(NodeId(parent) for parent in parents),
                queries=nothing,
                evaluate=nothing,
            )
            for name, parents in reads.items()
        },
        broken={},
    )


def problems(procedure: Sop, reads: Mapping[str, Sequence[str]]) -> list[Finding]:
    findings = check_parents(Path("tools_lib"), procedure, library(reads))
    assert not any(finding.warning for finding in findings)
    return findings


DIAMOND = sop(
    node("a", {"true": ["b"], "false": ["c"]}),
    node("b", {"true": ["d"]}),
    node("c", {"failed": ["d"]}),
    node("d"),
)


def test_a_parent_on_every_path_may_be_read() -> None:
    assert problems(DIAMOND, {"d": ["a"], "b": ["a"], "c": ["a"]}) == []


def test_a_parent_on_one_of_two_paths_may_not() -> None:
    (finding,) = problems(DIAMOND, {"d": ["b"]})
    assert finding.where == "d"
    assert "a → c → d" in finding.problem
    assert "'b'" in finding.fix


def test_a_second_alarm_that_enters_below_the_parent() -> None:
    procedure = sop(node("a", {"true": ["b"]}), node("b"), alarms={"one": ["a"], "two": ["b"]})
    (finding,) = problems(procedure, {"b": ["a"]})
    assert finding.problem.endswith(": b")


def test_two_entries_of_one_alarm_are_two_paths() -> None:
    procedure = sop(node("a", {"true": ["b"]}), node("b"), alarms={"one": ["a", "b"]})
    assert len(problems(procedure, {"b": ["a"]})) == 1


def test_a_child_is_no_parent() -> None:
    (finding,) = problems(DIAMOND, {"a": ["d"]})
    assert finding.problem.endswith(": a")


def test_names_that_are_no_nodes() -> None:
    procedure = sop(node("obs_queue", {"true": ["rc_lift"]}), node("rc_lift"))
    (finding,) = problems(procedure, {"rc_lift": ["obs_queu"]})
    assert "'obs_queue'" in finding.fix


def test_a_node_does_not_read_itself() -> None:
    assert len(problems(DIAMOND, {"d": ["d"]})) == 1


def test_a_node_no_alarm_reaches_is_not_judged() -> None:
    procedure = sop(node("a"), node("b"))
    assert problems(procedure, {"b": ["a"]}) == []


def test_a_chain_of_thousands_with_a_read_in_every_node() -> None:
    size = 4_400
    names = [f"n{number}" for number in range(size)]
    procedure = sop(*(node(name, {"true": names[i + 1 : i + 2]}) for i, name in enumerate(names)))
    reads = {name: [names[i // 2], names[i - 1]] for i, name in enumerate(names) if i > 1}
    assert problems(procedure, reads) == []


@st.composite
def dags(draw: st.DrawFn) -> Sop:
    size = draw(st.integers(2, 7))
    names = [f"n{number}" for number in range(size)]
    nodes = []
    for number, name in enumerate(names):
        later = names[number + 1 :]
        targets = {
            word: draw(st.lists(st.sampled_from(later), max_size=2)) if later else []
            for word in WORDS[:2]
        }
        nodes.append(node(name, targets))
    shuffled = draw(st.permutations(nodes))
    alarms = draw(
        st.dictionaries(
            st.sampled_from(["one", "two"]),
            st.lists(st.sampled_from(names), min_size=1, max_size=2),
            min_size=1,
        )
    )
    return sop(*shuffled, alarms=alarms)


def walks(procedure: Sop, at: str, walked: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    walked = (*walked, at)
    yield walked
    for targets in procedure.nodes[NodeId(at)].targets.values():
        for target in targets:
            yield from walks(procedure, target, walked)


@given(dags())
def test_dominance_is_what_enumerating_every_path_finds(procedure: Sop) -> None:
    every = [
        walk
        for entries in procedure.alarms.values()
        for entry in entries
        for walk in walks(procedure, entry)
    ]
    for lower in procedure.nodes:
        to_lower = [walk for walk in every if walk[-1] == lower]
        for upper in procedure.nodes:
            if upper == lower:
                continue
            around = [walk for walk in to_lower if upper not in walk]
            findings = problems(procedure, {lower: [upper]})
            assert bool(findings) == bool(around)
            if findings:
                told = tuple(findings[0].problem.split(": ")[1].split(" → "))
                assert told in around
