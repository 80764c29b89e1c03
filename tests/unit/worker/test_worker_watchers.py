"""Whoever watches is told of each decision once: by the worker that stored it, when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.worker.bench import GONE, IDS, LOST, Bench
from triage.engine.engine import Decided
from triage.engine.snapshot import Snapshot
from triage.model.alert import Alert
from triage.model.decision import Outcome


@dataclass(slots=True)
class Watching:
    """Implements `Watcher`, and notes what had happened by then."""

    bench: Bench
    offered: list[tuple[Alert, Decided, Snapshot]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)

    def offer(self, alert: Alert, decided: Decided, snapshot: Snapshot, /) -> None:
        self.offered.append((alert, decided, snapshot))
        self.after.append(self.bench.record.happened(alert.alert_id))


def watched(**more: Any) -> tuple[Bench, Watching, Watching]:
    bench = Bench(**more)
    first, second = Watching(bench), Watching(bench)
    bench.watchers = (first, second)
    return bench, first, second


@on_virtual_time
async def test_every_watcher_is_told_when_all_is_done() -> None:
    bench, first, second = watched()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.run_out()
    assert first.after == second.after == [["attempt", "commit", "ack"]]
    ((alert, decided, snapshot),) = first.offered
    assert second.offered == first.offered
    assert alert.alert_id == alert_id
    assert decided.decision is bench.record.decisions[alert_id]
    assert set(decided.evidence) == {
        asked.answer_sha256 for result in decided.decision.nodes for asked in result.asked
    }
    assert bench.world is not None
    assert snapshot is bench.world.snapshot


@on_virtual_time
async def test_the_loser_of_two_attempts_tells_nobody() -> None:
    bench, first, _ = watched()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.lose(alert_id)
    assert bench.record.happened(alert_id) == ["attempt", "ack"]
    assert first.offered == []


@on_virtual_time
async def test_they_are_told_what_was_stored_in_the_end() -> None:
    bench, first, _ = watched()
    (alert_id,) = bench.record.add(IDS[0])
    await bench.decide_resolved(alert_id)
    ((_, decided, _),) = first.offered
    assert decided.decision is bench.record.decisions[alert_id]
    assert decided.decision.outcome is Outcome.RESOLVED
    assert decided.evidence


@on_virtual_time
async def test_a_commit_that_fails_is_told_of_once_it_does_not() -> None:
    bench, first, _ = watched()
    bench.record.add(IDS[0])
    bench.record.failures["commit"] = [LOST, LOST]
    await bench.run_out()
    assert len(first.offered) == 1


@on_virtual_time
async def test_an_ack_that_fails_is_nobody_elses_affair() -> None:
    bench, first, _ = watched()
    bench.record.add(IDS[0])
    bench.record.failures["settle"] = [GONE]
    await bench.run_out()
    assert len(first.offered) == 1


@on_virtual_time
async def test_an_alert_that_is_given_up_is_no_decision() -> None:
    bench, first, _ = watched()
    bench.record.add(IDS[0])
    bench.record.failures["commit"] = [RuntimeError("a fault of ours")] * 99
    await bench.run_out()
    assert bench.record.dead
    assert first.offered == []
