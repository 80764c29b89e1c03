"""Mutants: which there are, what they say, and which are left out."""

from __future__ import annotations

import ast

import pytest

from bench.cases.equivalents import Equivalent
from bench.cases.mutants import every_mutant, mutants_of
from bench.cases.mutation import Subject, plain_text
from bench.cases.tool_sources import ToolSource, compiled
from tests.unit.bench_cases.sample import MUTANTS, NODE, PARAMS, TOOL
from triage.model.decision import NodeId, NodeKind
from triage.sop.procedure import WORDS, Node, Param, Sop


def _operators(body: str, params: dict[str, Param] | None = None) -> set[tuple[str, str, str]]:
    """Operator, code before and after, of a tool with this body."""
    source = f"def evaluate(warehouse, timestamp, context):\n    {body}\n"
    found = every_mutant(NODE, source, params or {})
    return {(one.operator, one.before, one.after) for one in found}


def test_every_mutant_of_a_small_tool() -> None:
    found = every_mutant(NODE, TOOL, PARAMS)
    assert [(one.line, one.kind, one.operator) for one in found] == MUTANTS


def test_a_mutant_is_the_tool_with_one_thing_changed() -> None:
    found = every_mutant(NODE, TOOL, PARAMS)
    same = plain_text(Subject(ast.parse(TOOL), PARAMS)).splitlines()
    for mutant in found:
        added = [line for line in mutant.text.splitlines() if line not in same]
        assert 1 <= len(added) <= 2, str(mutant)  # a second when it needs an import
    strict = next(one for one in found if one.operator == "strictness" and one.line == 22)
    assert "compare('pressure', low, '<=', float(context.params['air_bar']), 'bar')" in strict.text


def test_the_tool_itself_stays_as_it_is() -> None:
    subject = Subject(ast.parse(TOOL), PARAMS)
    before = ast.dump(subject.tree)
    every_mutant(NODE, TOOL, PARAMS)
    assert ast.dump(subject.tree) == before


def test_every_mutant_compiles_as_a_tool_does() -> None:
    text_sha256 = "0" * 64
    node = Node(
        node=NodeId(NODE),
        kind=NodeKind.ROOT_CAUSE,
        text="Is it low?",
        text_sha256=text_sha256,
        sources=("metrics",),
        targets=dict.fromkeys(WORDS, ()),
    )
    sop = Sop(
        name="dock",
        version=1,
        sha256="",
        file="sop.yaml",
        alarms={"al": (node.node,)},
        aliases={},
        params=PARAMS,
        nodes={node.node: node},
        actions={},
    )
    for mutant in every_mutant(NODE, TOOL, PARAMS):
        library = compiled({node.node: ToolSource(text=mutant.text)}, sop)
        assert not library.broken, f"{mutant}: {library.findings}"


def test_a_share_has_every_kind_and_is_the_same_twice() -> None:
    first = mutants_of(NODE, TOOL, PARAMS, most=7).mutants
    assert first == mutants_of(NODE, TOOL, PARAMS, most=7).mutants
    assert len(first) == 7
    assert {one.kind for one in first} == {kind for _, kind, _ in MUTANTS}


def test_equivalents_are_left_out_with_their_reason() -> None:
    equivalent = Equivalent(NODE, "sentinels kept", "valid(", "the header serves no sentinel")
    found = mutants_of(NODE, TOOL, PARAMS, most=100, equivalents=(equivalent,))
    assert [(mutant.operator, why) for mutant, why in found.left_out] == [
        ("sentinels kept", "the header serves no sentinel")
    ]
    assert len(found.mutants) == len(MUTANTS) - 1


