"""Retention by size: the oldest go, whatever their age, as long as nothing is hurt by it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.gap_world import gap
from tests.contract.retention_world import DAY_S, balance, decided, kept, one
from tests.contract.store_rows import change, count
from tests.contract.store_world import START, HandClock, arrival, decision
from triage.adapters.store import Store
from triage.adapters.store.size import used_bytes
from triage.model.alert import AlertId, ArrivalKind
from triage.model.decision import Outcome
from triage.ports import Purged


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock)


LARGE_BYTES = 20_000


async def used(store: Store) -> int:
    return await store.retention.readers.run(used_bytes)


async def fill(store: Store, clock: HandClock, number: int) -> list[AlertId]:
    """Decided alerts of LARGE_BYTES each that do not compress, a second apart."""
    noise = random.Random(number)
    ids = []
    for n in range(number):
        clock.advance(1)
        what = replace(arrival(f"f{n}", delivery_key=f"k{n}"), raw=noise.randbytes(LARGE_BYTES))
        answer = await one(store, what)
        assert answer.alert_id is not None
        await store.decisions.commit(decision(answer.alert_id), {}, ())
        ids.append(answer.alert_id)
    return ids


async def test_the_oldest_go_when_the_whole_is_too_large(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    empty = await used(store)
    ids = await fill(store, clock, 450)
    event = arrival(kind=ArrivalKind.EVENT, event="acknowledge")
    await store.alerts.accept([event])
    clock.advance(7200)
    before = await used(store)
    assert 0.7 <= (before - empty) / (450 * LARGE_BYTES) <= 1.5
    assert not (await store.retention.purge(older_than=START, max_bytes=before)).anything

    limit = before * 2 // 3
    purged = await store.retention.purge(older_than=START, max_bytes=limit)

    assert await used(store) <= limit
    left = await kept(store)
    assert left == set(ids[purged.decisions :])
    assert 100 <= purged.decisions <= 300
    # What is as old as what went, and no more.
    assert purged.deliveries in (purged.decisions - 1, purged.decisions)
    assert count(make_store, "events") == 1
    assert await balance(store) == (450, 450, purged.decisions)
    assert not (await store.retention.purge(older_than=START, max_bytes=limit)).anything


async def test_for_size_nothing_goes_of_the_last_hour(store: Store, clock: HandClock) -> None:
    old = await fill(store, clock, 3)
    clock.advance(3600.000001 - 2)
    young = await decided(store, "young")

    purged = await store.retention.purge(older_than=START, max_bytes=1)

    assert purged.decisions == 1
    assert await kept(store) == {*old[1:], young}


async def test_for_size_nothing_goes_that_fires_still(store: Store, clock: HandClock) -> None:
    """It would be new, decided again and acted upon a second time."""
    repeated, silent = [await decided(store, name) for name in ("repeated", "silent")]
    clock.advance(1.5 * DAY_S)
    await one(store, arrival("repeated"))
    clock.advance(1.5 * DAY_S)

    assert (await store.retention.purge(older_than=START, max_bytes=1)).decisions == 1
    assert await kept(store) == {repeated}
    assert await store.decisions.get(silent) is None
    clock.advance(1 * DAY_S)
    assert (await store.retention.purge(older_than=START, max_bytes=1)).decisions == 1


async def test_for_size_events_cases_and_discarded_alerts_go_too(
    store: Store, clock: HandClock
) -> None:
    event = arrival(kind=ArrivalKind.EVENT, event="acknowledge", delivery_key="m")
    await one(store, event)
    gone = await one(store, arrival("gone"))
    assert gone.alert_id is not None
    await store.alerts.dead_letter(gone.alert_id, "attempts_used_up", "")
    await store.dead_letters.discard(gone.alert_id, by="ann", note="", at=clock.now())
    clock.advance(60)
    answer = await one(store, arrival("f"))
    assert answer.alert_id is not None
    await store.decisions.commit(
        decision(answer.alert_id, Outcome.ESCALATE), {}, (), [gap(answer.alert_id, "n")]
    )
    clock.advance(7200)

    purged = await store.retention.purge(older_than=START, max_bytes=1)

    assert purged == Purged(decisions=2, events=2, deliveries=1, gap_cases=1)
    assert await balance(store) == (2, 1, 2)


async def test_only_alerts_that_stay_are_no_reason_to_go_on_for_ever(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    await fill(store, clock, 3)
    change(make_store, "UPDATE alerts SET status = 'pending'")
    clock.advance(7200)
    purged = await store.retention.purge(older_than=START, max_bytes=1)
    assert purged == Purged(deliveries=3)
