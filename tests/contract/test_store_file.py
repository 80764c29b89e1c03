"""The SQLite file: who may open it, and what happens when it cannot grow."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.store_world import HandClock, arrival, decision
from triage.adapters.store import Store
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


@pytest.mark.parametrize("bad", ["mysql://db/x", "sqlite://", "://", "", "sqlite:///:memory:"])
async def test_a_location_that_is_no_file_is_refused(bad: str) -> None:
    with pytest.raises(ConfigError):
        await Store.open(bad, clock=HandClock())


async def test_a_directory_that_cannot_be_made_is_a_fault_of_the_configuration(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be created"):
        await Store.open(tmp_path / "file" / "triage.db", clock=HandClock())


async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database, whatever its name says" * 100)
    before = broken.read_bytes()
    with pytest.raises(ConfigError, match="cannot be read"):
        await Store.open(broken, clock=HandClock())
    assert broken.read_bytes() == before


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
