"""Traces of production: what a stored decision tells of the fallback's work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.maker.collect_world import AT, MASK, SECRET
from triage.maker.seen import described
from triage.maker.traces import digests_of, traces_of_decision, verified
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json, sha256_hex
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
    decision_document,
)
from triage.model.query import Call, Query, encode_answer
from triage.model.trace import VERDICT, CallRecord, Trace, Turn
from triage.model.verdict import Truth, Verdict
from triage.tool_api import samples

WINDOW = {"start": "2026-03-01T11:45:00+00:00", "end": "2026-03-01T12:00:00+00:00"}
FACED = encode_answer(
    {"series": [{"labels": {"note": f"pw {SECRET}"}, "times": [AT.timestamp()], "values": [80]}]}
)
LISTED = encode_answer({"metrics": [], "more": 0})


def call(tool: str, source: str = "metrics", **arguments: Any) -> Call:
    return Call(source, tool, canonical_json(arguments).decode())


def asked(query: Query, body: bytes = b"", failure: str = "") -> Asked:
    return Asked(
        query=query,
        answer_sha256=sha256_hex(body) if body else "",
        answer_bytes=len(body),
        failure=Failure(reason=failure, detail="so it was") if failure else None,
    )


SAMPLED = asked(call("samples", selector="tank_level", **WINDOW), FACED)
BY_TOOL = asked(samples("metrics", "tank_other", AT, 60.0), encode_answer(()))
BY_HOST = asked(call("metrics", limit=100), LISTED)
REFUSED = asked(call("samples", selector="a{", **WINDOW), failure="query_rejected")


def decision(*results: NodeResult) -> dict[str, Any]:
    return decision_document(
        Decision(
            alert_id=AlertId("ab" * 16),
            alarm="al",
            site="north",
            entity="TK-1",
            outcome=Outcome.ESCALATE,
            nodes=results,
            pinned=Pinned(
                sop="s", sop_version=1, sop_sha256="", sites_sha256="", library_sha256=""
            ),
            fired_at=AT,
            accepted_at=AT,
            evaluated_at=AT,
        )
    )


def result(
    node: str = "obs_full", *, ended: str = VERDICT, verdict: Verdict | None = None, **more: Any
) -> NodeResult:
    record = CallRecord("metrics_samples", "{}", True, "", len(FACED), sha256_hex(FACED), 1.0)
    trace = Trace("m", "1", "p", "tool_missing", ended, (Turn("So.", "x = 1", (record,)),))
    answers: dict[str, Any] = {"asked": (BY_TOOL, BY_HOST, SAMPLED, REFUSED), **more}
    return NodeResult(
        node=NodeId(node),
        kind=NodeKind.OBSERVATION,
        layer=0,
        verdict=verdict,
        failure=None if verdict else Failure(reason=ended, detail="no"),
        answered_by=AnsweredBy.FALLBACK if verdict else AnsweredBy.NOBODY,
        trace=trace,
        **answers,
    )


TRUE = Verdict(value=Truth.TRUE)
EVIDENCE = {sha256_hex(body): body for body in (FACED, LISTED, encode_answer(()))}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"status": "pending"},
        {**decision(), "nodes": None},
        {**decision(), "fired_at": "yesterday"},
        {**decision(), "nodes": [{"node": "a", "fallback": {}}]},
        {**decision(result(verdict=TRUE)), "site": 3},
        {**decision(), "nodes": [3]},
    ],
)
def test_what_is_no_decision_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"decision|isoformat"):
        traces_of_decision(document, {}, mask=MASK)


def test_only_nodes_that_a_fallback_worked_on() -> None:
    tool = NodeResult(
        node=NodeId("obs_late"), kind=NodeKind.OBSERVATION, layer=0, verdict=TRUE, asked=(BY_TOOL,)
    )
    assert traces_of_decision(decision(tool), EVIDENCE, mask=MASK) == []


def test_what_its_code_asked_as_a_tool_would_ask_it() -> None:
    """Neither the broken tool's own queries are its work, nor what was listed for the prompt."""
    (trace,) = traces_of_decision(
        decision(result(verdict=TRUE)), EVIDENCE, mask=MASK, units={"tank_level": "percent"}
    )
    assert (trace.origin, trace.node, trace.verdict) == (
        "decision " + "ab" * 16,
        "obs_full",
        "true",
    )
    assert (trace.right, trace.expected) == (None, "")
    assert trace.units == {"tank_level": "percent"}
    seen, refused = trace.answers
    assert seen.query == {
        "kind": "samples",
        "source": "metrics",
        "selector": "tank_level",
        "window_s": 900.0,
    }
    assert (seen.kind, seen.size) == ("series", 1)
    assert SECRET not in described(seen)
    assert refused.failure == "query_rejected: so it was"
    assert trace.turns[0].code == "x = 1"


def test_a_purged_answer_and_an_ending_without_a_verdict() -> None:
    (trace,) = traces_of_decision(decision(result(ended="fallback_turns")), {}, mask=MASK)
    assert trace.verdict == "fallback_turns"
    assert trace.answers[0].failure == "the answer is purged"
    assert verified(trace, "true").right is False


def test_calls_of_an_mcp_server_of_its_own_stay_calls() -> None:
    (trace,) = traces_of_decision(
        decision(result(verdict=TRUE)), EVIDENCE, mask=MASK, own=("metrics",)
    )
    assert trace.answers[0].query["kind"] == "call"
    assert trace.answers[0].kind == "json"


def test_the_digests_that_are_needed() -> None:
    document = decision(result(verdict=TRUE))
    assert digests_of(document, "obs_late") == ()
    assert sha256_hex(FACED) in digests_of(document, "obs_full")
