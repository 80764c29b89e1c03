"""The tables: the same by every way that leads to them, on every database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect

from tests.contract.conftest import StoreMaker, run_sql
from tests.contract.store_world import HandClock
from triage.adapters.store import Store, migrate
from triage.adapters.store.database import database_at
from triage.adapters.store.schema import COUNTER_NAMES, METADATA
from triage.errors import ConfigError

ROOT = Path(__file__).parents[2]

DESCRIBED = {
    "sqlite": (
        "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name",
        """SELECT m.name, c.* FROM sqlite_master m, pragma_table_info(m.name) c
        WHERE m.type = 'table' ORDER BY 1, 2""",
    ),
    "postgres": (
        """SELECT table_name, ordinal_position, column_name, data_type, is_nullable,
        column_default, collation_name FROM information_schema.columns
        WHERE table_schema = 'public' ORDER BY 1, 2""",
        """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2""",
        """SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        ORDER BY 1, 2""",
        "SELECT relname FROM pg_class WHERE relkind = 'S' ORDER BY 1",
    ),
}
ROWS = (
    "SELECT 'counter', name, shard, value FROM counters ORDER BY 2",
    "SELECT 'secret', name FROM secrets",
    "SELECT 'version', version_num FROM alembic_version",
)


def looked_at(where: str | Path, look: Callable[[Connection], None]) -> None:
    url = f"sqlite:///{where}" if isinstance(where, Path) else str(where)
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection:
            look(connection)
    finally:
        engine.dispose()


@pytest.mark.parametrize("make", [migrate.upgrade, migrate.migrate_step_by_step])
def test_the_migrations_make_the_schema_that_the_code_uses(
    make_store: StoreMaker, make: Callable[[str | Path], None]
) -> None:
    where = make_store.empty()
    assert migrate.current(where) is None
    assert migrate.needed(where)
    make(where)
    make(where)

    assert migrate.current(where) == migrate.REVISIONS[-1]
    assert not migrate.needed(where)

    def look(connection: Connection) -> None:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert set(inspect(connection).get_table_names()) == {*METADATA.tables, "alembic_version"}

    looked_at(where, look)
    rows = run_sql(where, "SELECT name, shard, value FROM counters")
    assert set(rows) == {(name, 0, 0) for name in COUNTER_NAMES}


def test_a_new_database_is_what_all_migrations_make_of_an_empty_one(make_store: StoreMaker) -> None:
    new, old = make_store.empty(), make_store.empty()
    migrate.upgrade(new)
    migrate.migrate_step_by_step(old)
    for question in (*DESCRIBED[make_store.backend], *ROWS):
        assert run_sql(new, question) == run_sql(old, question), question


def test_text_sorts_by_its_bytes(make_store: StoreMaker) -> None:
    """Pages and prefixes of ids compare it. The test's server sorts as English does."""
    rows = "('b', ''), ('Z', ''), ('é', ''), ('B', ''), ('a', '')"
    make_store.sql(f"INSERT INTO secrets VALUES {rows}")  # noqa: S608 - ours
    found = make_store.sql("SELECT name FROM secrets WHERE name <> 'cursor' ORDER BY name")
    assert [row[0] for row in found] == ["B", "Z", "a", "b", "é"]
    if make_store.backend == "postgres":
        [(sorts_as_bytes,)] = make_store.sql("SELECT 'Z'::text < 'a'::text")
        assert not sorts_as_bytes


def script() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def bring_to(where: str | Path, revision: str) -> None:
    def change(connection: Connection) -> None:
        config = script()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    database_at(where).change(change)


OLD_ALERT = (
    "INSERT INTO alerts (alert_id, integration, tenant, fingerprint, starts_at_ns, alarm, site,"
    " entity, severity, priority, fired_at, accepted_at, labels, annotations, raw, status,"
    " attempts, unmatched_resolve)"
    " VALUES ('{id}', 'i', '', '{id}', '1', 'al', 'north', 'unit-7', 'warning', 2, 5, 7,"
    " '{{}}', '{{}}', '', '{status}', 3, 0)"
)
OLD_LETTER = (
    "INSERT INTO dead_letters (alert_id, reason, detail, at)"
    " VALUES ('dead', 'crashed', 'five times', 9)"
)
LETTER = (
    "INSERT INTO dead_letters (dead_letter_id, alert_id, stream, format, payload, headers, reason,"
    " detail, attempts, at)"
    " VALUES ('dead', 'dead', '', '', '', '{}', 'crashed', 'five times', 3, 9)"
)


