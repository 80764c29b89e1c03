"""Stored decisions made again: what counts as equal, changed, unrecorded and skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tests.unit.evaluation.virtual_time import START, LoopClock, on_virtual_time
from tests.unit.evaluation.world import (
    World,
    above,
    action,
    alert,
    asks,
    library,
    memory,
    node,
    procedure,
    tool,
    value,
)
from triage.app.procedure import Loaded
from triage.app.replay import PAGE, Replay
from triage.app.replayed import Missing, Replayed, Skip, Status, Tally, Why, replayed_document
from triage.engine.engine import Decided, as_resolved
from triage.errors import ToolFailed, ToolFailure
from triage.library.catalogue import Library
from triage.model.alert import Alert, AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import Decision, decision_document
from triage.model.gap import Gap
from triage.model.verdict import Truth, Verdict
from triage.ports import (
    AlertStatus,
    CommitStatus,
    DecisionFilter,
    DecisionPage,
    FallbackAnswer,
    FallbackRequest,
    Message,
    StoredAlert,
)
from triage.sop.procedure import Sop
from triage.sop.sites import no_sites

SOP = procedure(
    node("a", true=["b"], false=["close"], no_data=["close"]),
    node("b", true=["fix"], false=["close"]),
    actions=[action("close", yields=True), action("fix", rank=2)],
)
TOOLS = library(tool("a"), tool("b"))


@dataclass(slots=True)
class Shelf:
    """Implements `ports.DecisionLog` and `AlertView` on what was put there, newest first."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    alerts: dict[str, Alert] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    pages: list[int] = field(default_factory=list)

    def put(self, decided: Decided, one: Alert, decision: Decision | None = None) -> None:
        document = orjson.loads(canonical_json(decision_document(decision or decided.decision)))
        self.documents[one.alert_id] = {**document, "decided_at": START.isoformat()}
        self.alerts[one.alert_id] = one
        self.bodies.update(decided.evidence)

    async def commit(
        self,
        decision: Decision,
        evidence: Mapping[str, bytes],
        messages: Sequence[Message],
        gaps: Sequence[Gap] = (),
    ) -> CommitStatus:
        raise AssertionError("a replay writes nothing")

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        return self.documents.get(alert_id)

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        self.pages.append(limit)
        names = ("alert_id", "alarm", "site", "entity", "outcome", "decided_at")
        ids = [i for i in self.documents if not wanted.alarm or wanted.alarm == self._alarm(i)]
        start = int(cursor or 0)
        shown = ids[start : start + limit]
        more = start + limit < len(ids)
        return DecisionPage(
            decisions=[{name: self.documents[i].get(name) for name in names} for i in shown],
            cursor=str(start + limit) if more else "",
        )

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return self.bodies.get(answer_sha256)

    async def stored(self, alert_id: AlertId) -> StoredAlert | None:
        found = self.alerts.get(alert_id)
        if found is None:
            return None
        return StoredAlert(alert=found, status=AlertStatus.DECIDED, attempts=1)

    def _alarm(self, alert_id: str) -> str:
        return str(self.documents[alert_id]["alarm"])


async def decide(
    shelf: Shelf, one: Alert, answers: Mapping[str, Any], sop: Sop = SOP, tools: Library = TOOLS
) -> Decided:
    """Live, and put on the shelf."""
    decided = await World(sop=sop, library=tools, sources=[memory(answers)]).decide(one)
    shelf.put(decided, one)
    return decided


async def replay(
    shelf: Shelf,
    sop: Sop = SOP,
    tools: Library = TOOLS,
    *,
    wanted: DecisionFilter | None = None,
    limit: int | None = None,
) -> list[Replayed]:
    loaded = Loaded(sop=sop, sites=no_sites(sop), library=tools, warnings=())
    replay = Replay(loaded, LoopClock(), decisions=shelf, alerts=shelf)
    async with aclosing(replay.run(wanted or DecisionFilter(), limit=limit)) as replayed:
        return [one async for one in replayed]


