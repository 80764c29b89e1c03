"""Drafts of every tool: whole with all that there is to know, and read back from their own code."""

from __future__ import annotations

import ast
from functools import cache
from random import Random

import pytest

from bench.cases.mutation import Subject, changed_text
from bench.cases.tool_sources import registered
from bench.dock import LIBRARY, SOP
from bench.make.author import all_names
from bench.make.bugs import Bug, FoundBug, apart, bugs_of, drawn, revealed_by
from bench.make.casework import seen_through_quirks
from bench.make.draft import Known, State
from bench.make.evidence import Evidence
from bench.make.holes import Hole, guess, holes_of, is_seen
from bench.make.reading import Shown
from triage.library.policy import check_source
from triage.model.decision import NodeId
from triage.sop.load import load_sop
from triage.sop.procedure import Param, Sop

NODES = sorted(path.parent.name for path in LIBRARY.glob("*/tool.toml"))
SOME = NODES[::7]
"""For what takes a second a node."""
DRAWN = 2


@cache
def sop() -> Sop:
    return load_sop(SOP)


@cache
def sources() -> dict[str, str]:
    return {node: tool.text for node, tool in registered(LIBRARY, sop().nodes).items()}


@cache
def taken() -> frozenset[str]:
    return all_names(sources().values())


@cache
def some_bugs(node: str) -> tuple[Bug, ...]:
    subject = Subject(ast.parse(sources()[node]), sop().params)
    chosen: list[FoundBug] = []
    for found in drawn(node, 1, list(bugs_of(subject))):
        if len(chosen) == 2:
            break
        fits = all(apart(subject, found.change, one.change) for one in chosen)
        if fits and seen_through_quirks(sources()[node], sop().params, found.bug):
            chosen.append(found)
    return tuple(found.bug for found in chosen)


@cache
def known(node: str, bugs: tuple[Bug, ...] = ()) -> Known:
    return Known(sources()[node], sop().params, bugs=bugs, taken=taken())


@pytest.mark.parametrize("node", NODES)
def test_who_knows_everything_writes_the_tool(node: str) -> None:
    whole = known(node).text(State())
    assert ast.dump(ast.parse(whole)) == ast.dump(ast.parse(sources()[node]))


@pytest.mark.parametrize("node", SOME)
def test_every_piece_of_knowledge_shows_in_the_code(node: str) -> None:
    one = known(node)
    whole = one.text(State())
    assert len(one.holes) >= 2
    for hole in one.holes:
        assert one.text(State(holes=frozenset({hole}))) != whole, hole
    for quirk in one.quirks:
        assert one.text(State(quirks=frozenset({quirk.name}))) != whole, quirk.name


@pytest.mark.parametrize("node", NODES)
def test_a_draft_is_read_back_from_its_own_code(node: str) -> None:
    """Whatever is missing, alone and together; bugs that hide a quirk are not chosen."""
    one = known(node)
    rng = Random(node)
    holes, quirks = list(one.holes), [quirk.name for quirk in one.quirks]
    states = [State(holes=frozenset(holes), quirks=frozenset(quirks)), State()]
    states += [
        State(
            holes=frozenset(rng.sample(holes, rng.randint(0, len(holes)))),
            quirks=frozenset(rng.sample(quirks, rng.randint(0, len(quirks)))),
        )
        for _ in range(DRAWN)
    ]
    for state in states:
        assert one.state_of(one.text(state)) == state


@pytest.mark.parametrize("node", SOME)
def test_bugs_are_read_back_too(node: str) -> None:
    bugs = some_bugs(node)
    assert bugs
    one = known(node, bugs)
    holes = frozenset(one.holes)
    for some in ((), bugs[:1], bugs[1:], bugs):
        state = State(holes=holes, bugs=frozenset(some))
        assert one.state_of(one.text(state)) == state