@pytest.mark.parametrize("revision", migrate.REVISIONS[:-1])
async def test_an_older_schema_is_refused_until_it_is_upgraded(
    make_store: StoreMaker, revision: str
) -> None:
    where = make_store.empty()
    bring_to(where, revision)
    run_sql(
        where,
        OLD_ALERT.format(id="open", status="pending"),
        OLD_ALERT.format(id="dead", status="dead_lettered"),
        OLD_LETTER if revision < "0004" else LETTER,
        "UPDATE counters SET value = 2 WHERE name = 'accepted'",
        "UPDATE counters SET value = 1 WHERE name IN ('pending', 'dead_lettered')",
    )
    for options in ({}, {"exclusive": False}, {"exclusive": False, "changes": True}):
        with pytest.raises(ConfigError, match=f"schema {revision}.*run: triage db upgrade"):
            await Store.open(where, clock=HandClock(), **options)
    assert migrate.current(where) == revision

    migrate.upgrade(where)

    store = await Store.open(where, clock=HandClock())
    try:
        ledger = await store.ledger.ledger(full=True)
        assert (ledger.accepted, ledger.pending, ledger.dead_lettered) == (2, 1, 1)
        assert ledger.balances, ledger
        letter = await store.dead_letters.dead_letter("dead")
        assert letter is not None
        assert (letter.reason, letter.detail, letter.attempts) == ("crashed", "five times", 3)
        seen_at = 7 if revision < "0004" else 0  # what 0004 made of it was its own
        assert run_sql(where, "SELECT seen_at FROM alerts") == [(seen_at,), (seen_at,)]
    finally:
        await store.close()


async def test_an_older_schema_can_be_upgraded_by_opening(make_store: StoreMaker) -> None:
    where = make_store.empty()
    bring_to(where, migrate.REVISIONS[0])
    store = await Store.open(where, clock=HandClock(), upgrade=True)
    await store.close()
    assert migrate.current(where) == migrate.REVISIONS[-1]


async def test_newer_and_foreign_databases_are_refused_and_left_alone(
    make_store: StoreMaker,
) -> None:
    newer, foreign = make_store.empty(), make_store.empty()
    migrate.upgrade(newer)
    run_sql(newer, "UPDATE alembic_version SET version_num = '9999'")
    run_sql(foreign, "CREATE TABLE theirs (x integer)")
    for where, complaint in ((newer, "9999, newer than"), (foreign, "another program")):
        for opening in (True, False):
            with pytest.raises(ConfigError, match=complaint):
                await Store.open(where, clock=HandClock(), upgrade=opening)
        with pytest.raises(ConfigError, match=complaint):
            migrate.upgrade(where)
    names = database_at(foreign).tables()
    assert names == ({"theirs"}, None)


def test_the_revisions_named_in_the_code_are_those_of_the_migrations() -> None:
    steps = ScriptDirectory.from_config(script()).walk_revisions()
    assert tuple(reversed([step.revision for step in steps])) == migrate.REVISIONS


PROGRAM = """
import asyncio, sys
from tests.contract.store_world import HandClock
from triage.adapters.store import Store
async def main():
    store = await Store.open(sys.argv[1], clock=HandClock())
    await store.close()
asyncio.run(main())
for name in sys.argv[2:]:
    assert name not in sys.modules, f"{name} was imported"
"""


@pytest.mark.parametrize("exists", [True, False])
def test_opening_a_store_imports_no_more_than_it_needs(
    make_store: StoreMaker, exists: bool
) -> None:
    where = make_store.location if exists else make_store.empty()
    unneeded = ["alembic"] + (["psycopg"] if make_store.backend == "sqlite" else [])
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, str(where), *unneeded],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
