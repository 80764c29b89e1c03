"""What a fallback did, as it is kept with the decision: nothing is lost and nothing changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.test_gap import NODE, TRACE, decided
from triage.model.canonical import canonical_json
from triage.model.decision import AnsweredBy, Decision, decision_document, decision_sha256
from triage.model.trace import CallRecord, Trace, Turn, trace_document
from triage.model.verdict import Truth, Verdict

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 10**6)
milliseconds = st.integers(0, 10**9).map(lambda microseconds: microseconds / 1000)
calls = st.builds(
    CallRecord,
    function=texts,
    arguments=texts,
    ok=st.booleans(),
    error=texts,
    answer_bytes=counts,
    answer_sha256=texts,
    elapsed_ms=milliseconds,
)
turns = st.builds(
    Turn,
    thought=texts,
    code=texts,
    calls=st.lists(calls, max_size=3).map(tuple),
    observation=texts,
    prompt_tokens=counts,
    completion_tokens=counts,
    model_ms=milliseconds,
    sandbox_ms=milliseconds,
)
traces = st.builds(
    Trace,
    model=texts,
    prompt_version=texts,
    prompt_sha256=texts,
    reason=texts,
    ended=texts,
    turns=st.lists(turns, max_size=3).map(tuple),
    elapsed_ms=milliseconds,
)


def read_back(document: dict[str, Any]) -> Trace:
    """By the names of the fields alone: a key that is missing or of another form raises."""
    document = {**document}
    del document["tokens"]
    return Trace(
        **{
            **document,
            "turns": tuple(
                Turn(**{**turn, "calls": tuple(CallRecord(**call) for call in turn["calls"])})
                for turn in document["turns"]
            ),
        }
    )


@given(traces)
def test_the_document_holds_the_whole_trace(trace: Trace) -> None:
    document = orjson.loads(canonical_json(trace_document(trace)))
    assert read_back(document) == trace
    assert document["tokens"] == trace.tokens
    assert trace.tokens == sum(one.prompt_tokens + one.completion_tokens for one in trace.turns)


def answered(trace: Trace | None) -> Decision:
    result = NODE._replace(
        verdict=Verdict(value=Truth.TRUE), answered_by=AnsweredBy.FALLBACK, trace=trace
    )
    decision = decided(result, NODE)
    digest = decision_sha256(
        alert_id=decision.alert_id,
        outcome=decision.outcome,
        degraded=decision.degraded,
        nodes=decision.nodes,
        edges=decision.edges,
        actions=decision.actions,
        dropped=decision.dropped,
    )
    return replace(decision, decision_sha256=digest)


@given(traces)
def test_a_decision_keeps_the_trace_of_the_node_that_has_one(trace: Trace) -> None:
    document = orjson.loads(canonical_json(decision_document(answered(trace))))
    with_trace, without = document["nodes"]
    assert read_back(with_trace.pop("fallback")) == trace
    assert "fallback" not in without
    plain = orjson.loads(canonical_json(decision_document(answered(None))))
    assert plain["nodes"] == [with_trace, without]


def test_how_the_fallback_came_to_its_verdict_is_not_what_the_decision_says() -> None:
    other = TRACE._replace(model="another", turns=TRACE.turns[:1])
    assert answered(TRACE).decision_sha256 == answered(other).decision_sha256
    assert answered(TRACE).decision_sha256 == answered(None).decision_sha256
