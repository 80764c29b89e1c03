"""When the text is said to be to blame, and when it is not."""

from __future__ import annotations

import pytest

from tests.unit.maker.maker_world import AT, NODE, TEXT, case, source
from triage.maker.ambiguity import (
    MOST_CASES,
    ambiguities,
    ambiguity_document,
    ambiguity_of,
)
from triage.maker.model import Mismatch, Round, Score
from triage.model.verdict import Clause
from triage.ports import WatchFinding, WatchKind
from triage.trial.model import FAILED, Candidate, Tried

FIRST = "Does the tank hold more than five?"
SECOND = "Count what came in over the night as well."


def wrong(number: int, clause: str = "level", said: str = "false", subject: str = "") -> Mismatch:
    clauses = (Clause(clause, 6, ">", 7, "", False),)
    return Mismatch(case(6, number), Tried(said, subject, clauses), {}, ())


def tried(number: int, *mismatches: Mismatch, blamed: str = "") -> Round:
    return Round(
        number=number,
        candidate=Candidate(NODE, source(number), ("metrics",)),
        sha256=f"{number:064x}",
        score=Score(10 - len(mismatches), 10, {}, 0, 0, 1, mismatches),
        blamed=blamed,
    )


def found(*rounds: Round) -> list[WatchFinding]:
    return ambiguities(NODE, TEXT, rounds, tool_sha256="ab", at=AT)


def test_one_candidate_that_is_wrong_says_nothing_of_the_text() -> None:
    assert found() == []
    assert found(tried(0, wrong(1), wrong(2))) == []
    assert found(tried(0, wrong(1), wrong(2)), tried(1, blamed=SECOND)) == []


def test_one_diagnosis_alone_is_no_finding() -> None:
    assert found(tried(0, wrong(1)), tried(1, wrong(1), blamed=SECOND)) == []


def test_quotes_without_a_case_that_stays_wrong_are_no_finding() -> None:
    rounds = (
        tried(0, wrong(1)),
        tried(1, wrong(2), blamed=SECOND),
        tried(2, wrong(3), blamed=SECOND),
    )
    assert found(*rounds) == []


def test_failures_are_no_opinion() -> None:
    failed = Mismatch(case(6, 1), Tried(FAILED, failure="tool_raised"), {}, ())
    rounds = (
        tried(0, failed),
        tried(1, failed, blamed=SECOND),
        tried(2, failed, blamed=SECOND),
    )
    assert found(*rounds) == []


def test_a_refused_round_counts_for_nothing() -> None:
    refused = tried(1, blamed=SECOND)._replace(score=None, refused="held no code")
    assert found(tried(0, wrong(1), wrong(2)), refused) == []


def test_a_sentence_that_two_diagnoses_quote_is_found_with_its_cases() -> None:
    rounds = (
        tried(0, wrong(3), wrong(1), wrong(9)),
        tried(1, wrong(3), wrong(1), blamed=SECOND),
        tried(2, wrong(1), wrong(3), blamed=SECOND),
    )
    (one,) = found(*rounds)
    assert (one.kind, one.node, one.subject) == (WatchKind.AMBIGUOUS_TEXT, NODE, SECOND)
    assert one.subject in TEXT
    first, second = case(6, 1).case_id, case(6, 3).case_id
    assert one.evidence == {
        "cases": [first, second],
        "expected": ["true", "true"],
        "predicted": ["false", "false"],
    }
    assert "2 cases" in one.detail
    assert "false for true" in one.detail
    assert "2 diagnoses quote it" in one.detail
    assert (one.tool_sha256, one.first_at, one.closed_at) == ("ab", AT, None)


def test_a_subject_that_stays_wrong_is_a_disagreement_too() -> None:
    other = wrong(1, said="true", subject="TK-9")
    rounds = (tried(0, other), tried(1, other, blamed=FIRST), tried(2, other, blamed=FIRST))
    assert "another subject" in found(*rounds)[0].detail


def test_without_a_quote_the_clauses_words_tell_the_sentence() -> None:
    night = [wrong(n, "count came over night") for n in (1, 2)]
    (one,) = found(tried(0, *night), tried(1, *night))
    assert one.subject == SECOND
    assert "by the words of the clauses" in one.detail


@pytest.mark.parametrize(
    ("clause", "cases"),
    [
        ("count came over night", (1,)),  # one case is more likely a wrong label
        ("night", (1, 2)),
        ("pressure", (1, 2)),
        ("tank hold night count", (1, 2, 3)),  # as near to one sentence as to the other
    ],
)
def test_words_that_do_not_tell_are_no_finding(clause: str, cases: tuple[int, ...]) -> None:
    mismatches = [wrong(n, clause) for n in cases]
    assert found(tried(0, *mismatches), tried(1, *mismatches)) == []


def test_without_a_quote_no_round_may_have_got_it_right() -> None:
    night = [wrong(n, "count came over night") for n in (1, 2)]
    assert found(tried(0, *night), tried(1), tried(2, *night)) == []


def test_the_same_trouble_is_one_finding() -> None:
    rounds = [tried(n, wrong(1), blamed=SECOND) for n in range(3)]
    again = [tried(n, wrong(1), wrong(2), blamed=SECOND) for n in range(3)]
    assert found(*rounds)[0].finding_id == found(*again)[0].finding_id
    other = ambiguities(NODE, TEXT, rounds, tool_sha256="cd", at=AT)
    assert other[0].finding_id != found(*rounds)[0].finding_id


def test_many_cases_are_counted_and_some_are_listed() -> None:
    mismatches = [wrong(n) for n in range(MOST_CASES + 10)]
    (one,) = found(*(tried(n, *mismatches, blamed=FIRST) for n in range(3)))
    assert len(one.evidence["cases"]) == MOST_CASES
    assert f"{MOST_CASES + 10} cases" in one.detail


def test_it_survives_being_written() -> None:
    (one,) = found(*(tried(n, wrong(1), blamed=SECOND) for n in range(3)))
    assert ambiguity_of(ambiguity_document(one)) == one
    for broken in ({}, {**ambiguity_document(one), "kind": "weather"}):
        with pytest.raises((KeyError, ValueError)):
            ambiguity_of(broken)
