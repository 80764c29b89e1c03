"""The store against a model of it: any history, crashes included, ends in the same state."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.conftest import Databases
from tests.contract.store_world import HandClock, arrival, decision, migrated, resolve
from triage.adapters.store import Store
from triage.model.alert import (
    Accepted,
    AcceptStatus,
    AlertId,
    Arrival,
    episode_id,
    occurrence_id,
)
from triage.model.decision import Outcome
from triage.ports import CommitStatus

T = TypeVar("T")

LEASE_S = 30.0
FINGERPRINTS = st.sampled_from(["f", "g"])
STARTS = st.sampled_from([1, 2])
KEYS = st.just("k")  # one: its history has to become long
LATE_S = st.sampled_from([None, 0, 3, 1000])  # how long before now the sender says it was


@dataclass
class Occurrence:
    status: str = "pending"
    resolved: bool = False
    outcome: str = ""


@dataclass
class Episodes:
    count: int = 0
    open: bool = False
    resolved_at: datetime | None = None


class StoreMachine(RuleBasedStateMachine):
    """On an SQLite file."""

    location: str | Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = HandClock()
        self.begin()
        self.store = self.run(self.open())
        self.occurrences: dict[AlertId, Occurrence] = {}
        self.episodes: dict[str, Episodes] = {}

    def begin(self) -> None:
        self.directory = TemporaryDirectory()
        self.location = migrated(Path(self.directory.name) / "0.db")
        self.lives = 0

    def die(self) -> None:
        """What a SIGKILL leaves is what the kernel has of the files: a copy taken while the
        store is open, without the index that processes share."""
        self.lives += 1
        following = Path(self.directory.name) / f"{self.lives}.db"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{self.location}{suffix}", f"{following}{suffix}")
        self.location = following

    def end_all(self) -> None:
        self.directory.cleanup()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    async def open(self) -> Store:
        return await Store.open(self.location, clock=self.clock, lease_s=LEASE_S)

    def accept(self, what: Arrival) -> Accepted:
        self.clock.advance(1)
        [answer] = self.run(self.store.alerts.accept([what]))
        return answer

    def expect(self, answer: Accepted, alert_id: AlertId, status: AcceptStatus) -> None:
        assert (answer.alert_id, answer.status) == (alert_id, status)

    @rule(fingerprint=FINGERPRINTS, start=STARTS)
    def fire(self, fingerprint: str, start: int) -> None:
        answer = self.accept(arrival(fingerprint, starts_at_ns=start))
        alert_id = occurrence_id("alertmanager", "", fingerprint, start)
        known = alert_id in self.occurrences
        self.expect(answer, alert_id, AcceptStatus.KNOWN if known else AcceptStatus.NEW)
        self.occurrences.setdefault(alert_id, Occurrence())

    @rule(fingerprint=FINGERPRINTS, start=STARTS)
    def end(self, fingerprint: str, start: int) -> None:
        answer = self.accept(resolve(fingerprint, starts_at_ns=start))
        alert_id = occurrence_id("alertmanager", "", fingerprint, start)
        known = alert_id in self.occurrences
        self.expect(answer, alert_id, AcceptStatus.RESOLVED if known else AcceptStatus.NEW)
        self.occurrences.setdefault(alert_id, Occurrence()).resolved = True

    def observed(self, late_s: int | None) -> datetime | None:
        # One second later than now: `accept` moves the clock by as much.
        moment = self.clock.now() + timedelta(seconds=1)
        return None if late_s is None else moment - timedelta(seconds=late_s)

    @rule(fingerprint=KEYS, late_s=LATE_S)
    def trigger(self, fingerprint: str, late_s: int | None) -> None:
        observed = self.observed(late_s)
        what = arrival(f"key-{fingerprint}", starts_at_ns=None, observed_at=observed)
        answer = self.accept(what)
        key = self.episodes.setdefault(fingerprint, Episodes())
        told_late = (
            key.resolved_at is not None and observed is not None and observed < key.resolved_at
        )
        if key.open or (told_late and key.count):
            status = AcceptStatus.KNOWN
        else:
            key.count += 1
            key.open = True
            status = AcceptStatus.NEW
        alert_id = episode_id("alertmanager", "", f"key-{fingerprint}", key.count)
        self.expect(answer, alert_id, status)
        self.occurrences.setdefault(alert_id, Occurrence())

    @rule(fingerprint=KEYS, late_s=LATE_S)
    def end_episode(self, fingerprint: str, late_s: int | None) -> None:
        observed = self.observed(late_s)
        what = resolve(f"key-{fingerprint}", starts_at_ns=None, observed_at=observed)
        answer = self.accept(what)
        key = self.episodes.setdefault(fingerprint, Episodes())
        status, number = AcceptStatus.RESOLVED, key.count
        if not key.count:
            key.count = number = 1
            key.resolved_at = observed or self.clock.now()
            status = AcceptStatus.NEW
        elif key.open and key.resolved_at and observed and observed <= key.resolved_at:
            status, number = AcceptStatus.DUPLICATE, key.count - 1
        elif key.open:
            key.open = False
            key.resolved_at = observed or self.clock.now()
        alert_id = episode_id("alertmanager", "", f"key-{fingerprint}", number)
        self.expect(answer, alert_id, status)
        self.occurrences.setdefault(alert_id, Occurrence()).resolved = True

    @precondition(lambda self: self.occurrences)
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACTIONS, Outcome.RESOLVED]))
    def commit(self, data: st.DataObject, outcome: Outcome) -> None:
        alert_id = data.draw(st.sampled_from(sorted(self.occurrences)))
        occurrence = self.occurrences[alert_id]
        status = self.run(
            self.store.decisions.commit(decision(alert_id, outcome), {"d": b"body"}, ())
        )
        if occurrence.status != "pending":
            assert status is CommitStatus.ALREADY_DECIDED
        elif occurrence.resolved and outcome is not Outcome.RESOLVED:
            assert status is CommitStatus.RESOLVED_MEANWHILE
        else:
            assert status is CommitStatus.COMMITTED
            occurrence.status, occurrence.outcome = "decided", outcome.value

    @precondition(lambda self: self.occurrences)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        alert_id = data.draw(st.sampled_from(sorted(self.occurrences)))
        occurrence = self.occurrences[alert_id]
        buried = self.run(self.store.alerts.dead_letter(alert_id, "crashed", "often"))
        assert buried is (occurrence.status == "pending")
        if buried:
            occurrence.status = "dead_lettered"

    @rule()
    def crash(self) -> None:
        self.die()
        self.run(self.store.close())
        self.store = self.run(self.open())

    @rule()
    def everything_pending_can_be_received(self) -> None:
        self.clock.advance(LEASE_S)
        received = self.run(self.store.queue.receive(limit=1000, wait_s=0))
        pending = {key for key, value in self.occurrences.items() if value.status == "pending"}
        assert pending <= {delivery.alert_id for delivery in received}
        done = [delivery for delivery in received if delivery.alert_id not in pending]
        self.run(self.store.queue.settle(acked=done))

    @invariant()
    def the_ledger_balances(self) -> None:
        ledger = self.run(self.store.ledger.ledger(full=True))
        assert ledger.balances, ledger
        assert ledger == self.run(self.store.ledger.ledger())
        statuses = [occurrence.status for occurrence in self.occurrences.values()]
        assert ledger.accepted == len(statuses)
        assert ledger.decided == statuses.count("decided")
        assert ledger.pending == statuses.count("pending")
        assert ledger.dead_lettered == statuses.count("dead_lettered")

    @invariant()
    def the_first_decision_stands(self) -> None:
        for alert_id, occurrence in self.occurrences.items():
            stored = self.run(self.store.decisions.get(alert_id))
            assert stored is not None
            if occurrence.status == "decided":
                assert stored["outcome"] == occurrence.outcome
            else:
                assert stored == {"status": occurrence.status}

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        self.end_all()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class StoreMachineOnPostgres(StoreMachine):
    databases: Databases

    def begin(self) -> None:
        self.location = self.databases.new()

    def die(self) -> None:
        """The server ends every session, as it does with those of a process that is gone."""
        self.databases.end_sessions(str(self.location))

    def end_all(self) -> None:
        self.databases.drop(str(self.location))


def test_the_same_on_postgresql(postgres_databases: Databases) -> None:
    StoreMachineOnPostgres.databases = postgres_databases
    # A statement is a round trip here: the rules are SQLite's to try, this shows they are kept.
    run_state_machine_as_test(
        StoreMachineOnPostgres, settings=settings(StoreMachine.TestCase.settings, max_examples=4)
    )