def numbered(number: int) -> Alert:
    return alert(f"{number:032x}")


BOTH = {"a": value(15), "b": value(15)}


@on_virtual_time
async def test_against_what_it_was_made_with_nothing_changes() -> None:
    shelf = Shelf()
    for number, answers in enumerate([BOTH, {"a": value(1)}, {}, {"a": value(15)}]):
        await decide(shelf, numbered(number), answers)
    assert [one.status for one in await replay(shelf)] == [Status.EQUAL] * 4


@on_virtual_time
async def test_what_was_resolved_since_is_decided_as_it_was_then() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), BOTH)
    shelf.alerts[alert().alert_id] = alert(resolved_at=START)
    (one,) = await replay(shelf)
    assert one.status is Status.EQUAL
    assert one.new is not None
    assert one.new["outcome"] == "actions"


@on_virtual_time
async def test_what_was_resolved_while_it_was_walked_stays_resolved() -> None:
    shelf = Shelf()
    decided = await decide(shelf, alert(), BOTH)
    shelf.put(decided, alert(resolved_at=START), as_resolved(decided.decision))
    (one,) = await replay(shelf)
    assert one.status is Status.EQUAL

    tools = library(tool("a"), tool("b", evaluate=above("b", limit=50)))
    (one,) = await replay(shelf, tools=tools)
    assert one.status is Status.CHANGED
    assert one.difference.outcome is None  # resolved, as before
    assert [(a.action, a.old, a.new) for a in one.difference.actions] == [
        ("fix", "resolved", ""),
        ("close", "", "resolved"),
    ]


@on_virtual_time
async def test_what_was_never_walked_is_skipped_unless_it_was_unrouted() -> None:
    shelf = Shelf()
    await decide(shelf, alert("1" * 32, resolved_at=START), BOTH)
    await decide(shelf, alert("2" * 32, alarm="other"), BOTH)
    resolved, unrouted = await replay(shelf)
    assert (resolved.status, resolved.skip) == (Status.SKIPPED, Skip.RESOLVED)
    assert unrouted.status is Status.EQUAL

    routed = replace(SOP, aliases={"other": "al"})
    _, unrouted = await replay(shelf, routed)
    assert unrouted.status is Status.UNRECORDED
    assert [(m.node, m.why) for m in unrouted.missing] == [("a", Why.NOT_ASKED)]
    assert unrouted.difference.same


@on_virtual_time
async def test_a_routed_alert_that_no_longer_is_changes() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), BOTH)
    (one,) = await replay(shelf, replace(SOP, alarms={"another": SOP.alarms["al"]}))
    assert one.status is Status.CHANGED
    assert one.difference.outcome == ("actions", "escalate")
    assert [change.node for change in one.difference.nodes if change.new is None] == ["a", "b"]


@on_virtual_time
async def test_another_query_is_unrecorded_and_what_hangs_on_it_is_not_told() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), BOTH)
    tools = library(tool("a", asks("a2"), above("a2")), tool("b"))
    (one,) = await replay(shelf, tools=tools)
    assert one.status is Status.UNRECORDED
    assert one.difference.same  # although the new walk does not reach b
    (missing,) = one.missing
    assert (missing.node, missing.why) == ("a", Why.NOT_ASKED)
    assert missing.query is not None
    assert missing.query["sql"] == "select a2"
    document = replayed_document(one)
    assert document["new"]["outcome"] is None
    assert document["nodes"] == document["actions"] == []