def test_an_equivalent_of_another_node_leaves_nothing_out() -> None:
    other = Equivalent("rc_gap_loss", "sentinels kept", "", "another series")
    assert not mutants_of(NODE, TOOL, PARAMS, equivalents=(other,)).left_out


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("strictness", "a >= b", "a > b"),
        ("max for min", "min(a)", "max(a)"),
        ("median for quantile", "quantile(a, 0.1)", "quantile(a, 0.5)"),
        ("any_of flipped", "conclude(c, 'x')", "conclude(c, 'x', any_of=True)"),
        ("carry removed", "held(s, a, b, carry_s=c)", "held(s, a, b, carry_s=0)"),
        ("wrap taken for a restart", "increase(s, modulus=m, max_step=n)", "increase(s)"),
        ("share for percent", "100 * a", "a"),
        ("nothing subtracted", "fails[c] - full[c]", "fails[c]"),
        ("width ignored", "asset_id(t, words=w, width=n)", "asset_id(t, words=w, width={})"),
    ],
)
def test_operators(operator: str, before: str, after: str) -> None:
    assert (operator, before, after) in _operators(f"return {before}")


@pytest.mark.parametrize(
    ("body", "mutant"),
    [
        ("return [c for c in a if c in scope]", ("scope ignored", "c in scope", "True")),
        ("return len({c for c in a})", ("duplicates kept", "{c for c in a}", "[c for c in a]")),
        ("return f'PE-{place + 1}'", ("another asset", "place + 1", "place - 1")),
        ("return row['a'] - row['b']", ("'b' read for 'a'", "'a'", "'b'")),
    ],
)
def test_operators_that_look_around(body: str, mutant: tuple[str, str, str]) -> None:
    assert mutant in _operators(body)


@pytest.mark.parametrize(
    "body",
    [
        "return f'{100 * share:.0f} % were full, at least {min(a)}'",  # said to people
        "return {c for c in a}",  # looked up in, not counted
        "return compare('due', 0, '>=', 1)",  # stated, not measured
        "return status in ('open', 'assigned')",  # no order
    ],
)
def test_what_nobody_could_tell_is_no_mutant(body: str) -> None:
    assert _operators(body) == set()


@pytest.mark.parametrize(
    ("sql", "operator", "after"),
    [
        ("SELECT DISTINCT a FROM t", "duplicates kept", "SELECT a FROM t"),
        ("SELECT max(a) FROM t", "MIN for MAX in SQL", "SELECT MIN(a) FROM t"),
        ("SELECT coalesce(a, 0) FROM t", "null not replaced in SQL", "SELECT a FROM t"),
    ],
)
def test_sql(sql: str, operator: str, after: str) -> None:
    assert (operator, repr(sql), repr(after)) in _operators(f"return rows('w', {sql!r})")


def test_conditions_of_sql_are_shown_alone() -> None:
    sql = "SELECT a FROM t WHERE b = :b AND c > :c AND d IS NULL ORDER BY a"
    source = f"def evaluate(warehouse, timestamp, context):\n    return rows('w', {sql!r})\n"
    found = {
        (one.operator, one.before): ast.parse(one.text) for one in every_mutant(NODE, source, {})
    }
    changed = {
        key: next(
            one.value
            for one in ast.walk(tree)
            if isinstance(one, ast.Constant) and str(one.value).startswith("SELECT")
        )
        for key, tree in found.items()
    }
    start, end = "SELECT a FROM t WHERE b = :b AND", "ORDER BY a"
    dropped = "condition dropped in SQL"
    assert changed == {
        ("strictness in SQL", "c > :c"): f"{start} c >= :c AND d IS NULL {end}",
        (dropped, "c > :c"): f"{start} (c > :c OR 1 = 1) AND d IS NULL {end}",
        (dropped, "d IS NULL"): f"{start} c > :c AND (d IS NULL OR 1 = 1) {end}",
    }


def test_weeks_by_the_clock_of_utc() -> None:
    found = _operators("return same_time_weeks_before(context, t, 4)")
    asked = "same_time_weeks_before(context, t, 4)"
    assert ("a week fewer", asked, "same_time_weeks_before(context, t, 4 - 1)") in found
    assert "UTC for wall clock" in {operator for operator, _, _ in found}
