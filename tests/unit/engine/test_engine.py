"""One attempt from an alert to a decision."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.evaluation.virtual_time import START, on_virtual_time
from tests.unit.evaluation.world import (
    FIRED_AT,
    World,
    above,
    action,
    alert,
    library,
    memory,
    node,
    procedure,
    query,
    tool,
    value,
)
from triage.engine.engine import as_resolved
from triage.errors import SourceFailed, SourceFailure
from triage.model.decision import Decision, DropReason, NodeKind, Outcome, decision_sha256
from triage.model.query import Query
from triage.model.verdict import Verdict
from triage.sop.sites import parse_sites
from triage.tool_api import Context

SITES = b"""
sites:
  hall-north:
    zone: Europe/Berlin
    aliases: [north]
    assets:
      unit-7: {parent: line-1}
"""


def world(**answers: float) -> World:
    """An observation, its cause, and a costly action behind a constraint."""
    return World(
        sop=procedure(
            node("obs", true=["cause"], false=["close"]),
            node("cause", NodeKind.ROOT_CAUSE, true=["safe", "ticket"]),
            node("safe", NodeKind.CONSTRAINT, true=["stop"]),
            actions=[
                action("close", yields=True),
                action("ticket", rank=2),
                action("stop", rank=3, cancels=["ticket"]),
            ],
            aliases={"legacy alarm": "al"},
        ),
        library=library(tool("obs"), tool("cause"), tool("safe")),
        sources=[memory({name: value(number) for name, number in answers.items()})],
    )


def sealed(decision: Decision) -> str:
    return decision_sha256(
        alert_id=decision.alert_id,
        outcome=decision.outcome,
        degraded=decision.degraded,
        nodes=decision.nodes,
        edges=decision.edges,
        actions=decision.actions,
        dropped=decision.dropped,
    )


@on_virtual_time
async def test_a_whole_walk() -> None:
    one = world(obs=20, cause=20, safe=20)
    decided = await one.decide()
    decision = decided.decision
    assert decision.outcome is Outcome.ACTIONS
    assert decision.observed == ("obs",)
    assert [cause.node for cause in decision.root_causes] == ["cause"]
    assert [(a.action, a.subject) for a in decision.actions] == [("stop", "unit-7")]
    assert [(d.action.action, d.reason, d.by) for d in decision.dropped] == [
        ("ticket", DropReason.CANCELLED, "stop")
    ]
    assert [(r.node, r.layer, r.word) for r in decision.nodes] == [
        ("obs", 0, "true"),
        ("cause", 1, "true"),
        ("safe", 2, "true"),
    ]
    assert decision.fired_at == FIRED_AT
    assert decision.evaluated_at == START
    assert decision.stages_ms["queue_wait"] == 30_000
    assert decision.round_trips == 3
    assert decision.pinned == one.snapshot.pinned
    assert decision.decision_sha256 == sealed(decision)
    assert decision.reason == ""


@on_virtual_time
async def test_the_same_alert_and_answers_give_the_same_hash_and_others_another() -> None:
    first = await world(obs=20, cause=20, safe=20).decide()
    again = await world(obs=20, cause=20, safe=20).decide()
    other = await world(obs=20, cause=20, safe=5).decide()
    elsewhere = await world(obs=20, cause=20, safe=20).decide(alert("b" * 32))
    hashes = [d.decision.decision_sha256 for d in (first, again, other, elsewhere)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@on_virtual_time
async def test_an_alarm_that_no_procedure_knows_escalates_and_says_what_to_do() -> None:
    one = world(obs=20)
    decided = await one.decide(alert(alarm="who?"))
    decision = decided.decision
    assert (decision.outcome, decision.reason) == (Outcome.ESCALATE, "unrouted")
    assert (decision.nodes, decision.actions, decided.evidence) == ((), (), {})
    assert not decision.degraded
    assert "'who?'" in decision.warnings[0]
    assert decision.decision_sha256 == sealed(decision)


@on_virtual_time
async def test_an_alias_is_walked_as_its_alarm() -> None:
    decided = await world(obs=20, cause=5).decide(alert(alarm="legacy alarm"))
    assert decided.decision.outcome is Outcome.NO_FAULT
    assert decided.decision.alarm == "legacy alarm"
    assert decided.decision.edges[0].origin == "legacy alarm"


@pytest.mark.parametrize("alarm", ["al", "who?"])
@on_virtual_time
async def test_what_is_resolved_before_the_attempt_is_not_walked(alarm: str) -> None:
    one = world(obs=20)
    decided = await one.decide(alert(alarm=alarm, resolved_at=datetime(2026, 3, 1, tzinfo=UTC)))
    decision = decided.decision
    assert (decision.outcome, decision.reason, decision.warnings) == (Outcome.RESOLVED, "", ())
    assert (decision.nodes, decision.edges, decision.actions) == ((), (), ())
    assert decision.decision_sha256 == sealed(decision)


@on_virtual_time
async def test_an_unknown_site_gets_the_defaults_and_a_warning() -> None:
    decided = await world(obs=5).decide(alert(site="nowhere"))
    assert decided.decision.site == "nowhere"
    assert decided.decision.outcome is Outcome.ACTIONS
    assert decided.decision.warnings == (
        "site 'nowhere' is not in the sites file: defaults were used",
    )


@on_virtual_time
async def test_a_sites_alias_is_decided_under_its_name_without_a_warning() -> None:
    one = world(obs=5)
    one.sites = parse_sites(SITES, "sites.yaml", one.sop)
    decided = await one.decide()
    assert (decided.decision.site, decided.decision.warnings) == ("hall-north", ())
    assert decided.decision.pinned.sites_sha256 == one.sites.sha256


@on_virtual_time
async def test_a_clock_that_went_back_makes_no_negative_wait() -> None:
    early = replace(alert(), accepted_at=datetime(2030, 1, 1, tzinfo=UTC))
    decided = await world(obs=5).decide(early)
    assert decided.decision.stages_ms["queue_wait"] == 0


@on_virtual_time
async def test_stages_tell_waiting_from_working() -> None:
    one = world(obs=5)
    source = memory({"obs": value(5)})
    source.hold()
    one.sources = [source]
    deciding = asyncio.create_task(one.decide())
    await source.waiting.wait()
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.5, passed.set_result, None)
    await passed
    source.release()
    decision = (await deciding).decision
    assert decision.stages_ms["sources"] == pytest.approx(500)
    assert decision.stages_ms["evaluate"] == 0
    assert decision.nodes[0].elapsed_ms == pytest.approx(500)
    assert decision.nodes[0].asked[0].elapsed_ms == pytest.approx(500)


@on_virtual_time
async def test_as_resolved_suppresses_every_action_and_is_another_decision() -> None:
    decision = (await world(obs=20, cause=20, safe=5).decide()).decision
    assert [one.action for one in decision.actions] == ["ticket"]
    resolved = as_resolved(decision)
    assert (resolved.outcome, resolved.actions) == (Outcome.RESOLVED, ())
    assert [(d.action.action, d.reason) for d in resolved.dropped] == [
        ("ticket", DropReason.RESOLVED)
    ]
    assert resolved.nodes == decision.nodes
    assert resolved.decision_sha256 == sealed(resolved) != decision.decision_sha256


@on_virtual_time
async def test_as_resolved_keeps_what_was_dropped_before() -> None:
    decision = (await world(obs=20, cause=20, safe=20).decide()).decision
    resolved = as_resolved(decision)
    assert [(d.action.action, d.reason) for d in resolved.dropped] == [
        ("ticket", DropReason.CANCELLED),
        ("stop", DropReason.RESOLVED),
    ]


@on_virtual_time
async def test_as_resolved_needs_no_reason_to_escalate() -> None:
    decision = (await world().decide(alert(alarm="who?"))).decision
    assert as_resolved(decision).reason == ""


@on_virtual_time
async def test_a_degraded_decision_stays_so_when_it_is_resolved() -> None:
    one = world()
    source = memory()
    source.fail_with(SourceFailed(SourceFailure.CONNECT, "down"))
    one.sources = [source]
    decision = (await one.decide()).decision
    assert decision.degraded
    assert as_resolved(decision).degraded


@on_virtual_time
async def test_the_attempts_number_is_kept() -> None:
    one = world(obs=5)
    slot = one.lanes.take()
    decided = await one.engine.decide(alert(), one.snapshot, lane=slot, attempt=3)
    assert decided.decision.attempt == 3


@on_virtual_time
async def test_alerts_decided_at_once_do_not_mix() -> None:
    """The entity is in the query, so each alert has an answer of its own."""

    def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
        return [query(context.entity)]

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        return above(context.entity)(warehouse, timestamp, context)  # type: ignore[no-any-return]  # a Verdict

    one = tool("a", queries, evaluate)
    many = World(
        sop=procedure(node("a", true=["act"]), actions=[action("act")]),
        library=library(one),
        sources=[memory({f"u{n}": value(20 if n % 3 else 5) for n in range(300)})],
    )
    decided = await asyncio.gather(
        *(many.decide(replace(alert(f"{n:032x}"), entity=f"u{n}")) for n in range(300))
    )
    for n, one_decided in enumerate(decided):
        actions = [(a.action, a.subject) for a in one_decided.decision.actions]
        assert actions == ([("act", f"u{n}")] if n % 3 else [])