@on_virtual_time
async def test_a_change_before_what_is_unrecorded_is_a_change() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), {"a": value(1)})
    tools = library(tool("a", evaluate=above("a", limit=0.5)), tool("b"))
    (one,) = await replay(shelf, tools=tools)
    assert one.status is Status.CHANGED
    assert [(m.node, m.why) for m in one.missing] == [("b", Why.NOT_ASKED)]
    assert [(c.node, c.old is None) for c in one.difference.nodes] == [("a", False), ("b", True)]
    assert one.difference.actions == ()  # b may lead to closing too
    document = replayed_document(one)
    assert [side["new"]["verdict"] for side in document["nodes"]] == ["true", None]


@on_virtual_time
async def test_purged_answers_are_told_from_those_never_asked() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), BOTH)
    shelf.bodies.clear()
    (one,) = await replay(shelf)
    assert one.status is Status.UNRECORDED
    assert [(m.node, m.why) for m in one.missing] == [("a", Why.PURGED)]


class Sure:
    """Implements `ports.Fallback`."""

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        return FallbackAnswer(verdict=Verdict(value=Truth.TRUE))

    def turned_away(self, reason: str) -> None:
        raise AssertionError(f"the slow lane is never full here: {reason}")


@on_virtual_time
async def test_the_fallback_is_not_asked_again() -> None:
    shelf = Shelf()
    missing = {"b": ToolFailed(ToolFailure.MISSING, "no tool")}
    broken = library(tool("a"), broken=missing)
    world = World(
        sop=SOP, library=broken, sources=[memory(BOTH)], fallback=Sure(), fallback_deadline_s=60
    )
    shelf.put(await world.decide(alert()), alert())
    (one,) = await replay(shelf, tools=broken)
    assert one.status is Status.UNRECORDED
    assert one.missing == (Missing(node="b", why=Why.FALLBACK),)

    # A tool in its place is judged by what it asks, which the recording lacks.
    (one,) = await replay(shelf, tools=TOOLS)
    assert [m.why for m in one.missing] == [Why.NOT_ASKED]
    # One that asks what was asked is compared.
    (one,) = await replay(shelf, tools=library(tool("a"), tool("b", asks("a"), above("a"))))
    assert one.status is Status.EQUAL


@on_virtual_time
async def test_a_tool_that_breaks_is_a_change() -> None:
    shelf = Shelf()
    await decide(shelf, alert(), BOTH)
    broken = library(tool("a"), broken={"b": ToolFailed(ToolFailure.TAMPERED, "not its hash")})
    (one,) = await replay(shelf, tools=broken)
    assert one.status is Status.CHANGED
    assert one.difference.outcome == ("actions", "escalate")
    assert one.difference.degraded == (False, True)


@on_virtual_time
async def test_what_cannot_be_read_is_skipped_and_counted() -> None:
    shelf = Shelf()
    for number in range(3):
        await decide(shelf, numbered(number), BOTH)
    ids = list(shelf.documents)
    del shelf.alerts[ids[0]]
    del shelf.documents[ids[1]]["nodes"][0]["asked"]
    replayed = await replay(shelf)
    assert [one.skip for one in replayed] == [Skip.NO_ALERT, Skip.UNREADABLE, None]
    tally = Tally()
    for one in replayed:
        tally.add(one)
    document = tally.document()
    assert document["read"] == 3
    assert document["equal"] == 1
    assert document["skipped"] == {
        "resolved_without_walk": 0,
        "alert_not_stored": 1,
        "unreadable": 1,
    }


@on_virtual_time
async def test_pages_are_read_as_far_as_wanted() -> None:
    shelf = Shelf()
    first = await decide(shelf, numbered(0), BOTH)
    for number in range(1, 2 * PAGE + 5):
        one = numbered(number)
        shelf.put(first, one, replace(first.decision, alert_id=one.alert_id))
    assert len(await replay(shelf)) == 2 * PAGE + 5
    assert shelf.pages == [PAGE] * 3
    shelf.pages.clear()
    assert len(await replay(shelf, limit=PAGE + 1)) == PAGE + 1
    assert shelf.pages == [PAGE, 1]
    assert await replay(shelf, wanted=DecisionFilter(alarm="none")) == []
