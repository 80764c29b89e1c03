"""Replicas that meet on one PostgreSQL database: who waits, who is undone and done again."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
from sqlalchemy import ClauseElement, bindparam, func, insert, literal, select, update

from tests.contract.conftest import StoreMaker
from tests.contract.replica_world import WITHIN_S, accepted, becomes, waits_for_a_lock
from tests.contract.store_world import HandClock, arrival, decision
from triage.adapters.store import Store, pg_session
from triage.adapters.store.evidence import pack, purge_some, store_evidence
from triage.adapters.store.pg_session import BoundedConnection, PostgresSession
from triage.adapters.store.postgres import Postgres
from triage.adapters.store.schema import ALERTS, SECRETS, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple
from triage.errors import StoreError
from triage.model.decision import Outcome
from triage.ports import CommitStatus

pytestmark = pytest.mark.parametrize("make_store", ["postgres"], indirect=True)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine may take long between two steps of a test; no bound is to end it."""
    for name in ("IDLE_TIMEOUT_S", "LOCK_TIMEOUT_S", "STATEMENT_TIMEOUT_S", "ANSWER_TIMEOUT_S"):
        monkeypatch.setattr(pg_session, name, 2 * WITHIN_S)
    monkeypatch.setattr(BoundedConnection, "patience_s", 2 * WITHIN_S)


@pytest.fixture
async def replicas(make_store: StoreMaker, clock: HandClock) -> tuple[Store, Store]:
    return await make_store(clock=clock), await make_store(clock=clock)


_RESOLVE = update(ALERTS).where(ALERTS.c.alert_id == bindparam("its_id")).values(resolved_at=1)


async def test_a_decision_waits_for_a_resolve_that_is_under_way(
    replicas: tuple[Store, Store], make_store: StoreMaker
) -> None:
    alert_id = await accepted(replicas[0])
    barrier = threading.Barrier(2)
    under_way = threading.Event()

    def resolve_slowly(transaction: Transaction) -> None:
        transaction.run(_RESOLVE, its_id=alert_id)
        under_way.set()
        barrier.wait(WITHIN_S)

    resolving = asyncio.create_task(
        replicas[0].decisions.writer.run(Simple(resolve_slowly), durable=True)
    )
    await becomes(under_way.is_set, "the resolve is written")
    deciding = asyncio.create_task(
        replicas[1].decisions.commit(decision(alert_id, Outcome.ACTIONS), {}, ())
    )
    await becomes(lambda: waits_for_a_lock(make_store), "the decision waits")
    await asyncio.to_thread(barrier.wait, WITHIN_S)
    await resolving
    assert await deciding is CommitStatus.RESOLVED_MEANWHILE
    assert (await replicas[0].ledger.ledger(full=True)).pending == 1


class Overtaken(Transaction):
    """Somebody else is there between the first reading of rows and what follows."""

    meanwhile: Callable[[], None]

    def rows(self, statement: ClauseElement, **values: Any) -> Sequence[tuple[Any, ...]]:
        found = super().rows(statement, **values)
        self.meanwhile()
        return found


async def test_a_purge_spares_what_is_used_while_it_looks(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock)
    for name in ("a", "b"):
        evidence = {name: b"x", "both": b"y"}
        await store.decisions.commit(decision(await accepted(store, name)), evidence, ())
    clock.advance(7200)
    later = to_us(clock.now())

    def use() -> None:
        touch = f"UPDATE evidence SET last_used_at = {later} WHERE answer_sha256 = 'both'"  # noqa: S608
        make_store.sql(touch)

    with psycopg.connect(str(make_store.location)) as connection:
        transaction = Overtaken(connection.cursor(), store.decisions.writer.compiler)
        transaction.meanwhile = use
        assert purge_some(transaction, later, 10**9, 100) == 2
        assert set(transaction.deltas) == {"evidence_bytes"}
    assert await store.decisions.evidence("both") == b"y"
    assert await store.decisions.evidence("a") is None


async def test_what_a_purge_took_while_it_was_used_is_stored_again(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock)
    await store.decisions.commit(decision(await accepted(store)), {"d": b"x"}, ())

    class Purged(Transaction):
        def row(self, statement: ClauseElement, **values: Any) -> tuple[Any, ...] | None:
            make_store.sql("DELETE FROM evidence")
            return super().row(statement, **values)

    with psycopg.connect(str(make_store.location), autocommit=True) as connection:
        transaction = Purged(connection.cursor(), store.decisions.writer.compiler)
        store_evidence(transaction, [("d", pack(b"x"))], to_us(clock.now()))
    assert await store.decisions.evidence("d") == b"x"


