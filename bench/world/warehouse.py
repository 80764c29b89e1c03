"""Writes the warehouse into an SQLite file or a PostgreSQL database, with its quirks."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from bench.world.catalogue import TABLES, TableSpec
from bench.world.warehouse_rows import Range, Row, served_rows

CACHE_KIB = 1 << 17

LOOKED_UP: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "departure": (("site", "lane", "cpt_utc"),),
    "loading": (("site", "departure_id", "at_utc"),),
    "spare_stock": (("site", "part", "at_utc"),),
}
"""Beside (site, `at`), which every table is looked up by."""

_TYPES = {"text": "TEXT", "integer": "BIGINT", "real": "DOUBLE PRECISION"}
_SQLITE_TYPES = {"text": "TEXT", "integer": "INTEGER", "real": "REAL"}


class Tables(Protocol):
    """`CanonicalTables`, or a world that has them."""

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]: ...


def fill_sqlite(
    path: Path,
    tables: Tables,
    sites: Iterable[int],
    ranges: Mapping[int, Range] | None = None,
) -> int:
    """Writes the file at `path`, whole or not at all; returns how many rows it has.

    `ranges` limits a site to what matters within (start, end), seconds since the epoch.
    """
    writing = path.with_name(f"{path.name}.writing")
    writing.unlink(missing_ok=True)
    sites, rows = tuple(sites), 0
    with closing(sqlite3.connect(writing, isolation_level=None)) as connection:
        # Nobody reads it before it is whole; one that was interrupted is written anew.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{CACHE_KIB}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN")
        for spec in TABLES.values():
            connection.execute(_create(spec, _SQLITE_TYPES))
            holes = ", ".join("?" * len(spec.columns))
            insert = f"INSERT INTO {spec.name} VALUES ({holes})"  # noqa: S608 - our own names
            for chunk in _chunks(tables, spec, sites, ranges):
                connection.executemany(insert, chunk)
                rows += len(chunk)
            for index in _indexes(spec):
                connection.execute(index)
        connection.execute("COMMIT")
        connection.execute("ANALYZE")
    writing.replace(path)
    return rows


def fill_postgres(
    dsn: str,
    tables: Tables,
    sites: Iterable[int],
    ranges: Mapping[int, Range] | None = None,
) -> int:
    """The same rows as `fill_sqlite`'s, in place of such tables that are there, in one
    transaction. Not to be called where an event loop runs: await `copy_postgres` there."""
    return asyncio.run(copy_postgres(dsn, tables, sites, ranges))


async def copy_postgres(
    dsn: str,
    tables: Tables,
    sites: Iterable[int],
    ranges: Mapping[int, Range] | None = None,
) -> int:
    """As `fill_postgres`; a cancelled one leaves the database as it was."""
    import asyncpg  # type: ignore[import-untyped]

    sites, rows = tuple(sites), 0
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            for spec in TABLES.values():
                await connection.execute(f"DROP TABLE IF EXISTS {spec.name}")
                await connection.execute(_create(spec, _TYPES))
                for chunk in _chunks(tables, spec, sites, ranges):
                    await connection.copy_records_to_table(spec.name, records=chunk)
                    rows += len(chunk)
                for index in _indexes(spec):
                    await connection.execute(index)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()
    return rows


def _chunks(
    tables: Tables, spec: TableSpec, sites: Sequence[int], ranges: Mapping[int, Range] | None
) -> Iterator[list[Row]]:
    for site in sites:
        within = None if ranges is None else ranges.get(site)
        yield from served_rows(tables.table(site, spec.name), spec.name, site, within)


def _create(spec: TableSpec, types: Mapping[str, str]) -> str:
    columns = ", ".join(f'"{column}" {types[kind]}' for column, kind in spec.columns.items())
    return f"CREATE TABLE {spec.name} ({columns})"


def _indexes(spec: TableSpec) -> Iterator[str]:
    for number, columns in enumerate((("site", spec.at), *LOOKED_UP.get(spec.name, ()))):
        listed = ", ".join(f'"{column}"' for column in columns)
        yield f"CREATE INDEX {spec.name}_{number} ON {spec.name} ({listed})"
