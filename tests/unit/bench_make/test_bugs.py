"""What shows a bug: for every operator a failing case that does, and one that does not."""

from __future__ import annotations

import ast

import pytest

from bench.cases.mutation import Subject
from bench.dock import LIBRARY
from bench.make.bugs import (
    REVEALED_BY,
    Bug,
    apart,
    bugs_of,
    drawn,
    is_revealed,
    revealed_by,
    with_bugs,
)
from bench.make.reading import SaidClause, Shown
from triage.sop.procedure import Param

HELD = SaidClause("a", 9.0, ">=", 8.0, "percent", True)
MISSED = SaidClause("b", 0.3, ">=", 8.0, "percent", False)
MET = SaidClause("c", 8.0, ">", 8.0, "", False)
NOTHING = SaidClause("nothing", 0.0, ">", 0.0, "", False)
PARAMS = {"pick_window_s": Param(value=1200, unit="s"), "pick_fail_pct": Param(value=8, unit="%")}


def case(
    expected: str,
    predicted: str,
    *clauses: SaidClause,
    entity: str = "RC-01",
    subjects: tuple[str, str] = ("RC-01", "RC-01"),
) -> Shown:
    return Shown(
        text="",
        lines={
            "entity": entity,
            "expected": expected,
            "expected subject": subjects[0],
            "predicted": predicted,
            "predicted subject": subjects[1],
        },
        clauses=clauses,
    )


RIGHT = case("true", "true", HELD)
OTHER_SUBJECT = case("true", "true", HELD, subjects=("RC-02", "RC-01"))
FAILED = case("no_data", "failed: raised: line 3: ZeroDivisionError", subjects=("", ""))

SHOWN = [
    ("strictness", case("true", "false", MET), True),
    ("strictness", case("true", "false", MISSED), False),
    ("share for percent", case("true", "false", MISSED), True),
    ("share for percent", case("true", "false", HELD), False),
    ("false for no_data", case("no_data", "false", NOTHING), True),
    ("false for no_data", case("no_data", "false"), True),
    ("false for no_data", case("no_data", "false", MISSED), False),
    ("false for no_data", case("no_data", "true", HELD), False),
    ("check dropped", case("no_data", "true", HELD), True),
    ("check dropped", FAILED, True),
    ("check dropped", case("true", "no_data"), False),
    ("condition dropped", FAILED, True),
    ("minimum dropped", FAILED, False),
    ("minimum dropped", case("no_data", "true", HELD), True),
    ("clause dropped", case("false", "true", HELD), True),
    ("clause dropped", case("false", "true", HELD, MISSED), False),
    ("clause dropped", case("false", "true"), False),
    ("any_of flipped", case("false", "true", HELD, MISSED), True),
    ("any_of flipped", case("false", "true", HELD, HELD), False),
    ("scope ignored", OTHER_SUBJECT, True),
    ("scope ignored", case("true", "false", MISSED), True),
    ("scope ignored", case("true", "false", MISSED, entity=""), False),
    ("mean for median", case("true", "false", MISSED), True),
    ("mean for median", OTHER_SUBJECT, True),
    ("mean for median", FAILED, False),
    ("another series", FAILED, True),
    ("pick_window_s half as long", case("true", "no_data"), True),
    ("pick_window_s half as long", FAILED, False),
]


@pytest.mark.parametrize(("operator", "failing", "expected"), SHOWN)
def test_what_shows_a_bug(operator: str, failing: Shown, expected: bool) -> None:
    assert is_revealed(Bug(operator, 0), [failing]) is expected


@pytest.mark.parametrize("operator", sorted(REVEALED_BY))
def test_a_case_that_passes_shows_no_bug(operator: str) -> None:
    named = operator if revealed_by(operator) else f"x_s {operator}"
    assert not is_revealed(Bug(named, 0), [])
    assert not is_revealed(Bug(named, 0), [RIGHT])


def test_one_of_several_cases_is_enough() -> None:
    assert is_revealed(Bug("any_of flipped", 0), [RIGHT, case("false", "true", HELD, MISSED)])


@pytest.mark.parametrize(
    "operator",
    [
        "sentinels kept",
        "wrap taken for a restart",
        "conversion dropped",
        "pick_fail_pct a tenth more",
    ],
)
def test_what_is_a_quirk_or_shows_nowhere_is_no_bug(operator: str) -> None:
    assert revealed_by(operator) is None
    assert not is_revealed(Bug(operator, 0), [case("true", "false", MISSED)])


def test_bugs_are_numbered_by_operator() -> None:
    source = (LIBRARY / "obs_pick_fail_single_cell" / "v1.py").read_text()
    subject = Subject(ast.parse(source), PARAMS)
    found = list(bugs_of(subject))
    assert len({one.bug for one in found}) == len(found)
    again = list(bugs_of(Subject(ast.parse(source), PARAMS)))
    assert [one.bug for one in again] == [one.bug for one in found]
    assert {"any_of flipped", "pick_window_s half as long"} <= {one.bug.operator for one in found}


def test_two_bugs_are_made_at_once() -> None:
    source = (LIBRARY / "obs_pick_fail_single_cell" / "v1.py").read_text()
    bugs = [Bug("any_of flipped", 0), Bug("pick_window_s half as long", 0)]
    text = with_bugs(source, bugs, PARAMS)
    assert "any_of=True" in text
    assert "['pick_window_s'] * 0.5" in text
    assert "any_of" not in source
    with pytest.raises(KeyError):
        with_bugs(source, [Bug("any_of flipped", 7)], PARAMS)


def test_bugs_of_one_statement_are_not_apart() -> None:
    source = (LIBRARY / "obs_pick_fail_single_cell" / "v1.py").read_text()
    subject = Subject(ast.parse(source), PARAMS)
    found = {one.bug: one.change for one in bugs_of(subject)}
    evaluated = found[Bug("any_of flipped", 0)]
    assert not apart(subject, evaluated, evaluated)
    assert apart(subject, evaluated, found[Bug("pick_window_s half as long", 0)])


def test_the_draw_hangs_on_node_and_seed() -> None:
    source = (LIBRARY / "rc_cup_worn" / "v1.py").read_text()
    found = list(bugs_of(Subject(ast.parse(source), PARAMS)))
    assert drawn("a", 1, found) == drawn("a", 1, found[::-1])
    assert drawn("a", 1, found) != drawn("a", 2, found)
    assert drawn("a", 1, found) != drawn("b", 1, found)
