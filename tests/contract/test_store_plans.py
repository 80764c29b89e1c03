"""What sweeping, purging, storms and dead letters cost does not grow with the store: each of their
statements goes through an index, on both databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.gap_world import gap
from tests.contract.shadow_world import comparison, pair
from tests.contract.store_world import HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.adapters.store.transaction import Transaction
from triage.model.alert import AlertId
from triage.ports import Compared, Message

GROWING = (
    "alerts",
    "decisions",
    "deliveries",
    "events",
    "outbox",
    "gap_cases",
    "episodes",
    "shadow_comparisons",
    "watch_findings",
)


@dataclass(slots=True)
class Spy:
    """Statements as they were run, each with values it was run with."""

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def about(self, *tables: str) -> dict[str, dict[str, Any]]:
        return {
            text: values
            for text, values in self.seen.items()
            if any(table in text for table in tables) and not text.startswith("INSERT")
        }


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spied = Spy()
    execute, run_each = Transaction._execute, Transaction.run_each  # noqa: SLF001 - to look at

    def seen(of: Transaction, statement: Any, values: dict[str, Any]) -> None:
        text, literals = of._compiler.text(statement)  # noqa: SLF001
        spied.seen[text] = {**literals, **values}

    def executing(self: Transaction, statement: Any, values: dict[str, Any]) -> Any:
        seen(self, statement, values)
        return execute(self, statement, values)

    def running(self: Transaction, statement: Any, rows: Any) -> int:
        rows = list(rows)
        for row in rows[:1]:
            seen(self, statement, dict(row))
        return run_each(self, statement, rows)

    monkeypatch.setattr(Transaction, "_execute", executing)
    monkeypatch.setattr(Transaction, "run_each", running)
    return spied


def plan(maker: StoreMaker, text: str, values: dict[str, Any]) -> list[str]:
    if maker.backend == "sqlite":
        with closing(sqlite3.connect(maker.location)) as connection:
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    with psycopg.connect(str(maker.location)) as server:
        server.execute("SET enable_seqscan = off")  # a small table is read whole, and rightly so
        return [row[0].strip() for row in server.execute(f"EXPLAIN {text}".encode(), values)]


def reads_all(step: str, allowed: tuple[str, ...] = ()) -> bool:
    tables = [table for table in GROWING if table not in allowed]
    return any(f"SCAN {table}" in step or f"Seq Scan on {table}" in step for table in tables)


def assert_indexed(maker: StoreMaker, spy: Spy, *, at_least: int) -> None:
    statements = spy.about(*GROWING, "dead_letters")
    assert len(statements) >= at_least, list(statements)
    for text, values in statements.items():
        steps = plan(maker, text, values)
        assert not [step for step in steps if reads_all(step)], (text, steps)


async def lives(store: Store, clock: HandClock) -> AlertId:
    """A little of everything, so that every step has something to do; the id of one that is
    dead-lettered."""
    for n in range(3):
        keyed = arrival(f"f{n}", delivery_key=f"k{n}", starts_at_ns=None)
        [answer] = await store.alerts.accept([keyed])
        assert answer.alert_id is not None
        messages = [Message(sink="hook", key=answer.alert_id, body=b"")]
        gaps = [gap(answer.alert_id, "n")]
        await store.decisions.commit(decision(answer.alert_id), {}, messages, gaps)
        await store.alerts.accept([resolve(f"f{n}", starts_at_ns=None)])
    await store.shadows.compared([comparison("a"), comparison("b")])
    for row in await store.outbox.due("hook", now=clock.now(), limit=9):
        await store.outbox.delivered([row.row])
    dead = []
    for n in range(2):
        [answer] = await store.alerts.accept([arrival(f"dead{n}")])
        assert answer.alert_id is not None
        await store.alerts.dead_letter(answer.alert_id, "attempts_used_up", "")
        dead.append(answer.alert_id)
    await store.dead_letters.discard(dead[0], by="ann", note="", at=clock.now())
    await store.alerts.accept([arrival("pending")])
    return dead[1]


async def test_sweeping_goes_through_the_index_of_the_pending(
    make_store: StoreMaker, spy: Spy
) -> None:
    clock = HandClock()
    store = await make_store(clock=clock)
    await lives(store, clock)
    clock.advance(60)
    spy.seen.clear()

    [(alert_id, _)] = await store.alerts.to_wake(limit=5)
    await store.alerts.begin_attempt(alert_id)
    await store.alerts.hold([alert_id])
    await store.alerts.wake_all()

    assert_indexed(make_store, spy, at_least=4)
    for text, values in spy.about("wake_at <=", "wake_at >").items():
        steps = " ".join(plan(make_store, text, values))
        # Of three rows PostgreSQL may as well read all that are pending: it has statistics, and
        # looks at them when it likes.
        known = ["ix_alerts_wake_at", "ix_alerts_status_accepted_at"]
        assert any(
            index in steps for index in known[: 1 if make_store.backend == "sqlite" else 2]
        ), steps
        assert "TEMP B-TREE" not in steps


async def test_purging_goes_from_the_oldest_through_an_index(
    make_store: StoreMaker, spy: Spy
) -> None:
    clock = HandClock()
    store = await make_store(clock=clock)
    await lives(store, clock)
    clock.advance(86_400)
    spy.seen.clear()

    purged = await store.retention.purge(older_than=clock.now(), max_bytes=1)

    assert (purged.decisions, purged.events, purged.deliveries, purged.gap_cases) == (4, 4, 3, 3)
    assert purged.comparisons == 2
    assert_indexed(make_store, spy, at_least=15)
    for text, values in spy.about("ORDER BY decisions.decided_at, decisions.alert_id").items():
        steps = plan(make_store, text, values)
        if make_store.backend == "sqlite":  # PostgreSQL goes by how many there are
            assert any("ix_decisions_decided_at" in step for step in steps), steps
            assert not any("TEMP B-TREE" in step for step in steps), steps


async def test_comparisons_are_paged_through_the_index_of_those_that_are_kept(
    make_store: StoreMaker, spy: Spy
) -> None:
    store = await make_store(clock=HandClock())
    results = (Compared.AGREES, Compared.DIFFERS, Compared.DIFFERS, Compared.FAILED)
    await store.shadows.compared([comparison(f"a{n}", one) for n, one in enumerate(results)])
    spy.seen.clear()

    for result in (None, Compared.DIFFERS):
        await store.shadows.comparison_page(pair(), result=result, cursor="", limit=1)
    await store.watch.findings()
    await store.watch.findings(node="n", closed=True)

    assert_indexed(make_store, spy, at_least=4)
    for text, values in spy.about("FROM shadow_comparisons").items():
        steps = " ".join(plan(make_store, text, values))
        if make_store.backend == "sqlite":
            index = "result" if "its_result" in values else "pair"
            assert f"ix_shadow_comparisons_{index}" in steps, steps
            assert "TEMP B-TREE" not in steps, steps


async def test_dead_letters_are_found_by_their_keys(make_store: StoreMaker, spy: Spy) -> None:
    clock = HandClock()
    store = await make_store(clock=clock)
    dead = await lives(store, clock)
    spy.seen.clear()

    page = await store.dead_letters.dead_letter_page(reason="", cursor="", limit=1)
    assert [letter.dead_letter_id for letter in page.dead_letters] == [dead]
    await store.dead_letters.dead_letter_page(reason="attempts_used_up", cursor="", limit=1)
    await store.dead_letters.dead_letter(dead)
    await store.dead_letters.redrive(dead, by="ann", at=clock.now())
    await store.alerts.dead_letter(dead, "attempts_used_up", "")
    await store.dead_letters.discard(dead, by="ann", note="", at=clock.now())

    assert_indexed(make_store, spy, at_least=6)
    for text, values in spy.about("ORDER BY dead_letters.at").items():
        steps = plan(make_store, text, values)
        assert any("ix_dead_letters_at" in step for step in steps), steps
        assert not any("TEMP B-TREE" in step for step in steps), steps


async def test_accepting_in_a_storm_and_the_backlog_read_no_table_whole(
    make_store: StoreMaker, spy: Spy
) -> None:
    clock = HandClock()
    store = await make_store(clock=clock, coalesce_s=60)
    await lives(store, clock)
    spy.seen.clear()

    for n in range(2, 4):
        keyed = arrival(delivery_key="k", starts_at_ns=n), arrival("g", starts_at_ns=None)
        await store.alerts.accept([*keyed, resolve(starts_at_ns=1)])
    assert (await store.ledger.ledger()).backlog

    assert_indexed(make_store, spy, at_least=5)
    for text, values in spy.about("coalesced_into IS NULL").items():
        steps = " ".join(plan(make_store, text, values))
        assert "ix_alerts_key" in steps, steps
