"""The dock's cases as the maker takes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from bench.annotator.cases import Case
from bench.annotator.judged import Value
from bench.dock import LIBRARY, SOP
from bench.make.bugs import Bug
from bench.make.casework import labelled, seen_through_quirks, spread
from bench.make.measuring import TARGET, Plan, figures_of, is_right
from bench.make.nodes import ABLATIONS, FULL, IGNORING
from bench.make.real_model import sampled
from triage.sop.load import load_sop

SITES = ("FC1", "FC2")
CASE = Case(
    node="rc_cup_worn",
    site=1,
    t=1_790_000_000,
    entity="rc3",
    expected="true",
    subject="RC-03",
    split="train",
    episode=3,
    margin=0.1,
    near="cup_worn",
)


def cases(count: int) -> list[Case]:
    words: tuple[Value, ...] = ("true", "true", "true", "no_data", "false")
    return [
        replace(CASE, t=CASE.t + 60 * number, expected=words[number % 5], site=number % 2)
        for number in range(count)
    ]


def test_a_case_keeps_what_is_asked_and_expected() -> None:
    (one,) = labelled([CASE, replace(CASE, split="heldout")], SITES, "train")
    assert (one.node, one.warehouse, one.entity) == ("rc_cup_worn", "FC2", "rc3")
    assert (one.expected, one.subject, one.split) == ("true", "RC-03", "train")
    assert one.timestamp.isoformat() == "2026-09-21T14:13:20+00:00"
    assert one.answers == ()


def test_cases_of_different_questions_have_different_ids() -> None:
    made = labelled(cases(50), SITES, "train")
    assert len({one.case_id for one in made}) == 50


def test_a_part_is_spread_over_verdicts_and_sites() -> None:
    whole = labelled(cases(100), SITES, "train")
    part = spread(whole, 24)
    assert len(part) == 24
    assert set(Counter((one.expected, one.warehouse) for one in part).values()) == {4}
    assert part == sorted(part, key=lambda one: one.timestamp)
    assert spread(whole[::-1], 24) == part


def test_nothing_is_left_out_for_0_or_enough() -> None:
    whole = labelled(cases(20), SITES, "train")
    assert spread(whole, 0) == whole
    assert spread(whole, 20) == whole


def test_a_bug_that_hides_a_quirk_is_told_apart() -> None:
    params = load_sop(SOP).params
    fault = (LIBRARY / "rc_drive_fault" / "v1.py").read_text()
    assert seen_through_quirks(fault, params, Bug("any_of flipped", 0))
    # `if code == LOST` is gone by either: nothing tells which.
    assert not seen_through_quirks(fault, params, Bug("check dropped", 1))


def test_a_sample_has_every_kind_of_node() -> None:
    nodes = list(load_sop(SOP).nodes)
    chosen = sampled(nodes, 10)
    assert len(set(chosen)) == 10
    assert {name.partition("_")[0] for name in chosen} == {"obs", "rc", "con"}
    assert chosen == sampled(nodes[::-1], 10)
    assert len(sampled(nodes, 1000)) == len(nodes)


# --- figures ------------------------------------------------------------------------------------


def row(pass_at_1: float, heldout: float, rounds: int = 1) -> dict[str, object]:
    return {
        "pass_at_1": pass_at_1,
        "train_pass_rate": heldout,
        "heldout_pass_rate": heldout,
        "rounds": rounds,
        "tokens": 100,
        "seconds": 2.0,
    }


def found(full: float = 1.0, others: float = 0.5, ignoring: float = 0.5) -> dict[str, object]:
    runs = {name: row(0.5, others) for name in ABLATIONS}
    runs[FULL] = row(0.5, full)
    runs[IGNORING] = row(0.5, ignoring, 3)
    return {"bugs": ["a#0"], "train_cases": 10, "heldout_cases": 20, "runs": runs}


def test_rates_are_of_cases() -> None:
    many = found() | {"heldout_cases": 180}
    few = found(full=0.0) | {"heldout_cases": 20}
    figures = figures_of(Plan(), {"a": many, "b": few}, sop_nodes=44)
    full = figures["ablations"]["full"]
    assert full["heldout_pass_rate"] == pytest.approx(0.9)
    assert full["rounds_mean"] == 1
    assert (full["nodes"], full["nodes_at_target"]) == (2, 1)
    assert (full["tokens"], full["seconds"]) == (200, 4.0)
    assert figures["nodes_below_target"] == {"b": 0.0}
    assert set(figures["ablations"]) == set(ABLATIONS)


@pytest.mark.parametrize(
    ("one", "right"),
    [
        (found(), True),
        (found(full=TARGET - 0.001), False),
        (found(others=0.99), False),
        (found(ignoring=0.6), False),
        (found() | {"runs": found()["runs"] | {FULL: row(1.0, 1.0)}}, False),  # type: ignore[operator]
    ],
)
def test_when_it_is_right(one: dict[str, object], right: bool) -> None:
    assert is_right(figures_of(Plan(), {"a": one}, sop_nodes=44)) is right
