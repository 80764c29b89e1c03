"""What a database holds is the canonical tables, with every quirk undone."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from numpy.typing import NDArray

from bench.world.catalogue import TABLES
from bench.world.layout import SITES
from bench.world.tables import CanonicalTables
from bench.world.warehouse import fill_sqlite
from bench.world.warehouse_rows import NULLABLE, canonical_name, served_rows
from tests.unit.bench_world.floor_minutes import SEED, floor_minutes

COUNT = 2  # sites
DAYS = 2
CHANGES = (
    (0, "2026-11-01T06:00:00+00:00", 60),
    (1, "2026-10-25T01:00:00+00:00", 60),
    (2, "2026-10-03T16:00:00+00:00", 0),
)
"""Site, when its clocks change, and how many minutes of the wall clock come twice."""
LOCAL = tuple(
    name for name, spec in TABLES.items() if any(one.endswith("_local") for one in spec.columns)
)


@pytest.fixture(scope="module")
def tables() -> CanonicalTables:
    return CanonicalTables(floor_minutes(sites=COUNT, days=DAYS), SEED)


@pytest.fixture(scope="module")
def database(tables: CanonicalTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("warehouse") / "warehouse.db"
    assert fill_sqlite(path, tables, range(COUNT)) > 10_000
    return path


def rows_of(path: Path, sql: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def seconds(row: Mapping[str, Any], column: str, zone: str) -> int:
    text = row[column]
    if text is None:
        return -1
    if column.endswith("_utc"):
        return int(dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp())
    fold = row.get(f"{canonical_name(column)}_fold", row.get("fold"))
    assert isinstance(fold, int)
    naive = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the zone follows
    return int(naive.replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def canonical(row: Mapping[str, Any], table: str, zone: str) -> tuple[Any, ...]:
    """The row as the canonical side has it."""
    found: list[Any] = []
    for column, kind in TABLES[table].columns.items():
        if column.endswith("fold"):
            continue
        if column.endswith(("_utc", "_local")):
            found.append(seconds(row, column, zone))
        elif row[column] is None:
            assert kind == "text" or column in NULLABLE
            found.append("" if kind == "text" else -1)
        else:
            found.append(row[column])
    return tuple(found)


def rows_expected(columns: Mapping[str, NDArray[Any]]) -> set[tuple[Any, ...]]:
    return set(zip(*(values.tolist() for values in columns.values()), strict=True))


def check(rows: list[dict[str, Any]], tables: CanonicalTables, table: str, site: int) -> None:
    facts = SITES[site].facts
    distinct = {tuple(row.values()): row for row in rows}
    expected = rows_expected(tables.table(site, table))
    assert {canonical(row, table, facts.zone) for row in distinct.values()} == expected
    # Nothing but exact duplicates was added.
    assert len(distinct) == len(expected)


@pytest.mark.parametrize("table", TABLES)
def test_rows_convert_back(database: Path, tables: CanonicalTables, table: str) -> None:
    for site in range(COUNT):
        name = SITES[site].facts.name
        rows = rows_of(database, f"SELECT * FROM {table} WHERE site = '{name}'")  # noqa: S608
        check(rows, tables, table, site)


@pytest.mark.parametrize(("site", "change", "twice"), CHANGES)
def test_rows_convert_back_when_clocks_change(site: int, change: str, twice: int) -> None:
    start = int(dt.datetime.fromisoformat(change).timestamp()) - 43_200
    changing = CanonicalTables(floor_minutes(sites=site + 1, days=1, start=start), SEED)
    for table in LOCAL:
        rows = [
            dict(zip(TABLES[table].columns, row, strict=True))
            for chunk in served_rows(changing.table(site, table), table, site, None)
            for row in chunk
        ]
        check(rows, changing, table, site)
        if table == "flow_minute":
            shown = {(row["at_local"], row["fold"]) for row in rows}
            assert len(shown) == len({row["batch_id"] for row in rows})
            assert sum(fold for _, fold in shown) == twice


def test_one_row_in_a_hundred_is_written_twice(database: Path) -> None:
    sql = "SELECT count(*) AS n, count(DISTINCT batch_id || site) AS once FROM flow_minute"
    (counted,) = rows_of(database, sql)
    assert 0.005 < counted["n"] / counted["once"] - 1 < 0.02
    twice = rows_of(
        database,
        "SELECT min(rowid) AS a, max(rowid) AS b FROM flow_minute"
        " GROUP BY site, batch_id HAVING count(*) = 2",
    )
    assert twice
    assert all(row["a"] != row["b"] for row in twice)


def test_every_lookup_has_its_index(database: Path) -> None:
    for spec in TABLES.values():
        sql = f"EXPLAIN QUERY PLAN SELECT * FROM {spec.name} WHERE site = 'x' AND {spec.at} > 'y'"  # noqa: S608
        assert "INDEX" in rows_of(database, sql)[0]["detail"]


def test_nulls(database: Path) -> None:
    for table, column in (
        ("no_read", "printer"),
        ("departure", "docked_local"),
        ("departure", "docked_fold"),
        ("labor_slot", "actual"),
        ("spare_stock", "reserved"),
        ("ticket", "closed_utc"),
        ("yard_trailer", "left_local"),
    ):
        sql = f"SELECT count(*) AS n FROM {table} WHERE {column} IS NULL"  # noqa: S608
        assert rows_of(database, sql)[0]["n"] > 0, (table, column)


def test_a_range_is_what_the_whole_has_there(
    database: Path, tables: CanonicalTables, tmp_path: Path
) -> None:
    at = tables.table(0, "flow_minute")["at"]
    start, end = int(at[2000]), int(at[2200])
    path = tmp_path / "part.db"
    fill_sqlite(path, tables, [0], {0: (start, end)})
    zone = SITES[0].facts.zone
    for spec in TABLES.values():
        whole = rows_of(database, f"SELECT * FROM {spec.name} WHERE site = 'FC1'")  # noqa: S608
        part = rows_of(path, f"SELECT * FROM {spec.name}")  # noqa: S608
        inside = [row for row in whole if start <= seconds(row, spec.at, zone) <= end]
        counted, wanted = (Counter(tuple(row.values()) for row in rows) for rows in (part, inside))
        assert wanted <= counted, spec.name
        assert counted <= Counter(tuple(row.values()) for row in whole)
    assert path.stat().st_size < database.stat().st_size / 4


class _Broken:
    """Tables of which one cannot be made."""

    def __init__(self, tables: CanonicalTables) -> None:
        self._tables = tables

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        if name == "ticket":
            raise RuntimeError("no tickets")
        return self._tables.table(site, name)


def test_what_was_there_stays_until_all_is_written(tables: CanonicalTables, tmp_path: Path) -> None:
    path = tmp_path / "warehouse.db"
    path.write_text("before")
    with pytest.raises(RuntimeError, match="no tickets"):
        fill_sqlite(path, _Broken(tables), [0])
    assert path.read_text() == "before"
    fill_sqlite(path, tables, [0])
    assert rows_of(path, "SELECT count(*) AS n FROM ticket")[0]["n"] > 0
    assert [one.name for one in tmp_path.iterdir()] == ["warehouse.db"]
