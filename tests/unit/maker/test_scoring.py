"""What a candidate counts for, and which of its mistakes are shown."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.unit.maker.maker_world import (
    ANSWER,
    NODE,
    TRAIN,
    FakeTrials,
    case,
    cases,
    setting,
    source,
    told,
)
from triage.maker.model import Mismatch, Score
from triage.maker.scoring import SHOWN, choose_mismatches, failures, got, outage, score
from triage.model.case import LabelledCase
from triage.trial.model import FAILED, Candidate, Setting, Told, Tried

CANDIDATE = Candidate(NODE, source(5), ("metrics",))


async def scored(candidate: Candidate, given: list[LabelledCase]) -> Score:
    return await score(candidate, given, FakeTrials(), setting, seen=lambda *_: ANSWER)


def mismatch(number: int, expected: str, tried: Tried) -> Mismatch:
    return Mismatch(case(1, number, expected=expected), tried, {}, ())


async def test_no_cases_are_no_mistakes() -> None:
    found = await scored(CANDIDATE, [])
    assert (found.passed, found.total, found.rate) == (0, 0, 1.0)
    assert (found.p50_ms, found.p95_ms, found.max_queries) == (0.0, 0.0, 0)
    assert found.mismatches == ()


async def test_a_failure_is_wrong_whatever_was_expected() -> None:
    broken = CANDIDATE._replace(text=source("oops"))
    found = await scored(broken, TRAIN)
    assert found.confusion == {("true", FAILED): 3, ("false", FAILED): 3}
    assert (found.passed, failures(found)) == (0, 6)


async def test_words_are_counted_in_their_cells() -> None:
    found = await scored(CANDIDATE._replace(text=source(7)), TRAIN)
    assert found.confusion == {
        ("true", "true"): 2,
        ("true", "false"): 1,
        ("false", "false"): 3,
    }
    assert (found.passed, found.total) == (5, 6)
    (wrong,) = found.mismatches
    assert wrong.case.entity == "6"
    assert wrong.units == {"level": "litres"}
    assert wrong.answers == (ANSWER,)
    # Bodies of all cases and rounds would fill the memory.
    assert wrong.tried.asked == ()
    assert wrong.tried.clauses


@pytest.mark.parametrize(
    ("expected", "said", "word"),
    [
        (None, "TK-2", "true"),
        ("TK-1", "TK-1", "true"),
        ("TK-1", "TK-2", "true!"),
        ("TK-1", "", "true!"),
        # An empty subject stands for the alert's entity, on both sides.
        ("6", "", "true"),
        ("", "6", "true"),
        ("", "", "true"),
        ("", "TK-2", "true!"),
    ],
)
def test_a_subject_counts_where_somebody_named_one(
    expected: str | None, said: str, word: str
) -> None:
    assert got(case(6, subject=expected), Tried("true", subject=said)) == word


def test_a_wrong_word_is_wrong_whatever_its_subject() -> None:
    assert got(case(6, subject="6"), Tried("false", subject="6")) == "false"
    assert got(case(6, subject="6"), Tried(FAILED)) == FAILED


async def test_times_and_queries_are_of_all_cases() -> None:
    def says(_: Candidate, given: Setting) -> Tried:
        at = float(given.entity)
        return Tried("true", elapsed_ms=at, asked=(told(),) * int(at))

    found = await score(CANDIDATE, cases(1, 2, 3, 4, 5), FakeTrials(says), setting)
    assert (found.p50_ms, found.max_queries) == (3.0, 5)
    assert found.p95_ms == pytest.approx(4.8)


# --- which are shown ----------------------------------------------------------------------------


def asked(size: int) -> tuple[Told, ...]:
    return (told(size),)


def sample() -> list[Mismatch]:
    return [
        *(mismatch(n, "true", Tried("false", asked=asked(100 - n))) for n in range(20)),
        *(mismatch(30 + n, "false", Tried("true", asked=asked(n))) for n in range(5)),
        mismatch(50, "no_data", Tried(FAILED, asked=asked(9_999))),
        mismatch(51, "true", Tried(FAILED, asked=asked(1))),
    ]


def test_every_cell_is_shown_before_a_second_of_one() -> None:
    chosen = choose_mismatches(sample())
    assert len(chosen) == SHOWN
    cells = [(one.case.expected, one.tried.value) for one in chosen]
    assert set(cells[:4]) == {
        ("true", "false"),
        ("false", "true"),
        ("no_data", FAILED),
        ("true", FAILED),
    }
    assert cells[0] == ("true", "false")
    assert Counter(cells) == {
        ("true", "false"): 3,
        ("false", "true"): 3,
        ("no_data", FAILED): 1,
        ("true", FAILED): 1,
    }


def test_in_a_cell_the_smallest_answers_come_first() -> None:
    chosen = [one for one in choose_mismatches(sample()) if one.tried.value == "false"]
    assert [len(one.tried.asked[0].body) for one in chosen] == sorted(
        len(one.tried.asked[0].body) for one in sample() if one.tried.value == "false"
    )[:3]


def test_the_choice_hangs_on_no_order() -> None:
    shuffled = sample()
    random.Random(3).shuffle(shuffled)
    assert choose_mismatches(shuffled) == choose_mismatches(sample())
    assert choose_mismatches([]) == []
    assert len(choose_mismatches(sample(), most=2)) == 2


async def test_all_mismatches_are_kept_and_those_to_be_shown_come_first() -> None:
    def says(_: Candidate, given: Setting) -> Tried:
        return Tried("no_data", asked=asked(int(float(given.entity))))

    many = cases(*range(40))
    found = await score(CANDIDATE, many, FakeTrials(says), setting, seen=lambda *_: ANSWER)
    assert {one.case.case_id for one in found.mismatches} == {one.case_id for one in many}
    assert [bool(one.answers) for one in found.mismatches] == [True] * SHOWN + [False] * 32


# --- an outage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "of_six", "is_outage"),
    [
        ("source_connect", 6, True),
        ("source_breaker_open", 4, True),
        ("source_connect", 3, False),
        ("source_timeout", 6, False),  # its query may be too much to ask
        ("unrecorded", 6, False),
        ("tool_raised", 6, False),
    ],
)
async def test_most_cases_without_a_source_are_an_outage(
    failure: str, of_six: int, *, is_outage: bool
) -> None:
    def says(_: Candidate, given: Setting) -> Tried:
        down = [one.entity for one in TRAIN].index(given.entity) < of_six
        return Tried(FAILED, failure=failure, detail="why") if down else Tried("no_data")

    found = outage(await score(CANDIDATE, TRAIN, FakeTrials(says), setting))
    assert (found is not None) == is_outage
    if found is not None:
        assert str(found) == f"{failure}: why"
