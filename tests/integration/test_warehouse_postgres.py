"""The warehouse in a real PostgreSQL holds, row for row, what the SQLite file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.world.catalogue import TABLES
from bench.world.tables import CanonicalTables
from bench.world.warehouse import copy_postgres, fill_postgres, fill_sqlite
from tests.postgres import PostgresServer, running_postgres
from tests.servers import needing_servers
from tests.unit.bench_world.floor_minutes import SEED, floor_minutes
from triage.adapters.sql import SqlSource
from triage.tool_api import rows

LONG_S = 30.0  # for what must succeed: no assertion depends on how soon
SITES = (0, 1)


@pytest.fixture(scope="module")
def tables() -> CanonicalTables:
    return CanonicalTables(floor_minutes(sites=len(SITES), days=1), SEED)


@pytest.fixture(scope="module")
def database(tables: CanonicalTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("warehouse") / "warehouse.db"
    fill_sqlite(path, tables, SITES)
    return path


@pytest.fixture(scope="module")
def postgres(tables: CanonicalTables) -> Iterator[PostgresServer]:
    with needing_servers(), running_postgres() as server:
        # Twice: the second time in the place of the first.
        fill_postgres(server.url, tables, [0])
        fill_postgres(server.url, tables, SITES)
        yield server


@pytest.fixture
async def sources(
    database: Path, postgres: PostgresServer
) -> AsyncIterator[tuple[SqlSource, SqlSource]]:
    both = tuple(
        SqlSource("warehouse", url, max_rows=10**6, max_bytes=10**9)
        for url in (f"sqlite:///{database}", postgres.url)
    )
    for source in both:
        await source.open()
    yield both[0], both[1]
    for source in both:
        await source.close()


async def all_rows(source: SqlSource, table: str) -> list[dict[str, Any]]:
    query = rows("warehouse", f"SELECT * FROM {table}")  # noqa: S608 - our own names
    found: list[dict[str, Any]] = list(await source.ask(query, timeout_s=LONG_S))
    return found


async def test_rows_are_the_same(sources: tuple[SqlSource, SqlSource]) -> None:
    for table in TABLES:
        sqlite, postgres = [
            Counter(tuple(row.items()) for row in await all_rows(source, table))
            for source in sources
        ]
        assert sqlite == postgres, table
        assert sqlite.total() > 0


async def test_both_tell_every_table_with_its_columns(
    sources: tuple[SqlSource, SqlSource],
) -> None:
    for source in sources:
        told = await source.catalogue(timeout_s=LONG_S)
        assert {
            name: [column.name for column in columns] for name, columns in told.tables.items()
        } == {name: list(table.columns) for name, table in TABLES.items()}
        assert told.metrics == {}


async def test_windows_of_local_text_are_the_same(sources: tuple[SqlSource, SqlSource]) -> None:
    query = rows(
        "warehouse",
        "SELECT batch_id, arrivals, fold FROM flow_minute"
        " WHERE site = :site AND at_local > :after AND at_local <= :until ORDER BY batch_id",
        site="FC2",
        after="2026-09-01 08:00:00",
        until="2026-09-01 08:15:00",
    )
    sqlite, postgres = [await source.ask(query, timeout_s=LONG_S) for source in sources]
    assert sqlite == postgres
    assert len({row["batch_id"] for row in sqlite}) == 15


class _Broken(CanonicalTables):
    def table(self, site: int, name: str) -> Any:
        if name == "ticket":
            raise RuntimeError("no tickets")
        return super().table(site, name)


async def test_a_failed_fill_changes_nothing(
    sources: tuple[SqlSource, SqlSource], postgres: PostgresServer
) -> None:
    broken = _Broken(floor_minutes(days=1), SEED)
    before = await all_rows(sources[1], "feed_heartbeat")
    with pytest.raises(RuntimeError, match="no tickets"):
        await copy_postgres(postgres.url, broken, [0])
    assert len(await all_rows(sources[1], "feed_heartbeat")) == len(before)
