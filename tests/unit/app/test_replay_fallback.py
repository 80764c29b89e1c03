"""Stored decisions in which a fallback had a part, made again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.unit.app.test_replay import BOTH, SOP, TOOLS, Shelf, replay
from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import World, alert, library, memory, tool, value
from triage.app.golden_case import Case, Recorded, parse_cases
from triage.app.golden_record import Refusal, record_case
from triage.app.golden_text import expectation
from triage.app.replayed import Missing, Status, Why
from triage.errors import FallbackFailure, ToolFailed, ToolFailure
from triage.model.canonical import sha256_hex
from triage.model.query import encode_answer
from triage.model.trace import VERDICT, CallRecord, Trace, Turn
from triage.model.verdict import Truth, Verdict
from triage.ports import FallbackAnswer, FallbackRequest

LATE = encode_answer(())  # what the same query was answered with later: nothing at all
TRACE = Trace(
    model="m",
    prompt_version="1",
    prompt_sha256="p",
    reason="tool_missing",
    ended=VERDICT,
    turns=(
        Turn("thought", "code", (CallRecord("memory_query", "{}", True, "", 2, sha256_hex(LATE)),)),
    ),
)
GAVE_UP = FallbackAnswer(
    verdict=None,
    reason=FallbackFailure.TURNS.value,
    detail="6 turns",
    trace=TRACE._replace(ended=FallbackFailure.TURNS.value),
)
SURE = FallbackAnswer(verdict=Verdict(value=Truth.TRUE), trace=TRACE)


@dataclass(frozen=True, slots=True)
class Scripted:
    """Implements `ports.Fallback`."""

    said: FallbackAnswer

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        return self.said

    def turned_away(self, reason: str) -> None:
        raise AssertionError(f"the slow lane is never full here: {reason}")


def without(node: str) -> ToolFailed:
    return ToolFailed(ToolFailure.MISSING, f"{node} has no tool")


async def decided(said: FallbackAnswer, lacking: str = "b") -> Shelf:
    shelf = Shelf()
    tools = library(*(tool(n) for n in "ab" if n != lacking), broken={lacking: without(lacking)})
    world = World(sop=SOP, library=tools, sources=[memory(BOTH)], fallback=Scripted(said))
    shelf.put(await world.decide(alert()), alert())
    (document,) = shelf.documents.values()
    assert [node["node"] for node in document["nodes"] if "fallback" in node] == [lacking]
    return shelf


BROKEN = library(tool("a"), broken={"b": without("b")})


@on_virtual_time
async def test_a_node_that_the_fallback_answered_cannot_be_decided_again_without_it() -> None:
    shelf = await decided(SURE)
    (one,) = await replay(shelf, tools=BROKEN)
    assert one.status is Status.UNRECORDED
    assert one.missing == (Missing(node="b", why=Why.FALLBACK),)


@on_virtual_time
async def test_a_node_that_the_fallback_gave_up_fails_again() -> None:
    shelf = await decided(GAVE_UP)
    (one,) = await replay(shelf, tools=BROKEN)
    assert one.status is Status.EQUAL
    assert one.new is not None
    assert one.new["nodes"][1]["failure"]["reason"] == "tool_missing"
    assert one.old["nodes"][1]["failure"]["reason"] == "fallback_turns"


@on_virtual_time
async def test_a_tool_in_its_place_may_ask_what_the_fallback_asked() -> None:
    shelf = await decided(GAVE_UP)
    live = World(sop=SOP, library=TOOLS, sources=[memory(BOTH)])
    asked = (await live.decide(alert())).decision.nodes[1].asked[0]
    (document,) = shelf.documents.values()
    told = encode_answer(value(15))
    shelf.bodies[sha256_hex(told)] = told
    other = Shelf()
    other.put(await live.decide(alert()), alert())
    (complete,) = other.documents.values()
    assert asked.answer_sha256 == sha256_hex(told)
    document["nodes"][1]["asked"] = complete["nodes"][1]["asked"]
    (one,) = await replay(shelf, tools=TOOLS)
    assert one.status is Status.CHANGED
    assert [(c.node, c.new and c.new["verdict"]) for c in one.difference.nodes] == [("b", "true")]


@on_virtual_time
async def test_what_the_fallback_was_told_later_is_not_what_another_tool_saw() -> None:
    """Its code asked at node b what the tool of node a had asked before, and got another answer."""
    shelf = await decided(GAVE_UP)
    (document,) = shelf.documents.values()
    asked = document["nodes"][0]["asked"][0]
    shelf.bodies[sha256_hex(LATE)] = LATE
    document["nodes"][1]["asked"].append({**asked, "answer_sha256": sha256_hex(LATE)})
    (one,) = await replay(shelf, tools=BROKEN)
    assert one.status is Status.EQUAL
    assert one.new is not None
    assert one.new["nodes"][0]["verdict"] == "true"


@on_virtual_time
async def test_a_golden_case_is_made_of_a_decision_without_what_only_the_fallback_knows() -> None:
    file = Path("case.yaml")
    answered = await decided(SURE)
    refused = await record_case(
        alert().alert_id, about="", file=file, decisions=answered, alerts=answered
    )
    assert isinstance(refused, Refusal)
    assert "rests on the fallback, which answered for b" in refused.why

    given_up = await decided(GAVE_UP)
    text = await record_case(
        alert().alert_id, about="", file=file, decisions=given_up, alerts=given_up
    )
    assert isinstance(text, bytes), text
    (case,) = parse_cases(text, file, "case")
    assert isinstance(case, Case)
    assert isinstance(case.content, Recorded)
    assert len(case.content.bodies) == 1
    (document,) = given_up.documents.values()
    assert expectation(document)["verdicts"]["b"] == "failed"
