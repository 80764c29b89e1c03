"""What a page costs does not grow with the store. Counted in SQLite's own steps and in blocks that
PostgreSQL reads, not in time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.growth import specimen
from bench.growth.fill import fill, rows_of
from tests.contract.conftest import Databases
from tests.contract.gap_world import gap
from tests.contract.store_world import START, HandClock, arrival, decision, migrated
from triage.adapters.store import Store
from triage.adapters.store.database import database_at
from triage.adapters.store.file import StoreFile
from triage.adapters.store.pages import find_page
from triage.adapters.store.schema import DECISIONS
from triage.adapters.store.transaction import Transaction
from triage.ports import DecisionFilter

SMALL, LARGE = 500, 8_000
SITE, ALARM = "site-1", "al_03"

FILTERS = {
    "all": DecisionFilter(),
    "an outcome": DecisionFilter(outcome=specimen.RARE_OUTCOME),
    "an alarm": DecisionFilter(alarm=specimen.RARE_ALARM),
    "a site": DecisionFilter(site=specimen.RARE_SITE),
    "an outcome of a site": DecisionFilter(outcome=specimen.RARE_OUTCOME, site=SITE),
    "an outcome of an alarm": DecisionFilter(outcome=specimen.RARE_OUTCOME, alarm=ALARM),
    "a rare alarm of a site": DecisionFilter(alarm=specimen.RARE_ALARM, site=SITE),
    "an alarm of a rare site": DecisionFilter(alarm=ALARM, site=specimen.RARE_SITE),
    "all three": DecisionFilter(outcome=specimen.RARE_OUTCOME, alarm=ALARM, site=SITE),
}


@dataclass(slots=True)
class Steps:
    """Instructions of SQLite's virtual machine, in hundreds, over all readers."""

    count: int = 0

    def step(self) -> int:
        self.count += 1
        return 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()
    connect = StoreFile.connect

    def counting(file: StoreFile, *, read_only: bool) -> sqlite3.Connection:
        connection = connect(file, read_only=read_only)
        if read_only:
            connection.set_progress_handler(counted.step, 100)
        return connection

    monkeypatch.setattr(StoreFile, "connect", counting)
    return counted


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("growth")
    made = {}
    for size in (SMALL, LARGE):
        made[size] = folder / f"{size}.db"
        fill(made[size], size, lambda _done, _of: None)
    return made


async def _cost(store: Store, steps: Steps, wanted: DecisionFilter, cursor: str = "") -> int:
    before = steps.count
    page = await store.decisions.page(wanted, cursor=cursor, limit=50)
    assert page.decisions or "site" in repr(wanted)
    return steps.count - before


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filtered_page_reads_what_it_shows(
    files: dict[int, Path], steps: Steps, name: str
) -> None:
    costs = {}
    for size, path in files.items():
        store = await Store.open(path, clock=HandClock())
        try:
            costs[size] = await _cost(store, steps, FILTERS[name])
        finally:
            await store.close()
    # Finding the rarest of several filters counts a hundred decisions of each.
    assert costs[LARGE] <= 1.5 * costs[SMALL] + 30, costs


async def test_a_deep_page_reads_nothing_of_the_newer_ones(
    files: dict[int, Path], steps: Steps
) -> None:
    store = await Store.open(files[LARGE], clock=HandClock())
    try:
        old = specimen.identity(100, LARGE).decided_at
        there = await store.decisions.page(DecisionFilter(until=old), cursor="", limit=1)
        first = await _cost(store, steps, DecisionFilter())
        deep = await _cost(store, steps, DecisionFilter(), there.cursor)
        page = await store.decisions.page(DecisionFilter(), cursor=there.cursor, limit=1)
        assert [one["alert_id"] for one in page.decisions] == [
            specimen.identity(98, LARGE).alert_id
        ]
    finally:
        await store.close()
    assert deep <= 1.5 * first + 5, (first, deep)


