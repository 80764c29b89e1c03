"""The graph of an SOP: cycles, what nothing reaches, and costly actions without a constraint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.sop.sample import SOUND, changed, errors_of
from triage.sop.graph import cycles
from triage.sop.load import check_sop

Graph = dict[str, list[str]]


def sop(
    nodes: Mapping[str, str], actions: Mapping[str, str] | None = None, entry: str = "a"
) -> str:
    """An SOP of nodes and actions written as flow mappings."""
    lines = ["sop: s", "version: 1", f"alarms: {{al: [{entry}]}}", "nodes:"]
    lines += [f"  {name}: {{text: t, sources: [m], {content}}}" for name, content in nodes.items()]
    lines += ["actions:"] if actions else []
    lines += [f"  {name}: {{text: t, rank: 1, {c}}}" for name, c in (actions or {}).items()]
    return "\n".join(lines) + "\n"


OBS, CON = "kind: observation", "kind: constraint"
STOP = {"stop": "cost: high"}


@pytest.mark.parametrize(
    ("nodes", "line", "path"),
    [
        ({"a": f"{OBS}, on_true: a"}, 5, "a → a"),
        ({"a": f"{OBS}, on_true: b", "b": f"{OBS}, on_failed: a"}, 5, "a → b → a"),
        (
            {
                "a": f"{OBS}, on_true: [b]",
                "b": f"{OBS}, on_true: [c, d]",
                "c": f"{OBS}, on_false: [d]",
                "d": f"{OBS}, on_no_data: [b]",
            },
            6,
            "b → d → b",
        ),
    ],
)
def test_a_cycle_is_printed(nodes: dict[str, str], line: int, path: str) -> None:
    (finding,) = errors_of(sop(nodes))
    assert finding.line == line
    assert finding.where == path[0]
    assert finding.problem.endswith(f": {path}")
    assert finding.fix


def test_every_knot_is_reported_once() -> None:
    nodes = {
        "a": f"{OBS}, on_true: [b, c]",
        "b": f"{OBS}, on_true: b, on_false: c",
        "c": f"{OBS}, on_true: d",
        "d": f"{OBS}, on_true: c, on_false: e",
        "e": f"{OBS}, on_true: [d, c]",
    }
    assert [f.where for f in errors_of(sop(nodes))] == ["b", "c"]


def test_a_long_cycle_is_shortened() -> None:
    nodes = {f"n{i}": f"{OBS}, on_true: n{(i + 1) % 5000}" for i in range(5000)}
    (finding,) = errors_of(sop(nodes, entry="n0"))
    assert finding.problem.endswith("→ n4999 → n0")
    assert "more …" in finding.problem
    assert len(finding.problem) < 300


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 8).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size
        )
    )
)
def test_cycles_finds_exactly_the_knots(adjacency: list[list[int]]) -> None:
    graph: Graph = {str(i): [str(j) for j in targets] for i, targets in enumerate(adjacency)}
    found = list(cycles(graph))
    for path in found:
        assert path[0] == path[-1]
        assert len(path) > 1
        assert all(after in graph[before] for before, after in pairwise(path))
        assert len(set(path)) == len(path) - 1
    closure = {name: _after(graph, graph[name]) for name in graph}
    knots = {
        frozenset(other for other in graph if other in closure[name] and name in closure[other])
        for name in graph
        if name in closure[name]
    }
    assert len(found) == len(knots)
    for path in found:
        assert sum(set(path) <= knot for knot in knots) == 1


def _after(graph: Graph, start: Iterable[str]) -> set[str]:
    seen = set(start)
    while True:
        more = {target for name in seen for target in graph[name]} - seen
        if not more:
            return seen
        seen |= more


def test_unreachable_nodes_are_faults_and_unreachable_actions_warnings() -> None:
    text = sop(
        {"a": OBS, "b": f"{OBS}, on_true: [c, act]", "c": OBS},
        {"act": "cost: low", "x": "cost: low"},
    )
    result, findings = check_sop(text.encode(), "sop.yaml")
    assert result is None
    assert [(f.line, f.where, f.warning) for f in findings] == [
        (6, "b", False),
        (7, "c", False),
        (9, "act", True),
        (10, "x", True),
    ]
    assert findings[0].problem == "no alarm leads to this node"


def test_nothing_is_called_unreachable_while_an_entry_is_faulty() -> None:
    nodes = {"a": "kind: observaton, on_true: b", "b": OBS}
    assert [f.where for f in errors_of(sop(nodes))] == ["a"]


@pytest.mark.parametrize(
    ("nodes", "line", "path"),
    [
        ({"a": f"{OBS}, on_true: stop"}, 5, "alarm al → a —true→ stop"),
        ({"a": f"{OBS}, on_failed: stop"}, 5, "alarm al → a —failed→ stop"),
        (
            {"a": f"{OBS}, on_true: b", "b": "kind: root_cause, on_no_data: stop"},
            6,
            "alarm al → a —true→ b —no_data→ stop",
        ),
        (  # guarded on one path, not on the other
            {
                "a": f"{OBS}, on_true: con, on_false: b",
                "con": f"{CON}, on_true: b",
                "b": f"{OBS}, on_true: stop",
            },
            7,
            "alarm al → a —false→ b —true→ stop",
        ),
        (  # a constraint that failed has guarded nothing
            {"a": f"{CON}, on_failed: b", "b": f"{OBS}, on_true: stop"},
            6,
            "alarm al → a —failed→ b —true→ stop",
        ),
        (  # an excuse speaks for its own node's edges only
            {
                "a": f"{OBS}, on_true: b, on_false: stop, unguarded_because: it is safe",
                "b": f"{OBS}, on_true: stop",
            },
            6,
            "alarm al → a —true→ b —true→ stop",
        ),
    ],
)
def test_an_unguarded_costly_action_names_its_path(
    nodes: dict[str, str], line: int, path: str
) -> None:
    (finding,) = errors_of(sop(nodes, STOP))
    assert finding.line == line
    assert finding.problem.endswith(path)
    assert "`stop` is reached without a constraint" in finding.problem
    assert "unguarded_because" in finding.fix


@pytest.mark.parametrize(
    "nodes",
    [
        {"a": f"{CON}, on_true: stop, on_no_data: stop"},
        {"a": f"{OBS}, on_true: con", "con": f"{CON}, on_false: b", "b": f"{OBS}, on_true: stop"},
        {"a": f"{OBS}, on_true: stop, unguarded_because: The pump is stopped already."},
    ],
)
def test_a_guarded_or_excused_costly_action_is_fine(nodes: dict[str, str]) -> None:
    result, findings = check_sop(sop(nodes, STOP).encode(), "sop.yaml")
    assert result is not None
    assert findings == []


def test_the_path_of_an_unguarded_action_is_shortened_at_its_far_end() -> None:
    nodes = {f"n{i}": f"{OBS}, on_true: n{i + 1}" for i in range(100)}
    nodes["n100"] = f"{OBS}, on_true: stop"
    (finding,) = errors_of(sop(nodes, STOP, entry="n0"))
    assert "alarm al → … 88 more … → n88 —true→ n89" in finding.problem
    assert finding.problem.endswith("n99 —true→ n100 —true→ stop")


@pytest.mark.parametrize(
    "excused",
    [
        {"a": f"{OBS}, unguarded_because: x"},
        {"a": f"{CON}, on_true: stop, unguarded_because: x"},
        {
            "a": f"{CON}, on_true: b",
            "b": f"{OBS}, on_true: stop, unguarded_because: x",
        },
    ],
)
def test_a_needless_excuse_is_a_warning(excused: dict[str, str]) -> None:
    result, findings = check_sop(sop(excused, STOP).encode(), "sop.yaml")
    assert result is not None
    assert any("excuses nothing" in f.problem and f.warning for f in findings)


def test_the_sample_breaks_when_its_constraint_is_bypassed() -> None:
    assert errors_of(changed("on_true: [ticket]", "on_true: [ticket, stop_pump]"))
    assert check_sop(SOUND.encode(), "sop.yaml")[1] == []


def test_a_chain_of_4400_nodes_is_read_and_checked() -> None:
    """Deeper than any recursion limit, and beyond what a quadratic search would finish."""
    nodes = {
        f"n{i}": f"{OBS}, on_true: [n{i + 1}], on_false: [close], on_no_data: [feed]"
        for i in range(4399)
    }
    nodes["n4399"] = f"{CON}, on_true: [stop]"
    actions = {"close": "cost: low", "feed": "cost: low", "stop": "cost: high"}
    result, findings = check_sop(sop(nodes, actions, entry="n0").encode(), "sop.yaml")
    assert findings == []
    assert result is not None
    assert len(result.nodes) == 4400


def test_thousands_of_faults_are_all_reported() -> None:
    nodes = {f"n{i}": f"{OBS}, on_true: [m{i}]" for i in range(4400)}
    found = errors_of(sop(nodes, entry="n0"))
    dangling = [f for f in found if "which is no node" in f.problem]
    assert len(dangling) == 4400
    assert [f.line for f in found] == sorted(f.line for f in found)
