"""A full count of the ledger finds what does not belong together, also where the counts agree."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.store_world import HandClock, arrival, decision, migrated
from triage.adapters.store import Store
from triage.model.alert import AlertId

IDS = ("decided", "dead", "pending")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return migrated(tmp_path / "triage.db")


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(path, clock=HandClock())
    yield opened
    await opened.close()


@pytest.fixture
async def alerts(store: Store) -> dict[str, AlertId]:
    """One decided, one dead-lettered, one pending."""
    found: dict[str, AlertId] = {}
    for name in IDS:
        [answer] = await store.alerts.accept([arrival(name)])
        assert answer.alert_id is not None
        found[name] = answer.alert_id
    await store.decisions.commit(decision(found["decided"]), {}, ())
    await store.alerts.dead_letter(found["dead"], "attempts_used_up", "")
    return found


def change(path: Path, sql: str, **values: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, values)


async def test_what_belongs_together_balances(store: Store, alerts: dict[str, AlertId]) -> None:
    ledger = await store.ledger.ledger(full=True)
    assert ledger.balances
    assert (ledger.decided, ledger.dead_lettered, ledger.pending) == (1, 1, 1)


@pytest.mark.parametrize(
    ("table", "belongs_to", "moved_to"),
    [
        ("decisions", "decided", "pending"),
        ("decisions", "decided", "dead"),
        ("dead_letters", "dead", "pending"),
        ("dead_letters", "dead", "decided"),
    ],
)
async def test_a_row_that_moved_to_another_alert_is_named(
    store: Store,
    path: Path,
    alerts: dict[str, AlertId],
    table: str,
    belongs_to: str,
    moved_to: str,
) -> None:
    change(path, f"UPDATE {table} SET alert_id = :to", to=alerts[moved_to])  # noqa: S608 - ours

    ledger = await store.ledger.ledger(full=True)

    assert set(ledger.unaccounted) == {alerts[belongs_to], alerts[moved_to]}
    assert not ledger.balances


@pytest.mark.parametrize("table", ["decisions", "dead_letters"])
async def test_a_row_of_no_alert_is_noticed(
    store: Store, path: Path, alerts: dict[str, AlertId], table: str
) -> None:
    change(path, f"UPDATE {table} SET alert_id = 'nobody'")  # noqa: S608 - ours

    ledger = await store.ledger.ledger(full=True)

    owner = alerts["decided" if table == "decisions" else "dead"]
    assert owner in ledger.unaccounted


@pytest.mark.parametrize("table", ["decisions", "dead_letters"])
async def test_a_row_that_is_gone_is_noticed(
    store: Store, path: Path, alerts: dict[str, AlertId], table: str
) -> None:
    change(path, f"DELETE FROM {table}")  # noqa: S608 - ours

    ledger = await store.ledger.ledger(full=True)

    assert ledger.unaccounted == (alerts["decided" if table == "decisions" else "dead"],)