@pytest.mark.parametrize("node", SOME)
def test_every_draft_keeps_to_the_policy(node: str) -> None:
    bugs = some_bugs(node)
    one = known(node, bugs)
    worst = State(
        holes=frozenset(one.holes),
        quirks=frozenset(quirk.name for quirk in one.quirks),
        bugs=frozenset(bugs),
    )
    for state in (worst, State(bugs=frozenset(bugs)), State()):
        checked = check_source(
            one.text(state).encode(), file=f"{node}.py", node=node, dynamic=False
        )
        assert [str(one) for one in checked.findings if not one.warning] == []


@pytest.mark.parametrize("node", NODES)
def test_with_nothing_seen_everything_is_missing(node: str) -> None:
    one = known(node)
    first = one.first(Evidence([]))
    assert first.holes == frozenset(one.holes)
    assert first.quirks == {quirk.name for quirk in one.quirks}


@pytest.mark.parametrize("node", NODES)
def test_no_guess_is_a_name_that_exists(node: str) -> None:
    for hole in known(node).holes:
        assert guess(hole, taken()) not in taken()
        assert guess(hole, taken()) == guess(hole, taken())


def test_the_code_of_a_trace_tells_names_but_no_quirks() -> None:
    node = "rc_air_pressure_low"
    one = known(node)
    first = one.first(Evidence([Shown(text=sources()[node])]))
    assert first.holes == frozenset()
    assert first.quirks == {quirk.name for quirk in one.quirks}


def test_code_of_somebody_else_is_none_of_these_drafts() -> None:
    one = known("rc_cup_worn")
    assert one.state_of("") is None
    assert one.state_of("def evaluate(") is None
    assert one.state_of("x = 1\n") is None
    assert one.state_of(known("rc_door_fault").text(State())) is None


@pytest.mark.parametrize(
    ("hole", "text", "seen"),
    [
        (Hole("metric", "dock_cell_leak"), 'dock_cell_leak{site="FC1"}', True),
        (Hole("metric", "dock_cell_leak"), "dock_cell_leak_total", False),
        (Hole("family", "dock_cell_*_total"), "dock_cell_picks_total", True),
        (Hole("family", "dock_cell_*_total"), "dock_cell_total", False),
        (Hole("word", "picks"), "dock_cell_picks_total", True),
        (Hole("word", "picks"), "toothpicks", False),
        (Hole("value", "inprogress"), '"In Progress"', True),
        (Hole("value", "inprogress"), '"In"', False),
        (Hole("field", "at_utc"), "that_utc", False),
        (Hole("field", "at_utc"), "max(at_utc)", True),
    ],
)
def test_a_name_is_seen_when_it_stands_there(hole: Hole, text: str, seen: bool) -> None:
    assert is_seen(hole, text) is seen


def test_what_are_names_of_the_data() -> None:
    found = {str(hole.kind): set[str]() for hole in holes_of(ast.parse(sources()["con_tech_free"]))}
    for hole in holes_of(ast.parse(sources()["con_tech_free"])):
        found[hole.kind].add(hole.name)
    assert {"feed_heartbeat", "roster", "ticket", "person_id", "on_local"} <= found["field"]
    assert {"technician", "P1", "P2", "open", "assigned", "inprogress"} <= found["value"]
    assert not {"latest", "site_facts", "id_words", "LS-1"} & set().union(*found.values())
    doors = {hole.name for hole in holes_of(ast.parse(sources()["rc_door_fault"]))}
    assert {"doors", "asset", "at", "as_of", "docked", "devices", "ready", "since"} <= doors
    assert not {"layout", "chutes_per_lane", "id_width", "door_fault_s"} & doors


def test_a_bug_is_of_an_operator_that_something_shows() -> None:
    for node in SOME:
        subject = Subject(ast.parse(sources()[node]), sop().params)
        for found in bugs_of(subject):
            assert revealed_by(found.bug.operator) is not None
            assert changed_text(subject, found.change)
            assert Bug.read(str(found.bug)) == found.bug


def test_params_are_not_those_of_another_procedure() -> None:
    params = {"air_bar": Param(value=5.3, unit="bar")}
    one = Known(sources()[NodeId("rc_air_pressure_low")], params)
    assert one.text(State())
