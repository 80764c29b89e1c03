"""What is known of a fingerprint's episodes, after its alerts were purged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from bench.servers import wait_until
from tests.contract.conftest import StoreMaker
from tests.contract.retention_world import DAY_S, decided, one
from tests.contract.store_rows import query
from tests.contract.store_world import START, HandClock, arrival, resolve
from triage.adapters.store import Store
from triage.model.alert import AcceptStatus


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


async def episodes(maker: StoreMaker) -> dict[str, int]:
    return dict(query(maker, "SELECT fingerprint, episode FROM episodes"))


async def test_what_is_known_of_episodes_goes_with_the_last_alert_unless_one_is_open(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    for name in ("ended", "open", "pending", "late"):
        what = arrival(name, starts_at_ns=None)
        if name == "pending":
            await one(store, what)
        else:
            await decided(store, name, starts_at_ns=None)
        if name in ("ended", "pending"):
            await one(store, resolve(name, starts_at_ns=None))
    clock.advance(DAY_S)
    await one(store, resolve("late", starts_at_ns=None))

    await store.retention.purge(older_than=clock.now(), max_bytes=None)

    assert await episodes(make_store) == {"open": 1, "pending": 1, "late": 1}
    clock.advance(1)
    await store.retention.purge(older_than=clock.now(), max_bytes=None)
    assert await episodes(make_store) == {"open": 1, "pending": 1}


async def test_all_fingerprints_come_up_over_several_runs(
    make_store: StoreMaker, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triage.adapters.store.purging.ROWS_STEP", 2)
    monkeypatch.setattr("triage.adapters.store.retention._EPISODE_STEPS", 2)
    for n in range(7):
        name = f"f{n}"
        await decided(store, name, starts_at_ns=None)
        if n not in (0, 3):
            await one(store, resolve(name, starts_at_ns=None))
    clock.advance(DAY_S)
    left = []
    for _ in range(3):
        await store.retention.purge(older_than=clock.now(), max_bytes=None)
        left.append(len(await episodes(make_store)))
    assert left == [5, 2, 2]


async def test_a_trigger_whose_open_episode_was_purged_is_new_under_a_new_id(
    store: Store, clock: HandClock
) -> None:
    first = await decided(store, "f", starts_at_ns=None)
    clock.advance(DAY_S)
    await store.retention.purge(older_than=clock.now(), max_bytes=None)

    again = await one(store, arrival("f", starts_at_ns=None))
    assert again.status is AcceptStatus.NEW
    assert again.alert_id != first
    assert (await one(store, arrival("f", starts_at_ns=None))).status is AcceptStatus.KNOWN
    assert (await one(store, resolve("f", starts_at_ns=None))).alert_id == again.alert_id


async def test_a_trigger_told_late_for_a_purged_episode_is_not_lost(
    store: Store, clock: HandClock
) -> None:
    await decided(store, "f", starts_at_ns=None, observed_at=START)
    ended = START + timedelta(seconds=60)
    await one(store, resolve("f", starts_at_ns=None, observed_at=ended))
    clock.advance(30)
    await store.retention.purge(older_than=clock.now(), max_bytes=None)
    late = await one(
        store, arrival("f", starts_at_ns=None, observed_at=ended - timedelta(seconds=1))
    )
    assert late.status is AcceptStatus.NEW


async def test_a_trigger_and_a_purge_of_its_episode_at_once_agree(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    """Either the episode was found and is counted on, or it was not and is the first again."""
    other = await make_store(clock=clock) if make_store.backend == "postgres" else store
    names = [f"f{n}" for n in range(12)]
    for name in names:
        await decided(store, name, starts_at_ns=None)
        await one(store, resolve(name, starts_at_ns=None))
    clock.advance(DAY_S)

    purging = asyncio.create_task(other.retention.purge(older_than=clock.now(), max_bytes=None))
    fired = await asyncio.gather(*(one(store, arrival(name, starts_at_ns=None)) for name in names))
    await purging

    assert [answer.status for answer in fired] == [AcceptStatus.NEW] * len(names)
    assert (await episodes(make_store)).keys() == set(names)
    for answer, name in zip(fired, names, strict=True):
        ended = await one(store, resolve(name, starts_at_ns=None))
        assert ended == replace(answer, status=AcceptStatus.RESOLVED)


@pytest.mark.parametrize("make_store", ["postgres"], indirect=True)
async def test_a_trigger_waits_for_a_purge_of_its_episode(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    """It would count on an episode that is being deleted, and leave an alert without one."""
    other = await make_store(clock=clock)
    await decided(store, "f", starts_at_ns=None)
    await one(store, resolve("f", starts_at_ns=None))
    clock.advance(DAY_S)

    async def waiting(number: int) -> None:
        def are() -> bool:
            sql = (
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return query(make_store, sql) == [(number,)]

        await asyncio.to_thread(wait_until, are, what="waits for locks")

    with psycopg.connect(str(make_store.location)) as holder:
        holder.execute("SELECT 1 FROM episodes FOR UPDATE")
        purging = asyncio.create_task(other.retention.purge(older_than=clock.now(), max_bytes=None))
        await waiting(1)
        firing = asyncio.create_task(one(store, arrival("f", starts_at_ns=None)))
        await waiting(2)
    fired = await firing
    await purging

    assert fired.status is AcceptStatus.NEW
    assert await episodes(make_store) == {"f": 1}
    assert (await one(store, resolve("f", starts_at_ns=None))).alert_id == fired.alert_id
