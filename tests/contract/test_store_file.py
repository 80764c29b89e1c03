"""The file: who may open it, what its schema is, and what happens when it cannot grow."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

from tests.contract.store_world import HandClock, arrival, decision
from triage.adapters.store import Store, migrate
from triage.adapters.store.schema import COUNTER_NAMES, METADATA
from triage.errors import ConfigError, StoreError
from triage.model.alert import AcceptStatus, AlertId
from triage.ports import CommitStatus


async def test_the_directory_and_files_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "triage.db"
    store = await Store.open(f"sqlite:///{path}", clock=HandClock())
    try:
        await store.alerts.accept([arrival()])
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        names = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
        assert {"triage.db", "triage.db-wal", "triage.db.lock"} <= set(names)
        assert set(names.values()) == {0o600}
    finally:
        await store.close()


async def test_a_second_daemon_is_told_who_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "triage.db"
    first = await Store.open(path, clock=HandClock())
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        await Store.open(path, clock=HandClock())
    await first.close()

    again = await Store.open(path, clock=HandClock())
    await again.close()
    await again.close()


async def test_a_reader_reads_beside_the_daemon_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "triage.db"
    with pytest.raises(ConfigError, match="does not exist"):
        await Store.open(path, clock=HandClock(), exclusive=False)
    daemon = await Store.open(path, clock=HandClock())
    reader = await Store.open(path, clock=HandClock(), exclusive=False)
    try:
        [answer] = await daemon.alerts.accept([arrival()])
        assert answer.alert_id is not None
        assert await reader.decisions.get(answer.alert_id) == {"status": "pending"}
        with pytest.raises(StoreError, match="not open for writing"):
            await reader.alerts.accept([arrival("g")])
    finally:
        await reader.close()
        await daemon.close()
    with pytest.raises(StoreError):
        await daemon.alerts.accept([arrival("h")])
    with pytest.raises(StoreError):
        await daemon.ledger.ledger()


async def test_a_reader_reads_after_the_daemon_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "triage.db"
    daemon = await Store.open(path, clock=HandClock())
    await daemon.alerts.accept([arrival()])
    await daemon.close()

    reader = await Store.open(path, clock=HandClock(), exclusive=False)
    try:
        assert (await reader.ledger.ledger(full=True)).accepted == 1
    finally:
        await reader.close()


@pytest.mark.parametrize("bad", ["postgresql://db/x", "sqlite://", "://", "", "sqlite:///:memory:"])
async def test_a_location_that_is_no_file_is_refused(bad: str) -> None:
    with pytest.raises(ConfigError):
        await Store.open(bad, clock=HandClock())


async def test_a_directory_that_cannot_be_made_is_a_fault_of_the_configuration(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be created"):
        await Store.open(tmp_path / "file" / "triage.db", clock=HandClock())


async def test_newer_foreign_and_broken_databases_are_refused(tmp_path: Path) -> None:
    newer, foreign, broken = (tmp_path / name for name in ("newer.db", "foreign.db", "broken.db"))
    migrate.upgrade(newer)
    for path, statement in (
        (newer, "UPDATE alembic_version SET version_num = '9999'"),
        (foreign, "CREATE TABLE theirs (x)"),
    ):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(statement)
        connection.close()
    broken.write_bytes(b"this is no database, whatever its name says" * 100)

    for path, complaint in (
        (newer, "9999, newer than"),
        (foreign, "another program"),
        (broken, "cannot be read"),
    ):
        before = path.read_bytes()
        with pytest.raises(ConfigError, match=complaint):
            await Store.open(path, clock=HandClock())
        assert path.read_bytes() == before


@pytest.mark.parametrize("make", [migrate.upgrade, migrate.migrate_step_by_step])
def test_the_migrations_make_the_schema_that_the_code_uses(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "triage.db"
    assert migrate.current(path) is None
    assert migrate.needed(path)
    make(path)
    make(path)

    assert migrate.current(path) == migrate.REVISIONS[-1]
    assert not migrate.needed(path)
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, METADATA) == []
            rows = connection.exec_driver_sql("SELECT name, value FROM counters").fetchall()
            tables = set(inspect(connection).get_table_names())
    finally:
        engine.dispose()
    assert {(name, value) for name, value in rows} == {(name, 0) for name in COUNTER_NAMES}
    assert tables == {*METADATA.tables, "alembic_version"}


def test_a_new_database_is_what_all_migrations_make_of_an_empty_one(tmp_path: Path) -> None:
    def described(path: Path) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute(
                "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
            ).fetchall()
            columns = [
                (table, *map(str, column))
                for kind, table, *_ in found
                if kind == "table"
                for column in connection.execute(f"PRAGMA table_info({table})").fetchall()
            ]
            rows = connection.execute(
                "SELECT 'counter', name FROM counters UNION ALL SELECT 'secret', name FROM secrets"
                " UNION ALL SELECT 'version', version_num FROM alembic_version ORDER BY 1, 2"
            ).fetchall()
        return [*((kind, name, table) for kind, name, table, _ in found), *columns, *rows]

    migrate.upgrade(tmp_path / "new.db")
    migrate.migrate_step_by_step(tmp_path / "old.db")
    assert described(tmp_path / "new.db") == described(tmp_path / "old.db")


def test_the_revisions_named_in_the_code_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    steps = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(reversed([step.revision for step in steps])) == migrate.REVISIONS


@pytest.mark.parametrize("exists", [True, False])
def test_opening_a_store_does_not_import_alembic(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "triage.db"
    if exists:
        migrate.upgrade(path)
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.contract.store_world import HandClock\n"
        "from triage.adapters.store import Store\n"
        "async def main():\n"
        "    store = await Store.open(Path(sys.argv[1]), clock=HandClock())\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
        "assert 'alembic' not in sys.modules, 'alembic was imported'\n"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As a full disk: no file of this process may grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_fails_everyone_who_waits_and_nothing_is_half_done(
    tmp_path: Path,
) -> None:
    path = tmp_path / "triage.db"
    store = await Store.open(path, clock=HandClock())
    try:
        [kept] = await store.alerts.accept([arrival("kept")])
        assert kept.alert_id is not None
        full = path.with_name(path.name + "-wal").stat().st_size
        with largest_file(full):
            results = await asyncio.gather(
                *(store.alerts.accept([arrival(f"f{n}")]) for n in range(30)),
                store.decisions.commit(decision(kept.alert_id), {"d": b"x" * 9000}, ()),
                return_exceptions=True,
            )
            assert {type(result) for result in results} == {StoreError}
            assert store.trouble
            assert await store.decisions.get(kept.alert_id) == {"status": "pending"}

        ledger = await store.ledger.ledger(full=True)
        assert (ledger.accepted, ledger.pending, ledger.balances) == (1, 1, True)
        [again] = await store.alerts.accept([arrival("f0")])
        assert again.status is AcceptStatus.NEW
        assert store.trouble == ""
        status = await store.decisions.commit(decision(AlertId(kept.alert_id)), {}, ())
        assert status is CommitStatus.COMMITTED
        ledger = await store.ledger.ledger(full=True)
        assert (ledger.accepted, ledger.decided, ledger.balances) == (2, 1, True)
    finally:
        await store.close()


async def test_a_row_that_vanished_is_named(tmp_path: Path) -> None:
    path = tmp_path / "triage.db"
    store = await Store.open(path, clock=HandClock())
    try:
        answers = await store.alerts.accept([arrival("a"), arrival("b")])
        first = answers[0].alert_id
        assert first is not None
        await store.decisions.commit(decision(first), {}, ())
        thief = sqlite3.connect(path)
        with thief:
            thief.execute("DELETE FROM decisions")
        thief.close()

        ledger = await store.ledger.ledger(full=True)
        assert not ledger.balances
        assert first in ledger.unaccounted

        thief = sqlite3.connect(path)
        with thief:
            thief.execute("DELETE FROM alerts WHERE status = 'pending'")
        thief.close()
        ledger = await store.ledger.ledger(full=True)
        assert ledger.accepted == 2
        assert ledger.pending == 0
        assert "counter pending says 1, rows say 0" in ledger.unaccounted
    finally:
        await store.close()


async def test_closing_finishes_what_was_submitted(tmp_path: Path) -> None:
    path = tmp_path / "triage.db"
    store = await Store.open(path, clock=HandClock())
    submitted = [asyncio.create_task(store.alerts.accept([arrival(f"f{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*submitted)

    again = await Store.open(path, clock=HandClock())
    try:
        assert (await again.ledger.ledger(full=True)).accepted == len(answers) == 50
    finally:
        await again.close()


async def test_a_cancelled_accept_is_whole_or_absent(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "triage.db", clock=HandClock())
    try:
        request = asyncio.create_task(store.alerts.accept([arrival("a"), arrival("b")]))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

        # It had been submitted, so it is done; and its work was announced to the queue.
        received = await store.queue.receive(limit=5, wait_s=60)
        assert len(received) == 2
        assert (await store.ledger.ledger(full=True)).accepted == 2
    finally:
        await store.close()


async def test_a_new_owner_of_the_file_waits_for_no_lease_of_the_old_one(tmp_path: Path) -> None:
    clock = HandClock()
    path = tmp_path / "triage.db"
    first = await Store.open(path, clock=clock, lease_s=3600)
    [accepted] = await first.alerts.accept([arrival()])
    [held] = await first.queue.receive(limit=1, wait_s=0)
    assert await first.queue.receive(limit=1, wait_s=0) == []
    await first.close()

    second = await Store.open(path, clock=clock, lease_s=3600)
    try:
        [again] = await second.queue.receive(limit=1, wait_s=0)
        assert again.alert_id == accepted.alert_id
        await second.queue.settle(acked=[held])  # a lost lease's ack is harmless
        assert await second.queue.extend([again]) == [again]
    finally:
        await second.close()
