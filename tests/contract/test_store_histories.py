"""Any history of accepting, deciding, giving up, trying again, taking out, sweeping and purging
ends with a ledger that balances and says what a model of it says, on either database."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

import pytest
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
from triage.model.alert import AcceptStatus, AlertId, occurrence_id
from triage.model.decision import Outcome
from triage.ports import CommitStatus, DeadLetter, Message

T = TypeVar("T")

LEASE_S, SWEEP_S, WINDOW_S = 30.0, 10.0, 5.0
OCCURRENCES = st.tuples(st.sampled_from("fg"), st.sampled_from([1, 2, 3]))
MESSAGES = st.sampled_from(["m1", "m2"])
REPLICAS = st.sampled_from([0, 1])


@dataclass
class Known:
    """What the model holds of an alert that is stored."""

    status: str
    accepted_at: float
    seen_at: float
    resolved: bool
    attempts: int = 0
    decided_at: float = 0
    owed: bool = False
    wake_at: float = 0


@dataclass
class Counts:
    accepted: int = 0
    decided: int = 0
    discarded: int = 0
    purged: int = 0


@dataclass
class Model:
    alerts: dict[AlertId, Known] = field(default_factory=dict)
    messages: set[str] = field(default_factory=set)
    counts: Counts = field(default_factory=Counts)

    def having(self, *statuses: str) -> list[AlertId]:
        return sorted(key for key, known in self.alerts.items() if known.status in statuses)


class HistoryMachine(RuleBasedStateMachine):
    """`databases` is set by the test: None for SQLite, where the two replicas are one."""

    databases: ClassVar[Databases | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.runner = self.resources.enter_context(asyncio.Runner())
        self.clock = HandClock()
        self.model = Model()
        if self.databases is None:
            folder = self.resources.enter_context(TemporaryDirectory())
            location: str | Path = migrated(Path(folder) / "triage.db")
            number = 1
        else:
            location = self.databases.new()
            self.resources.callback(self.databases.drop, location)
            number = 2
        self.replicas = [self.run(self.open(location)) for _ in range(number)]

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    async def open(self, location: str | Path) -> Store:
        return await Store.open(
            location, clock=self.clock, lease_s=LEASE_S, sweep_s=SWEEP_S, coalesce_s=WINDOW_S
        )

    def replica(self, number: int) -> Store:
        return self.replicas[number % len(self.replicas)]

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def enter(self, alert_id: AlertId, *, resolved: bool, sweep_s: float = SWEEP_S) -> None:
        self.model.counts.accepted += 1
        self.model.alerts[alert_id] = Known(
            "pending", self.now, self.now, resolved, wake_at=self.now + sweep_s
        )

    @rule(seconds=st.sampled_from([1, 6, 40, 100_000]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(what=OCCURRENCES, ends=st.booleans(), number=REPLICAS)
    def accept(self, what: tuple[str, int], ends: bool, number: int) -> None:
        made = (resolve if ends else arrival)(what[0], starts_at_ns=what[1])
        [answer] = self.run(self.replica(number).alerts.accept([made]))
        alert_id = occurrence_id("alertmanager", "", *what)
        assert answer.alert_id == alert_id
        known = self.model.alerts.get(alert_id)
        if known is None:
            assert answer.status is AcceptStatus.NEW
            self.enter(alert_id, resolved=ends)
            return
        assert answer.status is (AcceptStatus.RESOLVED if ends else AcceptStatus.KNOWN)
        known.resolved = known.resolved or ends
        if known.seen_at < self.now - 86_400:
            known.seen_at = self.now

    @precondition(lambda self: self.model.alerts)
    @rule(data=st.data(), number=REPLICAS)
    def begin(self, data: st.DataObject, number: int) -> None:
        alert_id = data.draw(st.sampled_from(sorted(self.model.alerts)))
        known = self.model.alerts[alert_id]
        stored = self.run(self.replica(number).alerts.begin_attempt(alert_id))
        assert stored is not None
        assert (stored.status, stored.attempts) == (known.status, known.attempts)
        if known.status == "pending":
            known.attempts += 1
            known.wake_at = self.now + LEASE_S + SWEEP_S

    @precondition(lambda self: self.model.alerts)
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACTIONS, Outcome.RESOLVED]))
    def commit(self, data: st.DataObject, outcome: Outcome) -> None:
        """By two replicas at once."""
        alert_id = data.draw(st.sampled_from(sorted(self.model.alerts)))
        known = self.model.alerts[alert_id]
        messages = [Message(sink="hook", key=f"{alert_id}:{outcome.value}", body=b"")]

        async def both() -> list[CommitStatus]:
            return await asyncio.gather(
                *(
                    self.replica(n).decisions.commit(decision(alert_id, outcome), {}, messages)
                    for n in range(2)
                )
            )

        statuses = self.run(both())
        if known.status != "pending":
            assert statuses == [CommitStatus.ALREADY_DECIDED] * 2
        elif known.resolved and outcome is not Outcome.RESOLVED:
            assert statuses == [CommitStatus.RESOLVED_MEANWHILE] * 2
        else:
            assert sorted(statuses) == [CommitStatus.ALREADY_DECIDED, CommitStatus.COMMITTED]
            known.status, known.decided_at, known.owed = "decided", self.now, True
            self.model.counts.decided += 1

    @rule(gives_up=st.booleans())
    def send(self, gives_up: bool) -> None:
        outbox = self.replica(0).outbox
        for row in self.run(outbox.due("hook", now=self.clock.now(), limit=2)):
            if gives_up:
                self.run(outbox.give_up(row.row, error="410"))
            else:
                self.run(outbox.delivered([row.row]))
            self.model.alerts[row.alert_id].owed = False

    @precondition(lambda self: self.model.alerts)
    @rule(data=st.data(), number=REPLICAS)
    def give_up(self, data: st.DataObject, number: int) -> None:
        alert_id = data.draw(st.sampled_from(sorted(self.model.alerts)))
        known = self.model.alerts[alert_id]
        done = self.run(self.replica(number).alerts.dead_letter(alert_id, "crashed", "often"))
        assert done is (known.status == "pending")
        if done:
            known.status = "dead_lettered"

    @rule(name=MESSAGES)
    def bury(self, name: str) -> None:
        """At two replicas at once."""
        message = DeadLetter(
            dead_letter_id=name, stream="s", format="native", payload=b"", reason="payload",
            detail="", attempts=1, at=self.clock.now(),
        )  # fmt: skip

        async def both() -> list[bool]:
            return await asyncio.gather(
                *(self.replica(n).dead_letters.bury(message) for n in range(2))
            )

        assert sorted(self.run(both())) == [False, name not in self.model.messages]
        if name not in self.model.messages:
            self.model.messages.add(name)
            self.model.counts.accepted += 1

    def lying(self) -> list[str]:
        return [*self.model.having("dead_lettered"), *sorted(self.model.messages)]

    @precondition(lambda self: self.lying())
    @rule(data=st.data(), what=OCCURRENCES, number=REPLICAS)
    def redrive(self, data: st.DataObject, what: tuple[str, int], number: int) -> None:
        name = data.draw(st.sampled_from(self.lying()))
        arrivals = [arrival(what[0], starts_at_ns=what[1])] if name in self.model.messages else []
        work = self.run(
            self.replica(number).dead_letters.redrive(
                name, by="ann", at=self.clock.now(), arrivals=arrivals
            )
        )
        assert work is not None
        if not arrivals:
            known = self.model.alerts[AlertId(name)]
            known.status, known.attempts, known.wake_at = "pending", 0, self.now
            assert [answer.alert_id for answer in work] == [name]
            return
        self.model.messages.remove(name)
        self.model.counts.accepted -= 1
        alert_id = occurrence_id("alertmanager", "", *what)
        known_before = self.model.alerts.get(alert_id)
        if known_before is None:
            self.enter(alert_id, resolved=False, sweep_s=0)
            assert [answer.alert_id for answer in work] == [alert_id]
        else:
            assert work == []
            if known_before.seen_at < self.now - 86_400:
                known_before.seen_at = self.now

    @precondition(lambda self: self.lying())
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        """By two people at once."""
        name = data.draw(st.sampled_from(self.lying()))

        async def both() -> list[bool]:
            return await asyncio.gather(
                *(
                    self.replica(n).dead_letters.discard(
                        name, by="ann", note="", at=self.clock.now()
                    )
                    for n in range(2)
                )
            )

        assert sorted(self.run(both())) == [False, True]
        self.model.counts.discarded += 1
        if name in self.model.messages:
            self.model.messages.remove(name)
            self.model.counts.purged += 1
        else:
            self.model.alerts[AlertId(name)].status = "discarded"

    @rule(age_s=st.sampled_from([0, 3, 200_000]), number=REPLICAS)
    def purge(self, age_s: int, number: int) -> None:
        before = self.now - age_s
        going = [
            alert_id
            for alert_id, known in self.model.alerts.items()
            if not known.owed
            and (known.seen_at <= known.accepted_at or known.seen_at < before)
            and (
                (known.status == "decided" and known.decided_at < before)
                or (known.status == "discarded" and known.accepted_at < before)
            )
        ]
        clock = HandClock()
        clock.advance(before)
        purged = self.run(
            self.replica(number).retention.purge(older_than=clock.now(), max_bytes=None)
        )
        assert purged.decisions == len(going)
        self.model.counts.purged += len(going)
        for alert_id in going:
            del self.model.alerts[alert_id]

    @rule(number=REPLICAS)
    def sweep(self, number: int) -> None:
        woken = self.run(self.replica(number).alerts.to_wake(limit=100))
        due = [
            alert_id
            for alert_id in self.model.having("pending")
            if self.model.alerts[alert_id].wake_at <= self.now
        ]
        assert sorted(alert_id for alert_id, _ in woken) == due
        for alert_id in due:
            known = self.model.alerts[alert_id]
            known.wake_at = self.now + min(300, max(SWEEP_S, self.now - known.accepted_at))

    @rule()
    def forget(self) -> None:
        self.run(self.replica(0).alerts.wake_all())
        for alert_id in self.model.having("pending"):
            known = self.model.alerts[alert_id]
            held_until = known.wake_at - self.now
            if not known.attempts or not SWEEP_S < held_until <= SWEEP_S + LEASE_S:
                known.wake_at = min(known.wake_at, self.now)

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        view = self.replica(0).ledger
        ledger = self.run(view.ledger(full=True))
        assert ledger.balances, ledger
        assert ledger == self.run(view.ledger())
        counts = self.model.counts
        assert ledger.accepted == counts.accepted
        assert (ledger.decided, ledger.discarded) == (counts.decided, counts.discarded)
        assert ledger.purged == counts.purged
        assert ledger.pending == len(self.model.having("pending"))
        assert ledger.dead_lettered == len(self.lying())
        assert sum(part.pending for part in ledger.backlog.values()) == ledger.pending

    def teardown(self) -> None:
        for store in self.replicas:
            self.run(store.close())
        self.resources.close()


@pytest.fixture(params=["sqlite", "postgres"])
def examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    if request.param == "sqlite":
        yield 25
        return
    databases = request.getfixturevalue("postgres_databases")
    monkeypatch.setattr(HistoryMachine, "databases", databases)
    yield 5


def test_any_history_ends_in_a_ledger_that_balances(examples: int) -> None:
    run_state_machine_as_test(
        HistoryMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
