"""Re-tests: a verdict that is another, a source that says otherwise, and what cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.library.catalogue import Tool
from triage.model.canonical import sha256_hex
from triage.model.case import LabelledCase, recorded
from triage.model.decision import NodeId
from triage.model.query import Answer, Query, Rows, Samples, Series, encode_answer
from triage.model.site import Site
from triage.ports import WatchKind
from triage.sop.procedure import SiteProfile
from triage.tool_api import compare, conclude, no_data
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits
from triage.trial.model import Candidate
from triage.watching.retest import FAILED, LIVE, PASSED, RECORDED, UNRECORDED, Retested, retest_case

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODE = NodeId("obs_queue")
LEVEL = Samples("metrics", 'queue_level{site="north"}', AT - timedelta(hours=1), AT)
LANES = Rows("tables", "SELECT lane, n FROM lanes WHERE site = :site", (("site", "north"),))
TEXT = "the tool's own source"
PROFILE = SiteProfile(
    site=Site(name="north", zone="UTC", units={}, facts={}), params={}, parents={}, known=True
)
WELL = (Series({"asset": "A"}, (1.0, 2.0, 3.0), (20.0, 21.0, 22.0)),)
ROWS = ({"lane": "L1", "n": 3},)


def _evaluate(warehouse: str, timestamp: datetime, context: Any) -> Any:
    series = context.answer(LEVEL)
    if not series:
        return no_data("no level")
    return conclude([compare("level", series[0].values[-1], ">", 10.0)], "looked", subject="A")


TOOL = Tool(
    node=NODE,
    version=3,
    sha256=sha256_hex(TEXT.encode()),
    queries=lambda *_: [LEVEL, LANES],
    evaluate=_evaluate,
)
CANDIDATE = Candidate(node=NODE, text=TEXT, sources=("metrics", "tables"))


@dataclass
class Live:
    """Implements `trial.model.Answers`."""

    answers: Mapping[Query, Any]
    asked: list[Query] = field(default_factory=list)

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        self.asked.append(query)
        answer = self.answers[query]
        if isinstance(answer, Exception):
            raise answer
        return answer


def case(
    expected: str = "true",
    answers: Mapping[Query, Answer] | None = None,
    subject: str | None = None,
) -> LabelledCase:
    kept: Mapping[Query, Answer] = {LEVEL: WELL, LANES: ROWS} if answers is None else answers
    return LabelledCase(
        case_id="c1",
        node=NODE,
        warehouse="north",
        timestamp=AT,
        expected=expected,
        subject=subject,
        answers=tuple(recorded(query, encode_answer(answer)) for query, answer in kept.items()),
    )


def trials() -> ApprovedTrials:
    return ApprovedTrials(TOOL, limits=TrialLimits(), monotonic=lambda: 0.0)


async def tried(
    one: LabelledCase, level: Any = WELL, lanes: Any = ROWS
) -> tuple[Retested, Retested]:
    live = Live({LEVEL: level, LANES: lanes})
    [first, second] = await retest_case(CANDIDATE, one, PROFILE, trials(), live)
    return first, second


def scaled(factor: float) -> Sequence[Series]:
    return tuple(Series(s.labels, s.times, tuple(v * factor for v in s.values)) for s in WELL)


async def test_all_is_as_it_was() -> None:
    first, second = await tried(case())
    assert (first.mode, first.result, first.found) == (RECORDED, PASSED, ())
    assert (second.mode, second.result, second.found) == (LIVE, PASSED, ())


async def test_without_live_no_source_is_asked() -> None:
    [only] = await retest_case(CANDIDATE, case(), PROFILE, trials())
    assert (only.mode, only.result) == (RECORDED, PASSED)


async def test_a_case_without_answers_is_only_tried_live() -> None:
    live = Live({LEVEL: WELL, LANES: ROWS})
    [only] = await retest_case(CANDIDATE, case(answers={}), PROFILE, trials(), live)
    assert (only.mode, only.result) == (LIVE, PASSED)


async def test_a_wrong_verdict_names_the_case_and_both() -> None:
    first, _ = await tried(case("false"))
    assert first.result == FAILED
    [found] = first.found
    assert (found.kind, found.subject) == (WatchKind.RETEST_FAILED, "c1")
    assert "expected false, got true" in found.detail


async def test_a_wrong_subject_is_a_wrong_verdict() -> None:
    first, _ = await tried(case(subject="B"))
    assert first.result == FAILED
    assert "expected true on B, got true on A" in first.found[0].detail


async def test_a_subject_that_nobody_labelled_is_not_judged() -> None:
    first, _ = await tried(case(subject=None))
    assert first.result == PASSED


@pytest.mark.parametrize("factor", [1000.0, 0.01, 1.2, 0.8])
async def test_another_scale_is_named_with_the_field(factor: float) -> None:
    _, second = await tried(case(), scaled(factor))
    moved = [one for one in second.found if one.kind is WatchKind.VALUES_MOVED]
    assert [one.subject for one in moved] == ["metrics queue_level{site}: value"]
    assert "as of case c1 at north" in moved[0].detail


async def test_a_late_correction_is_no_other_scale() -> None:
    _, second = await tried(case(), scaled(1.01))
    assert second.found == ()


async def test_a_verdict_that_is_another_now_is_told_with_what_changed() -> None:
    _, second = await tried(case(), scaled(0.01))
    assert {one.kind for one in second.found} == {
        WatchKind.RETEST_FAILED,
        WatchKind.VALUES_MOVED,
    }


@pytest.mark.parametrize(
    ("lanes", "fields"),
    [
        (({"way": "L1", "n": 3},), ["lane", "way"]),
        (({"lane": "L1", "n": "3"},), ["n"]),
        (({"lane": "L1", "n": 3, "more": 1},), ["more"]),
    ],
)
async def test_another_schema_is_named_by_field(lanes: Any, fields: list[str]) -> None:
    _, second = await tried(case(), WELL, lanes)
    changed = [one for one in second.found if one.kind is WatchKind.SCHEMA_CHANGED]
    assert [one.evidence["field"] for one in changed] == fields


async def test_a_query_that_is_refused_now_names_what_the_source_says() -> None:
    refused = ToolFailed(ToolFailure.QUERY_REJECTED, "no such column: lane")
    _, second = await tried(case(), WELL, refused)
    changed = [one for one in second.found if one.kind is WatchKind.SCHEMA_CHANGED]
    assert "no such column: lane" in changed[0].detail
    assert "lanes" in changed[0].subject


async def test_nulls_in_the_place_of_values_are_named() -> None:
    gone = (Series({"asset": "A"}, (1.0, 2.0, 3.0), (float("nan"), -1.0, 21.0)),)
    _, second = await tried(case(), gone)
    assert [one.kind for one in second.found] == [WatchKind.NULLS]


async def test_a_dead_source_is_named_and_no_verdict_is_blamed() -> None:
    _, second = await tried(case(), SourceFailed(SourceFailure.CONNECT, "refused"))
    assert [(one.kind, one.subject) for one in second.found] == [(WatchKind.SOURCE_DEAD, "metrics")]


async def test_a_source_that_has_forgotten_says_nothing() -> None:
    _, second = await tried(case(), ())
    assert (second.result, second.found) == (UNRECORDED, ())


async def test_a_case_that_does_not_hold_all_answers_says_nothing() -> None:
    [only] = await retest_case(CANDIDATE, case(answers={LEVEL: WELL}), PROFILE, trials())
    assert (only.result, only.found) == (UNRECORDED, ())


async def test_what_was_empty_may_stay_so() -> None:
    one = case("no_data", {LEVEL: (), LANES: ()})
    _, second = await tried(one, (), ())
    assert (second.result, second.found) == (PASSED, ())
