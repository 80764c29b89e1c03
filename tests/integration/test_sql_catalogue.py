"""What the SQL source tells of its tables, from a real SQLite file and a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer, running_postgres
from tests.servers import needing_servers
from triage.adapters.sql import SqlSource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Column
from triage.ports import Catalogued
from triage.tool_api import rows

LONG_S = 30.0  # for what must succeed: no assertion depends on how soon


@asynccontextmanager
async def opened(url: str, **bounds: Any) -> AsyncIterator[SqlSource]:
    source = SqlSource("tables", url, **bounds)
    await source.open()
    try:
        yield source
    finally:
        await source.close()


def filled(path: Path, script: str) -> str:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return f"sqlite:///{path}"


# --- SQLite -----------------------------------------------------------------------------------


async def test_sqlite_tables_and_views(tmp_path: Path) -> None:
    url = filled(
        tmp_path / "floor.db",
        'CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, "odd col" TEXT, untyped);'
        "CREATE VIEW newest AS SELECT id FROM orders;"
        "CREATE TABLE sqlitelike (share REAL);"
        'CREATE TABLE "it\'s a ""name"" :of its own" (x INTEGER);',
    )
    async with opened(url) as source:
        assert isinstance(source, Catalogued)
        told = await source.catalogue(timeout_s=LONG_S)
        assert told.metrics == {}
        assert told.tables == {
            "orders": (
                Column("id", "INTEGER"),
                Column("odd col", "TEXT"),
                Column("untyped", ""),
            ),
            "newest": (Column("id", "INTEGER"),),
            "sqlitelike": (Column("share", "REAL"),),
            'it\'s a "name" :of its own': (Column("x", "INTEGER"),),
        }
        assert await source.ask(rows("tables", "SELECT 1 AS n"), timeout_s=LONG_S) == ({"n": 1},)


async def test_sqlite_leaves_out_a_view_of_what_is_gone(tmp_path: Path) -> None:
    url = filled(
        tmp_path / "floor.db",
        "CREATE TABLE gone (x); CREATE TABLE kept (y TEXT);"
        "CREATE VIEW broken AS SELECT x FROM gone; DROP TABLE gone;",
    )
    async with opened(url) as source:
        assert set((await source.catalogue(timeout_s=LONG_S)).tables) == {"kept"}


async def test_sqlite_tells_what_is_there_now(tmp_path: Path) -> None:
    url = filled(tmp_path / "floor.db", "CREATE TABLE a (x)")
    async with opened(url) as source:
        assert set((await source.catalogue(timeout_s=LONG_S)).tables) == {"a"}
        filled(tmp_path / "floor.db", "DROP TABLE a; CREATE TABLE b (x)")
        assert set((await source.catalogue(timeout_s=LONG_S)).tables) == {"b"}


async def test_more_than_an_answer_may_hold(tmp_path: Path) -> None:
    url = filled(tmp_path / "floor.db", ";".join(f"CREATE TABLE t{n} (x)" for n in range(20)))
    for bounds in ({"max_rows": 10}, {"max_bytes": 100}):
        async with opened(url, **bounds) as source:
            with pytest.raises(ToolFailed, match="more tables and columns") as caught:
                await source.catalogue(timeout_s=LONG_S)
            assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE


async def test_a_file_that_is_not_there_and_one_that_is_no_database(tmp_path: Path) -> None:
    source = SqlSource("tables", f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(SourceFailed, match="not open"):
        await source.catalogue(timeout_s=LONG_S)
    async with opened(f"sqlite:///{tmp_path / 'none.db'}") as source:
        with pytest.raises(SourceFailed) as caught:
            await source.catalogue(timeout_s=LONG_S)
        assert caught.value.failure is SourceFailure.CONNECT
    (tmp_path / "text.db").write_text("no database " * 1000)
    async with opened(f"sqlite:///{tmp_path / 'text.db'}") as source:
        with pytest.raises(SourceFailed) as caught:
            await source.catalogue(timeout_s=LONG_S)
        assert caught.value.failure is SourceFailure.SERVER_ERROR


# --- PostgreSQL -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with needing_servers(), running_postgres() as server:
        asyncio.run(_fill(server.url))
        yield server


async def _fill(url: str) -> None:
    import asyncpg  # type: ignore[import-untyped] # it ships no types

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE TABLE orders (id integer, lane text, at timestamptz, share numeric(4, 1));"
            "CREATE VIEW newest AS SELECT id FROM orders;"
            "CREATE SCHEMA plant; CREATE TABLE plant.orders (other text);"
            "CREATE TABLE plant.pumps (bar real);"
            "CREATE SCHEMA hidden; CREATE TABLE hidden.secrets (x text)"
        )
    finally:
        await connection.close()


async def test_postgres_tables_and_views(postgres: PostgresServer) -> None:
    async with opened(postgres.url) as source:
        told = await source.catalogue(timeout_s=LONG_S)
        assert told.tables == {
            "orders": (
                Column("id", "integer"),
                Column("lane", "text"),
                Column("at", "timestamp with time zone"),
                Column("share", "numeric"),
            ),
            "newest": (Column("id", "integer"),),
        }


async def test_postgres_tells_what_a_plain_name_means(postgres: PostgresServer) -> None:
    async with opened(f"{postgres.url}?options=-csearch_path%3Dplant,public") as source:
        told = await source.catalogue(timeout_s=LONG_S)
        assert set(told.tables) == {"orders", "newest", "pumps"}
        assert told.tables["orders"] == (Column("other", "text"),)
        for name, columns in told.tables.items():
            query = rows("tables", f"SELECT {columns[0].name} FROM {name}")  # noqa: S608 - our own
            assert await source.ask(query, timeout_s=LONG_S) == ()


async def test_postgres_bounds_and_time(postgres: PostgresServer) -> None:
    async with opened(postgres.url, max_rows=3) as source:
        with pytest.raises(ToolFailed) as caught:
            await source.catalogue(timeout_s=LONG_S)
        assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
    async with opened(postgres.url) as source:
        with pytest.raises(SourceFailed) as late:
            await source.catalogue(timeout_s=0)
        assert late.value.failure is SourceFailure.TIMEOUT
