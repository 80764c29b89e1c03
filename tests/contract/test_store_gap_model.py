"""Gaps against a model of them: any history, crashes included, ends in the same groups."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine
from dataclasses import dataclass, field
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
from tests.contract.gap_world import gap
from tests.contract.store_world import HandClock, arrival, decision, migrated, resolve
from triage.adapters.store import Store
from triage.model.alert import AlertId
from triage.model.decision import Outcome
from triage.model.gap import Gap
from triage.ports import CommitStatus

T = TypeVar("T")

NODES = ("a", "b", "c")


@dataclass
class Group:
    """`at` of each case by its alert."""

    cases: dict[AlertId, datetime] = field(default_factory=dict)
    closed_at: datetime | None = None
    closings: int = 0


class GapMachine(RuleBasedStateMachine):
    """On an SQLite file."""

    location: str | Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = HandClock()
        self.begin()
        self.store = self.run(self.open())
        self.alerts: list[AlertId] = []
        self.decided: set[AlertId] = set()
        self.resolved: set[AlertId] = set()
        self.groups: dict[str, Group] = {}

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
        return await Store.open(self.location, clock=self.clock)

    @rule()
    def accept(self) -> None:
        self.clock.advance(1)
        [answer] = self.run(self.store.alerts.accept([arrival(f"f{len(self.alerts)}")]))
        assert answer.alert_id is not None
        self.alerts.append(answer.alert_id)

    @precondition(lambda self: self.alerts)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(range(len(self.alerts))))
        self.run(self.store.alerts.accept([resolve(f"f{number}")]))
        self.resolved.add(self.alerts[number])

    @precondition(lambda self: self.alerts)
    @rule(
        data=st.data(),
        nodes=st.lists(st.sampled_from(NODES), max_size=4),
        late_s=st.integers(0, 5),
        outcome=st.sampled_from([Outcome.ESCALATE, Outcome.RESOLVED]),
    )
    def commit(self, data: st.DataObject, nodes: list[str], late_s: int, outcome: Outcome) -> None:
        """`nodes` may name one twice; the attempt began `late_s` before now."""
        alert_id = data.draw(st.sampled_from(self.alerts))
        self.clock.advance(1)
        at = self.clock.now() - timedelta(seconds=late_s)
        gaps = [gap(alert_id, node, at=at) for node in nodes]
        status = self.run(self.store.decisions.commit(decision(alert_id, outcome), {}, (), gaps))
        if alert_id in self.decided:
            assert status is CommitStatus.ALREADY_DECIDED
        elif alert_id in self.resolved and outcome is not Outcome.RESOLVED:
            assert status is CommitStatus.RESOLVED_MEANWHILE
        else:
            assert status is CommitStatus.COMMITTED
            self.decided.add(alert_id)
            for one in gaps:
                self.expect_case(one)

    def expect_case(self, one: Gap) -> None:
        group = self.groups.setdefault(one.gap_id, Group())
        group.cases[one.alert_id] = one.at
        if group.closed_at is not None and one.at > group.closed_at:
            group.closed_at = None

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        gap_id = data.draw(st.sampled_from(sorted(self.groups)))
        group = self.groups[gap_id]
        now = self.clock.now()
        closed = self.run(self.store.gaps.close_gap(gap_id, by="ann", note="done", at=now))
        assert closed is (group.closed_at is None)
        if closed:
            group.closed_at = now
            group.closings += 1

    @rule()
    def crash(self) -> None:
        self.die()
        self.run(self.store.close())
        self.store = self.run(self.open())

    @invariant()
    def every_group_is_as_its_cases_have_it(self) -> None:
        for gap_id, group in self.groups.items():
            found = self.run(self.store.gaps.gap(gap_id))
            assert found is not None
            cases = self.run(self.store.gaps.gap_cases(gap_id, limit=100))
            assert {case.alert_id: case.at for case in cases} == group.cases
            times = sorted(group.cases.values())
            assert found.count == len(times) == len(cases)
            assert (found.first_at, found.last_at, found.latest.at) == (
                times[0],
                times[-1],
                times[-1],
            )
            assert found.closed_at == group.closed_at
            assert found.note.count("done") == group.closings

    @invariant()
    def the_lists_part_them(self) -> None:
        gaps = self.store.gaps
        for closed in (False, True):
            page = self.run(gaps.gap_page(closed=closed, node="", cursor="", limit=100))
            wanted = {k for k, group in self.groups.items() if bool(group.closed_at) is closed}
            assert {one.gap_id for one in page.gaps} == wanted
            if not closed:
                assert self.run(gaps.open_gaps()) == len(wanted)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        self.end_all()


TestGapMachine = GapMachine.TestCase
TestGapMachine.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class GapMachineOnPostgres(GapMachine):
    databases: Databases

    def begin(self) -> None:
        self.location = self.databases.new()

    def die(self) -> None:
        """The server ends every session, as it does with those of a process that is gone."""
        self.databases.end_sessions(str(self.location))

    def end_all(self) -> None:
        self.databases.drop(str(self.location))


def test_the_same_on_postgresql(postgres_databases: Databases) -> None:
    GapMachineOnPostgres.databases = postgres_databases
    # A statement is a round trip here: the rules are SQLite's to try, this shows they are kept.
    run_state_machine_as_test(
        GapMachineOnPostgres, settings=settings(GapMachine.TestCase.settings, max_examples=3)
    )