async def test_until_and_the_cursor_bound_a_page_together(files: dict[int, Path]) -> None:
    """`until` excludes its own instant, on the pages after the first as well."""
    store = await Store.open(files[SMALL], clock=HandClock())
    try:
        wanted = DecisionFilter(
            since=specimen.identity(10, SMALL).decided_at,
            until=specimen.identity(15, SMALL).decided_at,
        )
        shown: list[str] = []
        cursor = ""
        for _ in range(3):
            page = await store.decisions.page(wanted, cursor=cursor, limit=2)
            shown += [one["alert_id"] for one in page.decisions]
            cursor = page.cursor
        assert cursor == ""
        assert shown == [specimen.identity(n, SMALL).alert_id for n in range(14, 9, -1)]
    finally:
        await store.close()


async def _with_gaps(path: Path, size: int) -> Store:
    """Of node "busy" that many open gaps and 60 closed ones; of node "quiet" half and half."""
    store = await Store.open(migrated(path), clock=HandClock())
    [accepted] = await store.alerts.accept([arrival()])
    assert accepted.alert_id is not None
    kinds = [("busy", False)] * size + [("busy", True)] * 60
    kinds += [("quiet", False), ("quiet", True)] * (size // 2)
    gaps = [gap(accepted.alert_id, node, tool_sha256=f"{n}") for n, (node, _) in enumerate(kinds)]
    await store.decisions.commit(decision(accepted.alert_id), {}, (), gaps)
    closing = [
        store.gaps.close_gap(one.gap_id, by="ann", note="", at=START + timedelta(seconds=n))
        for n, (one, (_, is_closed)) in enumerate(zip(gaps, kinds, strict=True))
        if is_closed
    ]
    assert all(await asyncio.gather(*closing))
    return store


@pytest.mark.parametrize("node", ["", "busy"])
@pytest.mark.parametrize("closed", [False, True])
async def test_a_page_of_gaps_reads_what_it_shows(
    tmp_path: Path, steps: Steps, node: str, closed: bool
) -> None:
    costs = []
    for size in (60, 1_200):
        store = await _with_gaps(tmp_path / f"{size}.db", size)
        try:
            before = steps.count
            page = await store.gaps.gap_page(closed=closed, node=node, cursor="", limit=50)
            costs.append(steps.count - before)
        finally:
            await store.close()
        assert len(page.gaps) == 50
    assert costs[1] <= 1.5 * costs[0] + 5, costs


# --- on PostgreSQL --------------------------------------------------------------------------------


class Blocks:
    """A cursor that counts what its statements read: tables and indexes, in blocks of 8 KiB."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.cursor = connection.cursor()
        self.count = 0

    def execute(self, text: str, values: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}".encode()
        [[found]] = self.cursor.execute(explain, values).fetchall()
        plan = found[0]["Plan"]
        self.count += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return self.cursor.execute(text.encode(), values)


@pytest.fixture(scope="module")
def filled(postgres_databases: Databases) -> Iterator[str]:
    url = postgres_databases.new()
    names = ", ".join(column.name for column in DECISIONS.columns)
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.cursor().copy(f"COPY decisions ({names}) FROM STDIN".encode()) as copy:
            for row in rows_of(0, LARGE, LARGE).decisions:
                copy.write_row(row)
        connection.execute("VACUUM ANALYZE decisions")
    yield url
    postgres_databases.drop(url)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filtered_page_reads_a_small_part_of_the_tables_on_postgresql(
    filled: str, name: str
) -> None:
    wanted = FILTERS[name]
    last = 2**63 - 1
    with psycopg.connect(filled) as connection:
        cursor = Blocks(connection)
        found = find_page(
            Transaction(cursor, database_at(filled).compiler()),
            {"alarm": wanted.alarm, "site": wanted.site, "outcome": wanted.outcome},
            since=-last,
            newest=last,
            after=(last, ""),
            limit=50,
        )
        assert found or "site" in repr(wanted)
        [[table]] = connection.execute("SELECT pg_relation_size('decisions') / 8192").fetchall()
    assert cursor.count <= table / 8, (cursor.count, table)