class Meeting:
    """An operation that, the first time it runs, waits for another one in the middle."""

    def __init__(
        self,
        barrier: threading.Barrier,
        before: Callable[[Transaction], Any],
        after: Callable[[Transaction], Any],
    ) -> None:
        self.barrier = barrier
        self.before, self.after = before, after
        self.runs = 0

    def prepare(self) -> None:
        return

    def __call__(self, transaction: Transaction) -> Any:
        self.runs += 1
        self.before(transaction)
        if self.runs == 1:
            self.barrier.wait(WITHIN_S)
        return self.after(transaction)


def deadlocks(make_store: StoreMaker) -> int:
    # Another session's figures are written at its end or a second later.
    [(count,)] = make_store.sql(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(count)


async def test_batches_that_lock_in_two_orders_do_not_wait_in_a_circle(
    replicas: tuple[Store, Store], make_store: StoreMaker
) -> None:
    """The first operation of each batch has what the second of the other one wants."""
    barrier = threading.Barrier(2)
    order: list[str] = []

    def then(store: int, name: str) -> Simple[None]:
        def run(transaction: Transaction) -> None:
            transaction.lock(name)
            order.append(f"{store}{name}")

        return Simple(run)

    async def batch(number: int, first: str, second: str) -> None:
        writer = replicas[number].decisions.writer
        meeting = Meeting(barrier, lambda t: t.lock(first), lambda _: order.append(f"{number}-"))
        # Submitted while the writer is busy, so that they are one batch.
        busy = writer.run(Simple(lambda t: t.row(select(func.pg_sleep(0.1)))), durable=False)
        await asyncio.gather(
            busy,
            writer.run(meeting, durable=True),
            writer.run(then(number, second), durable=True),
        )

    before = time.monotonic()
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(batch(0, "x", "y"), batch(1, "y", "x"))
    assert time.monotonic() - before < WITHIN_S
    assert {"0-", "1-", "0y", "1x"} <= set(order)
    for store in replicas:
        await store.close()
    assert deadlocks(make_store) == 0


_SET = (
    update(SECRETS)
    .where(SECRETS.c.name == bindparam("its_name"))
    .values(value=SECRETS.c.value.concat(bindparam("more")))
)
_NEW = insert(SECRETS)
_IS_THERE = select(literal(1)).where(SECRETS.c.name == bindparam("its_name"))


async def test_operations_that_wait_in_a_circle_are_done_one_after_the_other(
    replicas: tuple[Store, Store], make_store: StoreMaker
) -> None:
    make_store.sql("INSERT INTO secrets VALUES ('a', ''), ('b', '')")
    barrier = threading.Barrier(2)

    def setting(name: str) -> Callable[[Transaction], int]:
        return lambda transaction: transaction.run(_SET, its_name=name, more=b"x")

    meetings = [
        Meeting(barrier, setting("a"), setting("b")),
        Meeting(barrier, setting("b"), setting("a")),
    ]
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(
            *(
                store.decisions.writer.run(meeting, durable=True)
                for store, meeting in zip(replicas, meetings, strict=True)
            )
        )
    assert sum(meeting.runs for meeting in meetings) == 3
    found = make_store.sql("SELECT name, value FROM secrets WHERE name <> 'cursor' ORDER BY 1")
    assert found == [("a", b"xx"), ("b", b"xx")]
    assert [store.trouble for store in replicas] == ["", ""]


async def test_a_key_that_another_one_has_just_taken_is_found_the_second_time(
    replicas: tuple[Store, Store],
) -> None:
    barrier = threading.Barrier(2)

    def look(_transaction: Transaction) -> None:
        return

    def meeting() -> Meeting:
        def before(transaction: Transaction) -> None:
            found.append(transaction.row(_IS_THERE, its_name="k") is not None)

        def after(transaction: Transaction) -> bool:
            if found[-1]:
                return False
            transaction.run(_NEW, name="k", value=b"")
            return True

        found: list[bool] = []
        return Meeting(barrier, before, after)

    meetings = [meeting(), meeting()]
    made = await asyncio.gather(
        *(
            store.decisions.writer.run(one, durable=True)
            for store, one in zip(replicas, meetings, strict=True)
        )
    )
    assert sorted(made) == [False, True]
    assert sum(one.runs for one in meetings) == 3


async def test_what_always_conflicts_ends(make_store: StoreMaker, clock: HandClock) -> None:
    store = await make_store(clock=clock)
    runs = []

    def insert_twice(transaction: Transaction) -> None:
        runs.append(1)
        for _ in range(2):
            transaction.run(_NEW, name="k", value=b"")

    writer = store.decisions.writer
    results = await asyncio.gather(
        writer.run(Simple(insert_twice), durable=True),
        store.alerts.accept([arrival()]),
        return_exceptions=True,
    )
    assert isinstance(results[0], StoreError)
    assert "secrets" in str(results[0])
    assert not isinstance(results[1], BaseException)
    assert 1 < len(runs) < 20
    assert store.trouble == ""


async def test_text_with_nul_fails_alone(make_store: StoreMaker, clock: HandClock) -> None:
    store = await make_store(clock=clock)
    writer = store.decisions.writer
    results = await asyncio.gather(
        store.alerts.accept([arrival("a")]),
        writer.run(Simple(lambda t: t.run(_NEW, name="a\0b", value=b"")), durable=True),
        store.alerts.accept([arrival("b")]),
        return_exceptions=True,
    )
    assert [isinstance(result, StoreError) for result in results] == [False, True, False]
    assert store.trouble == ""
    assert (await store.ledger.ledger(full=True)).accepted == 2


async def test_a_process_that_sleeps_in_a_transaction_is_thrown_out(
    make_store: StoreMaker, clock: HandClock, monkeypatch: pytest.MonkeyPatch, patient: None
) -> None:
    """As one that was stopped by SIGSTOP: its connection lives and says nothing."""
    store = await make_store(clock=clock)
    alert_id = await accepted(store)
    monkeypatch.setattr(pg_session, "IDLE_TIMEOUT_S", 1)
    database = Postgres.at(str(make_store.location))
    sleeper = database.dialer(database.compiler(), writes=True)(first=True)
    assert isinstance(sleeper, PostgresSession)
    try:
        transaction = sleeper.begin(durable=True, several=False)
        transaction.lock("name")
        locked = select(SECRETS.c.name).with_for_update()
        assert transaction.rows(locked)

        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(
                store.decisions.writer.run(Simple(lambda t: t.lock("name")), durable=True),
                store.decisions.commit(decision(alert_id), {}, ()),
                store.decisions.writer.run(Simple(lambda t: t.rows(locked)), durable=True),
            )
        with pytest.raises(psycopg.Error):
            sleeper.commit(transaction)
    finally:
        sleeper.close()


async def test_a_request_of_thousands_locks_everything_once(
    replicas: tuple[Store, Store], make_store: StoreMaker
) -> None:
    counted: list[int] = []
    locks = select(func.count()).select_from(func.pg_lock_status())

    def many(transaction: Transaction) -> None:
        transaction.lock("before")
        transaction.lock(*(f"name-{n}" for n in range(5_000)))
        transaction.lock(*(f"more-{n}" for n in range(5_000)))
        row = transaction.row(locks)
        assert row is not None
        counted.append(row[0])
        barrier.wait(WITHIN_S)

    barrier = threading.Barrier(2)
    large = asyncio.create_task(replicas[0].decisions.writer.run(Simple(many), durable=True))
    await becomes(lambda: counted, "the large request has its locks")
    order: list[str] = []

    def small(transaction: Transaction) -> None:
        transaction.lock("name-7")
        order.append("small")

    waiting = asyncio.create_task(replicas[1].decisions.writer.run(Simple(small), durable=True))
    await becomes(lambda: waits_for_a_lock(make_store), "the small one waits")
    order.append("large")
    await asyncio.to_thread(barrier.wait, WITHIN_S)
    await asyncio.gather(large, waiting)
    assert order == ["large", "small"]
    assert counted[0] < 100


async def test_an_undone_operation_lets_go_of_its_locks(
    replicas: tuple[Store, Store], make_store: StoreMaker
) -> None:
    order: list[str] = []
    barrier = threading.Barrier(2)

    def lock_and_fail(transaction: Transaction) -> None:
        transaction.lock("a", "b")
        raise LookupError("of its own")

    def lock_again(transaction: Transaction) -> None:
        transaction.lock("a")
        order.append("undone")
        barrier.wait(WITHIN_S)
        order.append("locked again")

    def lock_both(transaction: Transaction) -> None:
        transaction.lock("b")
        order.append("free")
        transaction.lock("a")
        order.append("other")

    writer = replicas[0].decisions.writer
    # Submitted while the writer is busy, so that they are one batch.
    busy = writer.run(Simple(lambda t: t.row(select(func.pg_sleep(0.1)))), durable=False)
    batch = asyncio.gather(
        busy,
        writer.run(Simple(lock_and_fail), durable=True),
        writer.run(Simple(lock_again), durable=True),
        return_exceptions=True,
    )
    await becomes(lambda: order, "the first one is undone")
    other = asyncio.create_task(replicas[1].decisions.writer.run(Simple(lock_both), durable=True))
    await becomes(lambda: waits_for_a_lock(make_store), "the other one waits")
    await asyncio.to_thread(barrier.wait, WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        results = await batch
        await other
    assert isinstance(results[1], LookupError)
    assert order == ["undone", "free", "locked again", "other"]
