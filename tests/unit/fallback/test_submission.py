"""What counts as a verdict of an agent."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.fallback.submission import Submissions
from triage.model.verdict import Clause, Truth, Verdict
from triage.model.verdict_bounds import MAX_CLAUSES, MAX_NAME, MAX_TEXT, verdict_problem

CLAUSE = {"name": "rate", "observed": 9.5, "op": ">", "threshold": 8, "unit": "%", "holds": True}


def submissions(*down: str) -> Submissions:
    mine = Submissions(lambda: set(down))
    mine.begin_run()
    return mine


async def test_a_verdict_is_taken_with_all_it_says() -> None:
    mine = submissions()
    answer = await mine.submit(
        verdict="true", explanation=" too\nhigh ", clauses=[CLAUSE], subject="cell-7"
    )
    assert answer == {"ok": True, "data": None, "error": ""}
    clause = Clause("rate", 9.5, ">", 8, "%", True)
    assert mine.taken == Verdict(Truth.TRUE, (clause,), "too high", "cell-7")


async def test_the_shortest_verdict_is_its_word() -> None:
    mine = submissions()
    assert (await mine.submit(verdict="no_data"))["ok"]
    assert mine.taken == Verdict(Truth.NO_DATA)


async def test_arguments_may_come_by_place() -> None:
    mine = submissions()
    assert (await mine.submit("false", "fine", [], "x"))["ok"]
    assert mine.taken == Verdict(Truth.FALSE, (), "fine", "x")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "verdict must be one of"),
        ({"verdict": True}, "verdict must be one of"),
        ({"verdict": "TRUE"}, "verdict must be one of"),
        ({"verdict": ["true"]}, "verdict must be one of"),
        ({"verdict": "true", "explanation": None}, "explanation must be"),
        ({"verdict": "true", "explanation": "x" * (MAX_TEXT + 1)}, "explanation must be"),
        ({"verdict": "true", "explanation": "\ud800"}, "explanation must be"),
        ({"verdict": "true", "subject": 7}, "subject must be"),
        ({"verdict": "true", "subject": "x" * (MAX_NAME + 1)}, "subject must be"),
        ({"verdict": "true", "clauses": "rate"}, "clauses must be a list"),
        ({"verdict": "true", "clauses": [CLAUSE] * (MAX_CLAUSES + 1)}, "clauses must be a list"),
        ({"verdict": "true", "clauses": [CLAUSE, 7]}, "clause 2: a int is no object"),
        ({"verdict": "true", "clauses": [{"name": "n"}]}, "observed, op, threshold is missing"),
        ({"verdict": "true", "clauses": [{**CLAUSE, "why": 1}]}, "nothing else"),
        ({"verdict": "true", "clauses": [{**CLAUSE, "holds": "yes"}]}, "no number or text"),
        ({"verdict": "true", "clauses": [{**CLAUSE, "observed": 1 << 70}]}, "no number or text"),
        ({"verdict": "true", "clauses": [{**CLAUSE, "observed": [1]}]}, "no number or text"),
        ({"verdict": "true", "clauses": [{**CLAUSE, "name": None}]}, "name, op and unit"),
        ({"verdict": "true", "reason": "x"}, "an argument that is not known"),
    ],
)
async def test_what_is_no_verdict_is_told_to_the_code(
    arguments: dict[str, Any], complaint: str
) -> None:
    mine = submissions()
    answer = await mine.submit(**arguments)
    assert not answer["ok"]
    assert complaint in answer["error"]
    assert mine.refused == answer["error"]
    assert mine.taken is None


async def test_too_many_arguments_are_refused() -> None:
    assert not (await submissions().submit("true", "x", [], "", 5))["ok"]


async def test_a_refused_one_may_be_mended_in_the_same_run() -> None:
    mine = submissions()
    await mine.submit(verdict="maybe")
    assert (await mine.submit(verdict="true"))["ok"]
    assert mine.taken is not None


async def test_the_first_of_a_run_counts() -> None:
    mine = submissions()
    await mine.submit(verdict="true")
    answer = await mine.submit(verdict="false")
    assert "first one counts" in answer["error"]
    assert mine.taken == Verdict(Truth.TRUE)


async def test_one_of_a_run_that_failed_is_only_known() -> None:
    mine = submissions()
    await mine.submit(verdict="true")
    mine.end_run(failed=True, turn=2)
    assert (mine.taken, mine.known, mine.known_turn) == (None, Verdict(Truth.TRUE), 2)
    mine.begin_run()
    await mine.submit(verdict="false")
    mine.end_run(failed=False, turn=3)
    assert mine.taken == Verdict(Truth.FALSE)


async def test_none_is_taken_between_runs() -> None:
    mine = Submissions(set)
    assert not (await mine.submit(verdict="true"))["ok"]
    mine.begin_run()
    mine.end_run(failed=False, turn=1)
    assert not (await mine.submit(verdict="true"))["ok"]
    assert mine.taken is None


async def test_an_outage_is_not_missing_data() -> None:
    mine = submissions("metrics")
    answer = await mine.submit(verdict="no_data")
    assert "metrics did not answer" in answer["error"]
    assert mine.outage
    assert (await mine.submit(verdict="true"))["ok"], "another source may have said enough"


async def test_figures_that_are_none_are_kept() -> None:
    mine = submissions()
    assert (await mine.submit(verdict="no_data", clauses=[{**CLAUSE, "observed": math.nan}]))["ok"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*CLAUSE, "else"]), inner, max_size=6)
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["verdict", "explanation", "clauses", "subject", "x"]), JSON),
    st.sampled_from(["true", "no_data", None]),
)
async def test_whatever_comes_is_refused_or_within_bounds(
    arguments: dict[str, Any], word: str | None
) -> None:
    mine = submissions()
    answer = await mine.submit(**(arguments if word is None else {**arguments, "verdict": word}))
    assert answer["ok"] is (mine.taken is not None)
    assert mine.taken is None or verdict_problem(mine.taken) == ""
