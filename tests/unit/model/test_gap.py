"""Which nodes leave a gap, what it says, and that it is read back as it was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.errors import FallbackFailure, SourceFailure, ToolFailure
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import (
    AnsweredBy,
    Asked,
    Decision,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
)
from triage.model.gap import GAP_ID_CHARS, Gap, gap_document, gap_id, gaps_of, read_gap
from triage.model.query import Rows
from triage.model.trace import VERDICT, Trace, Turn
from triage.model.verdict import Truth, Verdict

AT = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=UTC)
NODE = NodeResult(
    node=NodeId("cause"), kind=NodeKind.ROOT_CAUSE, layer=0, tool_version=3, tool_sha256="ab" * 32
)
RAISED = Failure(reason=ToolFailure.RAISED.value, detail="ValueError: no number")
TRACE = Trace(
    model="m",
    prompt_version="1",
    prompt_sha256="p",
    reason="tool_raised",
    ended=VERDICT,
    turns=(Turn("t", "c", prompt_tokens=100, completion_tokens=11), Turn("t", "c")),
)


def decided(*nodes: NodeResult) -> Decision:
    return Decision(
        alert_id=AlertId("a1"),
        alarm="al",
        site="s",
        entity="e",
        outcome=Outcome.ESCALATE,
        nodes=nodes,
        pinned=Pinned(sop="sop", sop_version=1, sop_sha256="", sites_sha256="", library_sha256=""),
        fired_at=AT - timedelta(hours=1),
        accepted_at=AT,
        evaluated_at=AT,
    )


def gaps(*nodes: NodeResult) -> tuple[Gap, ...]:
    return gaps_of(decided(*nodes), lambda node: f"Is {node} so?")


def failed(failure: Failure, **more: Any) -> NodeResult:
    return NODE._replace(failure=failure, answered_by=AnsweredBy.NOBODY, **more)


@pytest.mark.parametrize("reason", list(ToolFailure))
def test_every_failure_of_a_tool_leaves_one(reason: ToolFailure) -> None:
    (gap,) = gaps(failed(Failure(reason=reason.value, detail="why")))
    assert gap == Gap(
        gap_id=gap_id("cause", reason.value, NODE.tool_sha256),
        node=NodeId("cause"),
        reason=reason.value,
        tool_version=3,
        tool_sha256=NODE.tool_sha256,
        alert_id=AlertId("a1"),
        at=AT,
        needed="Is cause so?",
        missing="why",
        alternatives=("fallback: none is configured",),
        impact="the node failed and the decision escalates",
    )


@pytest.mark.parametrize("reason", list(SourceFailure))
def test_an_outage_leaves_none(reason: SourceFailure) -> None:
    assert gaps(failed(Failure(reason=reason.value, detail="down"))) == ()


def test_a_tool_that_answers_leaves_none() -> None:
    assert gaps(*(NODE._replace(verdict=Verdict(value=value)) for value in Truth)) == ()
    assert gaps() == ()


def test_one_that_the_fallback_answered_says_so() -> None:
    answered = NODE._replace(
        verdict=Verdict(value=Truth.NO_DATA),
        tool_failure=RAISED,
        answered_by=AnsweredBy.FALLBACK,
        trace=TRACE,
        asked=(
            Asked(Rows("db", "select 1"), answer_sha256="d1"),
            Asked(Rows("db", "select 2"), failure=RAISED),
        ),
    )
    (gap,) = gaps(answered)
    assert (gap.reason, gap.missing) == ("tool_raised", "ValueError: no number")
    assert gap.alternatives == ("fallback: verdict after 2 turns, 111 tokens",)
    assert gap.impact == "the fallback answered no_data"
    assert gap.evidence == ("d1",)


@pytest.mark.parametrize("reason", list(FallbackFailure))
@pytest.mark.parametrize("traced", [True, False])
def test_one_that_the_fallback_gave_up_says_why(reason: FallbackFailure, traced: bool) -> None:
    """The gap is the tool's: why the fallback ended is only what was tried."""
    given_up = failed(
        Failure(reason=reason.value, detail="…"),
        tool_failure=RAISED,
        trace=TRACE._replace(ended=reason.value) if traced else None,
    )
    (gap,) = gaps(given_up)
    assert gap.reason == "tool_raised"
    assert gap.missing == "ValueError: no number"
    assert gap.alternatives[0].startswith(f"fallback: {reason.value}")
    assert ("2 turns" in gap.alternatives[0]) is traced
    assert gap.impact == "the node failed and the decision escalates"


def test_a_verdict_without_a_trace_is_a_fallbacks_too() -> None:
    answered = NODE._replace(verdict=Verdict(value=Truth.TRUE), tool_failure=RAISED)
    assert gaps(answered)[0].alternatives == ("fallback: verdict",)


def test_several_nodes_leave_one_each() -> None:
    others = [failed(RAISED, node=NodeId(name), tool_sha256="") for name in "ab"]
    found = gaps(failed(RAISED), NODE._replace(verdict=Verdict(value=Truth.TRUE)), *others)
    assert [gap.node for gap in found] == ["cause", "a", "b"]
    assert len({gap.gap_id for gap in found}) == 3


class TestId:
    def test_it_stays_what_it_was(self) -> None:
        """Fixed: changing it would begin every gap of a running installation anew."""
        assert gap_id("rc_logs", "tool_missing", "") == "c04a2b3ceb56"

    def test_it_tells_node_reason_and_tool_apart(self) -> None:
        ids = {gap_id(n, r, t) for n in ("a", "b") for r in ("x", "y") for t in ("", "s")}
        assert len(ids) == 8
        assert {len(one) for one in ids} == {GAP_ID_CHARS}
        assert gap_id("ab", "c", "") != gap_id("a", "bc", "")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
lists = st.lists(texts, max_size=3).map(tuple)


@given(
    st.builds(
        Gap,
        gap_id=texts,
        node=texts.map(NodeId),
        reason=texts,
        tool_version=st.integers(0, 2**31),
        tool_sha256=texts,
        alert_id=texts.map(AlertId),
        at=st.datetimes(
            datetime(1970, 1, 2),  # noqa: DTZ001 - the strategy adds the zone
            timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
        ),
        needed=texts,
        missing=texts,
        alternatives=lists,
        impact=texts,
        evidence=lists,
    )
)
def test_a_gap_is_read_back_as_it_was_written(gap: Gap) -> None:
    assert read_gap(orjson.loads(canonical_json(gap_document(gap)))) == gap


@pytest.mark.parametrize("lacking", Gap._fields)
def test_a_document_that_lacks_something_is_none(lacking: str) -> None:
    (gap,) = gaps(failed(RAISED))
    document = gap_document(gap)
    del document[lacking]
    with pytest.raises(KeyError):
        read_gap(document)
