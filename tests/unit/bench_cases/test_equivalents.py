"""What is left out of the mutants has to be there, or its reason is about nothing."""

from __future__ import annotations

import pytest

from bench.cases.equivalents import EQUIVALENTS, Equivalent
from bench.cases.mutants import Mutant, every_mutant
from bench.cases.tool_sources import registered
from bench.dock import LIBRARY, SOP
from triage.sop.load import load_sop


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    sop = load_sop(SOP)
    return [
        mutant
        for node, source in registered(LIBRARY, sop.nodes).items()
        if any(one.node in ("", node) for one in EQUIVALENTS)
        for mutant in every_mutant(node, source.text, sop.params)
    ]


def test_every_equivalent_is_a_mutant_of_a_registered_tool(mutants: list[Mutant]) -> None:
    unused = [
        one
        for one in EQUIVALENTS
        if not any(one.covers(each.node, each.operator, each.before) for each in mutants)
    ]
    assert unused == []


def test_few_mutants_are_equivalents(mutants: list[Mutant]) -> None:
    covered = [
        each
        for each in mutants
        if any(one.covers(each.node, each.operator, each.before) for one in EQUIVALENTS)
    ]
    assert 0 < len(covered) < 0.1 * len(mutants)


def test_every_equivalent_says_why() -> None:
    assert all(len(one.why.split()) >= 4 for one in EQUIVALENTS)
    assert len(set(EQUIVALENTS)) == len(EQUIVALENTS)


@pytest.mark.parametrize(
    ("node", "operator", "before", "covered"),
    [
        ("rc_gap_loss", "sentinels kept", "valid(x, sentinels=(-1,))", True),
        ("rc_gap_loss", "invalid kept", "valid(x, sentinels=(-1,))", False),
        ("rc_gap_loss", "sentinels kept", "dropped(x)", False),
        ("rc_cup_worn", "sentinels kept", "valid(x, sentinels=(-1,))", False),
    ],
)
def test_covers(node: str, operator: str, before: str, covered: bool) -> None:
    one = Equivalent("rc_gap_loss", "sentinels kept", "valid(", "it has none of them")
    assert one.covers(node, operator, before) is covered
