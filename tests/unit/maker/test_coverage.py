"""What cases do not cover."""

from __future__ import annotations

import orjson
import pytest

from tests.unit.maker.cases_world import NODE, labelled, shop, shop_sites
from triage.maker.cases_split import split_cases
from triage.maker.coverage import Coverage, coverage
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.model.query import Rows
from triage.model.verdict import Clause, Truth, Verdict
from triage.trial.model import Tried

SOP = shop()
SITES = shop_sites(SOP)
ASKED = ((Rows("tables", "select 1"), ({"n": 1},)),)


def of(
    cases: list[LabelledCase], tried: dict[str, Tried] | None = None, node: NodeId = NODE
) -> Coverage:
    return coverage(node, split_cases(cases), SOP, SITES, tried)


def kinds(found: Coverage) -> list[tuple[str, str, str]]:
    return [(lack.kind, lack.part, lack.what) for lack in found.lacks]


def texts(found: Coverage, kind: str) -> list[str]:
    return [lack.text for lack in found.lacks if lack.kind == kind]


def full() -> list[LabelledCase]:
    """Cases that lack nothing that is looked for without trials."""
    words = ("true", "false", "no_data")
    parents = {
        NodeId("obs_deep"): Verdict(Truth.TRUE),
        NodeId("obs_slow"): Verdict(Truth.TRUE),
    }
    return [
        labelled(
            number,
            words[number % 3],
            site=("north", "N1", "south")[number // 3 % 3],
            parents=parents,
            answers=ASKED,
        )
        for number in range(24)
    ]


def test_nothing_lacks() -> None:
    found = of(full())
    assert found.lacks == ()
    assert found.sites == {"north": 18, "south": 6}
    assert found.answered == 24
    assert found.lines() == [
        "24 cases; training: 4 true, 4 false, 4 no_data; held-out: 4 true, 4 false, 4 no_data",
        "sites: north 18, south 6",
    ]


def test_no_cases_at_all() -> None:
    found = of([])
    assert kinds(found) == [("cases", "", ""), ("site", "", "north"), ("site", "", "south")]
    assert found.lines()[:2] == [
        "0 cases; training: 0 true, 0 false, 0 no_data; held-out: 0 true, 0 false, 0 no_data",
        "not covered: there are 0 cases, fewer than 20",
    ]


def test_verdicts_that_are_missing_or_rare_on_a_side() -> None:
    cases = full()
    for index in (2, 5, 8):
        cases[index] = cases[index]._replace(expected="true")
    for index in (12, 15, 18, 21):
        cases[index] = cases[index]._replace(expected="false")
    assert texts(of(cases), "verdict") == [
        "only 1 of 12 training cases expects no_data",
        "no held-out case expects true",
    ]
    # A verdict that leads nowhere need not be there: obs_deep has no `on_no_data`.
    shallow = [case._replace(node=NodeId("obs_deep"), expected="true") for case in full()]
    found = of(shallow, node=NodeId("obs_deep"))
    assert texts(found, "verdict") == [
        "no training case expects false",
        "no held-out case expects false",
    ]
    assert found.verdicts["train"] == {"true": 12, "false": 0}
    shallow[0] = shallow[0]._replace(expected="no_data")
    rare = of(shallow, node=NodeId("obs_deep"))
    assert texts(rare, "verdict") == texts(found, "verdict")
    assert rare.verdicts["train"] == {"true": 11, "false": 0, "no_data": 1}


def test_rare_grows_with_the_cases() -> None:
    cases = [
        labelled(number, "false" if number in {3, 103, 203} else "true") for number in range(200)
    ]
    assert "no held-out case expects no_data" in texts(of(cases), "verdict")
    many = [labelled(n, "false" if n < 4 else "true") for n in range(200)]
    assert "only 4 of 100 training cases expect false" in texts(of(many), "verdict")


def test_sites_parents_days_and_answers() -> None:
    cases = [labelled(n, hours=n / 2, site="N1", answers=ASKED if n else ()) for n in range(20)]
    cases[3] = cases[3]._replace(parents={NodeId("obs_deep"): Verdict(Truth.TRUE)})
    cases[4] = cases[4]._replace(parents={NodeId("obs_slow"): Verdict(Truth.FALSE)})
    found = of(cases)
    assert texts(found, "site") == ["site south"]
    assert texts(found, "parent") == [
        "no case says that obs_slow said true, which leads here",
    ]
    assert texts(found, "day") == [
        "all cases are of one day, from 2026-06-01T12:31:00+00:00 to 2026-06-01T22:01:00+00:00"
    ]
    assert texts(found, "part") == [
        "there are no held-out cases: at one site they follow each other too closely to be parted"
    ]
    assert texts(found, "answers") == [
        "1 of 20 cases have no recorded answers: the sources are asked for them"
    ]
    assert texts(of([labelled(1)]), "answers")[0].startswith("no case has recorded answers")


def test_a_site_that_the_sites_file_does_not_have_is_counted() -> None:
    assert of([labelled(1, site="mars"), labelled(2, site="")]).sites == {
        "north": 0,
        "south": 0,
        "": 1,
        "mars": 1,
    }


# --- boundaries -------------------------------------------------------------------------------


def tried(*clauses: Clause, ok: bool = True) -> Tried:
    return Tried("true" if ok else "failed", clauses=clauses)


def depth(observed: float, threshold: float = 20, name: str = "depth") -> Clause:
    return Clause(name, observed, ">", threshold, "jobs", observed > threshold)


@pytest.mark.parametrize(
    ("observed", "lacking"),
    [
        ([100.0, 5.5], ["where it holds", "where it does not hold"]),
        ([22.0, 5.5], ["where it does not hold"]),
        ([22.1, 18.0], ["where it holds"]),
        ([22.0, 18.0], []),
        ([20.0, 20.5], []),
        ([21, 19], []),
        ([23, 19], ["where it holds"]),
        ([float("nan"), float("inf")], []),
    ],
)
def test_a_boundary_is_near_within_a_tenth_or_one_of_a_count(
    observed: list[float], lacking: list[str]
) -> None:
    cases = full()
    outcomes = {
        case.case_id: tried(depth(value)) for case, value in zip(cases, observed, strict=False)
    }
    found = of(cases, outcomes)
    assert texts(found, "boundary") == [
        f"no case is near the boundary depth > 20 jobs (param depth) {side}" for side in lacking
    ]
    assert found.boundaries


def test_a_count_has_a_boundary_of_one() -> None:
    cases = full()[:2]
    few = {case.case_id: tried(depth(n, 2, "open")) for case, n in zip(cases, (3, 1), strict=True)}
    assert texts(of(cases, few), "boundary") == []
    few = {case.case_id: tried(depth(n, 2, "open")) for case, n in zip(cases, (4, 1), strict=True)}
    assert len(texts(of(cases, few), "boundary")) == 1


def test_the_param_is_named_where_it_is_the_threshold_everywhere() -> None:
    north, south = labelled(1), labelled(2, site="south", params={"depth": 30})
    both = {north.case_id: tried(depth(90, 20)), south.case_id: tried(depth(99, 30))}
    assert texts(of([north, south], both), "boundary")[0] == (
        "no case is near the boundary depth > its threshold jobs (param depth) where it holds"
    )
    other = {**both, south.case_id: tried(depth(99, 31))}
    assert "(param" not in texts(of([north, south], other), "boundary")[0]


def test_without_trials_boundaries_are_not_spoken_of() -> None:
    cases = full()
    assert not of(cases).boundaries
    failed = {case.case_id: tried(ok=False) for case in cases}
    words = {cases[0].case_id: tried(Clause("state", "open", "==", "shut", "", False))}
    unheld = {cases[0].case_id: tried(Clause("depth", 3, ">", 20, "jobs", None))}
    for outcomes in (failed, words, unheld, {"absent": tried(depth(90))}):
        assert texts(of(cases, outcomes), "boundary") == []


def test_it_is_data_too() -> None:
    found = of([labelled(1)], {labelled(1).case_id: tried(depth(90))})
    document = orjson.loads(orjson.dumps(found.document()))
    assert document["verdicts"]["train"] == {"true": 1, "false": 0, "no_data": 0}
    assert {lack["kind"] for lack in document["lacks"]} == {
        *("cases", "part", "verdict", "site", "parent", "boundary", "answers")
    }
    assert all(set(lack) == {"kind", "what", "text", "part"} for lack in document["lacks"])
