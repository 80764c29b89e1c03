"""The store's benchmark: what it fills a store with is what serving leaves, and it measures."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.growth import specimen
from bench.growth import store as growth_store
from bench.growth.fill import fill
from triage.adapters.store import Store
from triage.adapters.store.schema import METADATA
from triage.ports import CommitStatus, Delivery

TABLES = tuple(sorted(METADATA.tables.keys() - {"secrets"}))


@dataclass(slots=True)
class HandClock:
    at: datetime = specimen.START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - specimen.START).total_seconds()


async def served(path: Path, decisions: int) -> None:
    """The specimens through the ports, each at its own time."""
    clock = HandClock()
    store = await Store.open(path, clock=clock)
    try:
        for n in range(decisions):
            one = specimen.identity(n, decisions)
            clock.at = one.accepted_at
            [accepted] = await store.alerts.accept([specimen.arrival(one)])
            assert accepted.alert_id == one.alert_id
            [delivery] = await store.queue.receive(limit=1, wait_s=0)
            await store.alerts.begin_attempt(one.alert_id)
            bodies = specimen.evidence(one)
            made = specimen.decision(one, bodies)
            clock.at = one.decided_at
            status = await store.decisions.commit(made, bodies, [specimen.message(one, made)])
            assert status is CommitStatus.COMMITTED
            await _settled(store, delivery)
    finally:
        await store.close()


async def _settled(store: Store, delivery: Delivery) -> None:
    await store.queue.settle(acked=[delivery])
    due = await store.outbox.due(specimen.SINK, now=datetime.max.replace(tzinfo=UTC), limit=9)
    await store.outbox.delivered([row.row for row in due])


def _rows(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608 - our own name
        return [dict(row) for row in found]


async def test_a_filled_store_is_what_serving_leaves(tmp_path: Path) -> None:
    decisions = 5 * specimen.RARE + 3  # the rare kinds, shared evidence, a storm cut short
    fill(tmp_path / "filled.db", decisions, lambda _done, _of: None)
    await served(tmp_path / "served.db", decisions)

    for table in TABLES:
        filled, left = (_rows(tmp_path / name, table) for name in ("filled.db", "served.db"))
        assert len(filled) == len(left), table
        for mine, theirs in zip(filled, left, strict=True):
            assert mine == theirs, table
    kinds = {
        (row["outcome"], row["alarm"], row["site"])
        for row in _rows(tmp_path / "filled.db", "decisions")
    }
    assert {kind[0] for kind in kinds} == {"inconclusive", "actions", "no_fault", "escalate"}
    assert specimen.RARE_ALARM in {kind[1] for kind in kinds}
    assert specimen.RARE_SITE in {kind[2] for kind in kinds}


def test_measure_store() -> None:
    told: list[tuple[int, int]] = []
    figures = growth_store.measure_store(
        600, lambda done, of: told.append((done, of)), small=300, rounds=2
    )
    compared = (*growth_store.COMPARED, "deep_page")
    names = [f"store_1m_{name}_ratio" for name in compared]
    rare = [figures[f"store_1m_{name}_ratio"] for name in growth_store.RARE]
    assert figures["store_1m_rare_lists_ratio"] == max(rare)
    worst = max(figures[name] for name in names)
    assert figures["store_1m_ratio"] == worst
    for name in (*names, "file_mb", "fill_per_s", "large_open_p50_ms", "small_open_p50_ms"):
        assert math.isfinite(figures[name]), name
        assert figures[name] > 0, name
    assert figures["decisions"] == 600
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(growth_store.NoSpace, match="set TMPDIR"):
        growth_store.measure_store(10**12, lambda _done, _of: None)
    assert list(tmp_path.iterdir()) == []
