"""From a delivery to a stored decision, whatever fails on the way."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import orjson
import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    MEMORY,
    library,
    node,
    procedure,
    sample,
    value,
)
from tests.unit.worker.bench import GONE, IDS, LOST, Bench, until
from tests.unit.worker.fakes import LEASE_S
from triage.adapters.memory import MemorySource
from triage.engine.snapshot import snapshot
from triage.evaluation.guard import GuardedSource
from triage.model.alert import AlertId, Severity
from triage.model.canonical import canonical_json
from triage.model.decision import decision_document
from triage.model.query import Answer, Query
from triage.ports import AlertStatus
from triage.sop.sites import no_sites
from triage.worker.lanes import Lanes
from triage.worker.worker import LONGEST_RETRY_DELAY_S, RETRY_DELAY_S, WorkerOptions

# --- the way it goes ------------------------------------------------------------------------------


@on_virtual_time
async def test_a_delivery_is_acked_after_the_decision_is_committed() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.run_out()
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]
    assert bench.commits == 1
    assert bench.record.decisions[alert_id].attempt == 1
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 1


@on_virtual_time
async def test_each_sink_is_told_of_the_decision_as_it_is_stored() -> None:
    bench = Bench(options=WorkerOptions(sinks=("hook", "file")))
    (alert_id,) = bench.record.add(IDS[0])
    await bench.run_out()
    body = canonical_json(decision_document(bench.record.decisions[alert_id]))
    assert [(m.sink, m.key, m.body) for m in bench.record.messages] == [
        ("hook", f"{alert_id}:decision", body),
        ("file", f"{alert_id}:decision", body),
    ]


@on_virtual_time
async def test_without_sinks_there_are_no_messages() -> None:
    bench = Bench(options=WorkerOptions())
    bench.record.add(IDS[0])
    await bench.run_out()
    assert bench.record.messages == []


@on_virtual_time
async def test_the_most_severe_is_taken_first() -> None:
    bench = Bench(lanes=Lanes(fast=1, slow=1))
    bench.record.add(IDS[0], severity=Severity.INFO)
    bench.record.add(IDS[1], severity=Severity.WARNING)
    bench.record.add(IDS[2], severity=Severity.CRITICAL)
    await bench.run_out()
    commits = [about for event, about in bench.record.journal if event == "commit"]
    assert commits == [IDS[2], IDS[1], IDS[0]]


@on_virtual_time
async def test_closing_the_sources_of_an_old_snapshot_holds_up_no_decision() -> None:
    may_close = asyncio.Event()

    async def close(_: GuardedSource) -> None:
        await may_close.wait()

    bench = Bench(close=close)
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        assert bench.snapshots is not None
        sop = procedure(node("a"), version=2)
        await bench.snapshots.replace(snapshot(sop, no_sites(sop), library(), {}))
        bench.source.release()
        await until(lambda: bench.record.happened(alert_id) == ["attempt", "commit", "ack"])
        assert bench.lanes.fast_in_use == 1
        may_close.set()


# --- what others did meanwhile --------------------------------------------------------------------


@on_virtual_time
async def test_a_delivery_of_an_alert_that_nobody_knows_is_acked() -> None:
    bench = Bench()
    bench.record.queue.put(AlertId(IDS[0]), Severity.WARNING)
    await bench.run_out()
    assert bench.record.journal == [("ack", IDS[0])]


@pytest.mark.parametrize(
    "status", [AlertStatus.DECIDED, AlertStatus.DEAD_LETTERED, AlertStatus.DISCARDED]
)
@on_virtual_time
async def test_a_delivery_of_an_alert_that_is_done_is_acked(status: AlertStatus) -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].status = status
    await bench.run_out()
    assert bench.record.journal == [("ack", alert_id)]
    assert not bench.source.asked


@on_virtual_time
async def test_the_loser_of_two_attempts_acks_and_tells_nobody() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.lose(alert_id)
    assert bench.record.happened(alert_id) == ["attempt", "ack"]
    assert bench.commits == 0
    assert bench.record.messages == []
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 0


@on_virtual_time
async def test_a_resolve_during_the_attempt_suppresses_the_actions() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.decide_resolved(alert_id)
    decision = bench.record.decisions[alert_id]
    assert (decision.outcome.value, decision.actions) == ("resolved", ())
    assert [dropped.reason.value for dropped in decision.dropped] == ["resolved"]
    assert bench.record.happened(alert_id).count("commit") == 1
    (message,) = bench.record.messages
    assert orjson.loads(message.body)["outcome"] == "resolved"
    assert bench.world is not None
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="resolved") == 1
    assert sample(bench.world.metrics, "triage_decisions_total", outcome="actions") == 0


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["begin_attempt", "commit"])
@on_virtual_time
async def test_a_store_that_fails_once_costs_an_attempt_and_no_decision(method: str) -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures[method] = [LOST]
    await bench.run_out()
    assert bench.record.happened(alert_id).count("commit") == 1
    assert bench.record.happened(alert_id)[-1] == "ack"
    assert bench.record.dead == {}
    assert asyncio.get_running_loop().time() >= RETRY_DELAY_S


@pytest.mark.parametrize("error", [LOST, GONE], ids=["store", "broker"])
@on_virtual_time
async def test_an_ack_that_fails_is_made_good_when_the_lease_ends(error: Exception) -> None:
    """The decision stands: it is not made again, nor told again."""
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["settle"] = [error]
    await bench.run_out()
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]
    assert bench.commits == 1
    assert asyncio.get_running_loop().time() >= LEASE_S


@pytest.mark.parametrize("error", [LOST, GONE], ids=["store", "broker"])
@on_virtual_time
async def test_a_queue_in_trouble_is_asked_again_later_and_later(error: Exception) -> None:
    bench = Bench()
    bench.record.failures["receive"] = [error] * 12
    async with bench.running():
        await until(lambda: len(bench.record.queue.receives) > 13)
    waits = [b - a for a, b in pairwise(bench.record.queue.receives)][:12]
    assert 0.1 <= waits[0] <= 0.2
    assert max(waits) <= 5
    assert min(waits[6:]) >= 2.5


@on_virtual_time
async def test_while_the_broker_is_away_what_is_under_way_goes_on() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.source.hold()
    async with bench.running():
        await bench.source.waiting.wait()
        bench.record.failures.update(
            {name: [GONE] * 1000 for name in ("receive", "extend", "settle", "publish")}
        )
        bench.source.release()
        await until(lambda: bench.record.settled)
        assert bench.record.happened(alert_id) == ["attempt", "commit"]
        bench.record.failures.clear()
        await until(lambda: not bench.record.queue.entries)
    assert bench.record.happened(alert_id) == ["attempt", "commit", "ack"]
    assert bench.record.rows[alert_id].attempts == 1


@on_virtual_time
async def test_what_could_not_even_be_given_back_comes_again_when_its_lease_ends() -> None:
    bench = Bench()
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures = {"commit": [LOST], "settle": [LOST]}
    await bench.run_out()
    assert bench.record.happened(alert_id) == ["attempt", "attempt", "commit", "ack"]
    assert asyncio.get_running_loop().time() >= LEASE_S


@on_virtual_time
async def test_the_second_try_comes_soon_and_further_ones_later() -> None:
    bench = Bench(options=WorkerOptions(max_attempts=100))
    bench.record.add(IDS[0])
    bench.record.failures["commit"] = [LOST] * 8
    await bench.run_out()
    waits = [b - a for a, b in pairwise(bench.record.begun)]
    assert waits[0] == pytest.approx(RETRY_DELAY_S, abs=0.2)
    assert waits[-1] == pytest.approx(LONGEST_RETRY_DELAY_S, abs=0.2)


@on_virtual_time
async def test_a_fault_of_this_project_ends_as_a_dead_letter_and_spares_the_others() -> None:
    class Broken(MemorySource):
        async def ask(self, query: Query, *, timeout_s: float) -> Answer:
            if self.crashes:
                self.crashes -= 1
                raise ZeroDivisionError("a bug")
            return await super().ask(query, timeout_s=timeout_s)

        crashes = 3

    bench = Bench(
        source=Broken(MEMORY, lambda _: value(20)),
        options=WorkerOptions(max_attempts=3),
        lanes=Lanes(fast=1, slow=1),
    )
    bad, good = bench.record.add(IDS[0], IDS[1])
    bench.record.queue.entries[good].available_at = 100.0
    await bench.run_out()
    assert bench.record.happened(bad) == [*["attempt", "return"] * 3, "attempt", "dead", "ack"]
    reason, detail = bench.record.dead[bad]
    assert reason == "attempts_used_up"
    assert detail == (
        "3 attempts ended without a decision: 3 failed here and gave the alert back,"
        " the last with ZeroDivisionError: a bug"
    )
    assert bench.record.happened(good) == ["attempt", "commit", "ack"]


@on_virtual_time
async def test_a_dead_letter_says_what_ended_attempts_that_this_process_did_not_see() -> None:
    bench = Bench(options=WorkerOptions(max_attempts=3))
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].attempts = 3
    await bench.run_out()
    reason, detail = bench.record.dead[alert_id]
    assert reason == "attempts_used_up"
    assert detail.startswith("3 attempts ended without a decision: of 3 this process did not see")
    assert "a process ended" in detail
    assert not bench.source.asked


@on_virtual_time
async def test_a_dead_letter_that_cannot_be_written_is_tried_again() -> None:
    bench = Bench(options=WorkerOptions(max_attempts=1))
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.rows[alert_id].attempts = 1
    bench.record.failures["dead_letter"] = [LOST]
    await bench.run_out()
    assert bench.record.happened(alert_id)[-2:] == ["dead", "ack"]


@on_virtual_time
async def test_a_store_in_trouble_for_long_loses_nothing() -> None:
    """Nor does it dead-letter: what was never tried has not used up its attempts."""
    bench = Bench()
    bench.record.add(*IDS[:20])
    bench.record.failures["begin_attempt"] = [LOST] * 200
    bench.record.failures["receive"] = [LOST] * 10
    await bench.run_out()
    assert len(bench.record.decisions) == 20
    assert bench.record.dead == {}


@on_virtual_time
async def test_a_disk_that_stays_full_uses_up_no_attempts() -> None:
    """A small write may still succeed where the decision does not fit."""
    bench = Bench(options=WorkerOptions(max_attempts=3))
    (alert_id,) = bench.record.add(IDS[0])
    bench.record.failures["commit"] = [LOST] * 50
    await bench.run_out()
    assert bench.record.dead == {}
    assert bench.record.decisions[alert_id].attempt == 51
