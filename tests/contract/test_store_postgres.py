"""The store on PostgreSQL: a server that goes, hangs and comes back; what is told of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import func, select

from tests.contract.conftest import Databases, StoreMaker
from tests.contract.gap_world import gap
from tests.contract.replica_world import WITHIN_S, accepted, becomes
from tests.contract.store_world import HandClock, arrival, decision
from triage.adapters.store import Store, dialling, migrate, pg_session
from triage.adapters.store.pg_session import BoundedConnection
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple
from triage.errors import ConfigError, StoreError
from triage.model.alert import AlertId
from triage.ports import CommitStatus, Message

WORKERS = 6
pytestmark = pytest.mark.parametrize("make_store", ["postgres"], indirect=True)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


async def until_it_works(store: Store, fingerprint: str) -> AlertId:
    taken: list[AlertId] = []
    loop = asyncio.get_running_loop()

    def works() -> bool:
        asked = asyncio.run_coroutine_threadsafe(accepted(store, fingerprint), loop)
        try:
            taken.append(asked.result(WITHIN_S))
        except StoreError:
            assert store.trouble
        return bool(taken)

    await becomes(works, "a store that works")
    return taken[0]


# --- a server that is away ------------------------------------------------------------------------


async def test_work_resumes_by_itself_after_the_server_was_killed(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock
) -> None:
    server = postgres_databases.server
    store = await make_store(clock=clock)
    answered: set[AlertId] = set()
    failures: list[str] = []
    stopped, is_back = asyncio.Event(), asyncio.Event()

    async def work(worker: int) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            try:
                alert_id = await accepted(store, f"{worker}-{number}")
                answered.add(alert_id)
                messages = [Message(sink="hook", key=alert_id, body=b"1")]
                await store.decisions.commit(
                    decision(alert_id), {alert_id: b"x"}, messages, [gap(alert_id)]
                )
                await store.decisions.get(alert_id)
            except StoreError as error:
                failures.append(str(error))
                await is_back.wait()

    working = [asyncio.create_task(work(worker)) for worker in range(WORKERS)]
    await grows(answered, by=20)
    await asyncio.to_thread(server.stop, "immediate")
    try:
        await becomes(lambda: len(failures) == WORKERS, "all of them refused")
        # A second or less each, also for those who come while nobody has tried to connect lately.
        for _ in range(3):
            async with asyncio.timeout(dialling.ANSWER_S + 4):
                with pytest.raises(StoreError):
                    await accepted(store, "while it is away")
        assert store.trouble
    finally:
        await asyncio.to_thread(server.start)
    await until_it_works(store, "afterwards")
    is_back.set()
    await grows(answered, by=20)
    stopped.set()
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*working)

    assert store.trouble == ""
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances, ledger
    assert ledger.accepted >= len(answered)
    for alert_id in answered:
        assert await store.decisions.get(alert_id) is not None
    kind = await store.gaps.gap(gap(AlertId("any")).gap_id)
    assert kind is not None
    [(cases, sent, bodies)] = make_store.sql(
        "SELECT (SELECT count(*) FROM gap_cases), (SELECT count(*) FROM outbox),"
        " (SELECT count(*) FROM evidence)"
    )
    assert kind.count == cases == sent == bodies == ledger.decided == ledger.outbox_pending


async def grows(what: set[AlertId], *, by: int) -> None:
    wanted = len(what) + by
    await becomes(lambda: len(what) >= wanted, "more of them")


async def test_a_restart_that_nobody_noticed_is_no_error(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock
) -> None:
    store = await make_store(clock=clock)
    alert_id = await accepted(store)
    await store.decisions.get(alert_id)
    postgres_databases.end_sessions(str(make_store.location))
    assert await store.decisions.get(alert_id) == {"status": "pending"}
    assert await store.decisions.commit(decision(alert_id), {}, ()) is CommitStatus.COMMITTED


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds, shorter."""
    monkeypatch.setattr(pg_session, "ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(BoundedConnection, "patience_s", 1.0)
    monkeypatch.setattr(dialling, "ANSWER_S", 0.2)


async def test_a_server_that_hangs_is_given_up_and_taken_again(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock, impatient: None
) -> None:
    store = await make_store(clock=clock)
    alert_id = await accepted(store)
    await store.decisions.get(alert_id)
    found = make_store.sql(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
    )
    with stopped(postgres_databases.postmaster, *(row[0] for row in found)):
        async with asyncio.timeout(WITHIN_S):
            for n in range(3):
                results = await asyncio.gather(
                    store.alerts.accept([arrival(f"hangs-{n}")]),
                    store.decisions.get(alert_id),
                    store.queue.receive(limit=1, wait_s=0),
                    return_exceptions=True,
                )
                assert {type(result) for result in results} == {StoreError}
        assert "answer" in store.trouble
    await until_it_works(store, "afterwards")
    assert await store.decisions.get(alert_id) == {"status": "pending"}
    assert (await store.ledger.ledger(full=True)).balances


async def test_a_store_closes_while_the_server_hangs(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock, impatient: None
) -> None:
    store = await make_store(clock=clock)
    postgres_databases.end_sessions(str(make_store.location))
    with stopped(postgres_databases.postmaster):
        with pytest.raises(StoreError):
            await accepted(store)
        async with asyncio.timeout(WITHIN_S):
            await store.close()


async def test_a_read_that_is_known_to_be_long_has_its_time(
    make_store: StoreMaker, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg_session, "STATEMENT_TIMEOUT_S", 1.0)
    store = await make_store(clock=clock)
    sleep = select(func.pg_sleep(1.5))
    readers = store.decisions.readers
    with pytest.raises(StoreError, match="statement timeout"):
        await readers.run(lambda transaction: transaction.rows(sleep))
    assert await readers.run(lambda transaction: transaction.rows(sleep), patience_s=60)
    with pytest.raises(StoreError, match="statement timeout"):
        await readers.run(lambda transaction: transaction.rows(sleep))


# --- who is told what -----------------------------------------------------------------------------

SECRET = "s3cr3t%40word"  # noqa: S105 - of nobody


async def test_no_password_is_in_any_message(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock
) -> None:
    name = str(make_store.location).rpartition("/")[2]
    port = postgres_databases.server.port
    for address, kind in (
        (f"127.0.0.1:{port}/nosuch", ConfigError),
        ("127.0.0.1:1/triage", StoreError),  # which may come up by itself
        (f"127.0.0.1:{port}/{name}?sslmode=require", ConfigError),
        (f"127.0.0.1:{port}/{name}?nosuch=1", ConfigError),
        ("127.0.0.1:port/triage", ConfigError),
    ):
        for password in (SECRET, "100%zz-s3cr3t"):
            expected = ConfigError if "%zz" in password else kind
            with pytest.raises(expected) as refused:
                await Store.open(f"postgresql://postgres:{password}@{address}", clock=clock)
            assert "s3cr3t" not in str(refused.value)
            assert "s3cr3t" not in repr(refused.value.__context__)
    url = f"postgresql://postgres:{SECRET}@127.0.0.1:{port}/{name}"
    store = await Store.open(url, clock=clock)
    try:
        await accepted(store)
        assert store.label == f"postgresql://postgres@127.0.0.1:{port}/{name}"
        assert "s3cr3t" not in repr(store)
    finally:
        await store.close()


async def test_a_database_that_cannot_hold_every_text_is_refused(
    postgres_databases: Databases, make_store: StoreMaker, clock: HandClock
) -> None:
    postgres_databases.execute("DROP DATABASE IF EXISTS ascii")
    postgres_databases.execute("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII'")
    with pytest.raises(ConfigError, match=r"encoding is SQL_ASCII.*UTF8"):
        await Store.open(postgres_databases.url("ascii"), clock=clock)


async def test_an_unsafe_server_is_named(make_store: StoreMaker, clock: HandClock) -> None:
    store = await make_store(clock=clock)
    [weakness] = await store.queue.weaknesses()  # the tests' servers run without
    assert "fsync = off" in weakness


async def test_replicas_may_make_the_tables_together(
    make_store: StoreMaker, clock: HandClock
) -> None:
    where = make_store.empty()
    stores = await asyncio.gather(*(Store.open(where, clock=clock) for _ in range(3)))
    try:
        assert migrate.current(where) == migrate.REVISIONS[-1]
        ids = {await accepted(store) for store in stores}
        assert len(ids) == 1
    finally:
        for store in stores:
            await store.close()


async def test_replicas_may_upgrade_the_tables_together(make_store: StoreMaker) -> None:
    where = make_store.empty()
    await asyncio.gather(
        *(asyncio.to_thread(migrate.migrate_step_by_step, where) for _ in range(2)),
        asyncio.to_thread(migrate.upgrade, where),
    )
    assert migrate.current(where) == migrate.REVISIONS[-1]


# --- what is on the disk --------------------------------------------------------------------------

_SYNCHRONOUS = select(func.current_setting("synchronous_commit"))


async def test_only_what_must_be_durable_waits_for_the_disk(
    make_store: StoreMaker, postgres_databases: Databases, clock: HandClock
) -> None:
    name = str(make_store.location).rpartition("/")[2]
    postgres_databases.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = await make_store(clock=clock)
    read = Simple(lambda transaction: transaction.row(_SYNCHRONOUS))
    writer = store.decisions.writer
    assert await writer.run(read, durable=False) == ("off",)
    assert await writer.run(read, durable=True) == ("on",)
    assert await writer.run(read, durable=False) == ("off",)
    together = await asyncio.gather(
        *(writer.run(Hold(durable), durable=durable) for durable in (False, True, False))
    )
    assert together[1] == ("on",)


class Hold:
    def __init__(self, durable: bool) -> None:
        self.durable = durable

    def prepare(self) -> None:
        return

    def __call__(self, transaction: Transaction) -> Any:
        return transaction.row(_SYNCHRONOUS)
