"""Where answers come from."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import guarded
from tests.unit.trial.trial_world import AT, DEPTH, SITE, Given
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.guard import SourceLimits
from triage.model.case import LabelledCase, RecordedAnswer
from triage.model.decision import NodeId
from triage.model.query import Query, Rows, encode_answer, query_digest, query_document
from triage.model.verdict import Truth, Verdict
from triage.sop.procedure import SiteProfile
from triage.trial.answers import (
    CaseAnswers,
    DecisionAnswers,
    LiveAnswers,
    Remembering,
    failure_of,
    setting_of,
)
from triage.trial.model import Answers

ROWS = ({"value": 12.5},)
OTHER = Rows("memory", "select other")
DOWN = SourceFailed(SourceFailure.CONNECT, "down")


def case(*answers: RecordedAnswer) -> LabelledCase:
    return LabelledCase(
        case_id="c0ffee",
        node=NodeId("obs_depth"),
        warehouse="north",
        timestamp=AT,
        expected="true",
        entity="CH-1",
        labels={"a": "b"},
        params={"limit": 3},
        parents={"obs_a": Verdict(Truth.TRUE)},
        answers=answers,
    )


def recorded(query: Query, body: bytes = b"", failure: str = "") -> RecordedAnswer:
    return RecordedAnswer(query_document(query), body, failure)


async def reason(answers: Answers, query: Query = DEPTH) -> str:
    with pytest.raises((ToolFailed, SourceFailed)) as raised:
        await answers.answer(query, timeout_s=1.0)
    return raised.value.reason


def live(
    source: MemorySource, *, timeout_s: float = 2.0, limits: SourceLimits | None = None
) -> LiveAnswers:
    loop = asyncio.get_running_loop()
    return LiveAnswers(
        {source.name: guarded(source, limits)}, monotonic=loop.time, timeout_s=timeout_s
    )


def test_a_setting_of_a_case_has_the_sites_params_and_the_cases_own() -> None:
    profile = SiteProfile(site=SITE, params={"limit": 10, "window_s": 60}, parents={}, known=True)
    made = setting_of(case(), profile)
    assert made.params == {"limit": 3, "window_s": 60}
    assert (made.site, made.timestamp, made.entity, made.labels) == (SITE, AT, "CH-1", {"a": "b"})
    assert made.parents == case().parents


@on_virtual_time
async def test_live_answers_are_the_sources() -> None:
    assert await live(MemorySource("memory", {DEPTH: ROWS})).answer(DEPTH, timeout_s=1.0) == ROWS


@on_virtual_time
async def test_live_answers_fail_as_for_a_tool() -> None:
    rejected = ToolFailed(ToolFailure.QUERY_REJECTED, "no such column")
    source = MemorySource("memory", {DEPTH: DOWN, OTHER: rejected})
    assert await reason(live(source)) == "source_connect"
    assert source.asked == [DEPTH, DEPTH]  # with one retry
    assert await reason(live(source), OTHER) == "query_rejected"
    assert await reason(live(source), Rows("nowhere", "x")) == "undeclared_source"
    small = SourceLimits(max_answer_bytes=3)
    assert (
        await reason(live(MemorySource("memory", {DEPTH: ROWS}), limits=small))
        == "answer_too_large"
    )


@pytest.mark.parametrize(("own_s", "given_s"), [(0.25, 60.0), (60.0, 0.25)])
def test_the_shorter_time_bounds_a_live_answer(own_s: float, given_s: float) -> None:
    @on_virtual_time
    async def check() -> None:
        source = MemorySource("memory", {DEPTH: ROWS})
        source.hold()
        limits = SourceLimits(timeout_s=90.0)
        answers = live(source, timeout_s=own_s, limits=limits)
        with pytest.raises(SourceFailed):
            await answers.answer(DEPTH, timeout_s=given_s)
        assert asyncio.get_running_loop().time() == pytest.approx(0.25)

    check()


async def test_a_case_answers_what_was_recorded() -> None:
    answers = CaseAnswers(case(recorded(DEPTH, encode_answer(ROWS))))
    assert await answers.answer(DEPTH, timeout_s=1.0) == ROWS
    assert await reason(answers, OTHER) == "unrecorded"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("source_timeout", "source_timeout"),
        ("query_rejected", "query_rejected"),
        ("?", "unrecorded"),
    ],
)
async def test_a_recorded_failure_is_raised_again(failure: str, expected: str) -> None:
    beyond = Given({DEPTH: ROWS})
    answers = CaseAnswers(case(recorded(DEPTH, failure=failure)), beyond)
    assert await reason(answers) == expected
    assert beyond.asked == []


@pytest.mark.parametrize("body", [b"", b"{", b'{"rows":7}', b'{"rows":[],"x":1}'])
async def test_a_recorded_answer_that_cannot_be_read(body: bytes) -> None:
    assert (
        await reason(CaseAnswers(case(recorded(DEPTH, body)), Given({DEPTH: ROWS}))) == "unrecorded"
    )
    assert await reason(DecisionAnswers({query_digest(DEPTH): body})) == "unrecorded"


async def test_beyond_a_case_are_other_answers() -> None:
    beyond = Given({OTHER: ROWS})
    answers = CaseAnswers(case(recorded(DEPTH, encode_answer(()))), beyond)
    assert await answers.answer(DEPTH, timeout_s=1.0) == ()
    assert await answers.answer(OTHER, timeout_s=1.0) == ROWS
    assert beyond.asked == [OTHER]


async def test_a_decision_answers_what_its_tools_were_told() -> None:
    third = Rows("memory", "third")
    answers = DecisionAnswers(
        {query_digest(DEPTH): encode_answer(ROWS)},
        {query_digest(OTHER): ("source_connect", "down")},
    )
    assert await answers.answer(DEPTH, timeout_s=1.0) == ROWS
    assert await reason(answers, OTHER) == "source_connect"
    assert await reason(answers, third) == "unrecorded"


async def test_remembering_asks_once() -> None:
    given = Given({DEPTH: ROWS})
    answers = Remembering(given)
    assert [await answers.answer(DEPTH, timeout_s=1.0) for _ in range(3)] == [ROWS] * 3
    assert given.asked == [DEPTH]


async def test_remembering_keeps_a_rejection_and_asks_a_dead_source_again() -> None:
    rejected = ToolFailed(ToolFailure.QUERY_REJECTED, "no")
    given = Given({DEPTH: rejected, OTHER: DOWN})
    answers = Remembering(given)
    for _ in range(2):
        assert await reason(answers) == "query_rejected"
        assert await reason(answers, OTHER) == "source_connect"
    assert given.asked == [DEPTH, OTHER, OTHER]


@pytest.mark.parametrize("failure", [*ToolFailure, *SourceFailure])
def test_every_reason_comes_back_as_it_was(failure: ToolFailure | SourceFailure) -> None:
    again = failure_of(failure.value, "why")
    assert (again.failure, again.detail) == (failure, "why")
