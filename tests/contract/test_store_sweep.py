"""Which pending alerts are published again, and when."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_rows import change, query
from tests.contract.store_world import START, HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.adapters.store.schema import to_us
from triage.model.alert import AlertId, Severity

SWEEP_S, LEASE_S = 10.0, 30.0


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock, sweep_s=SWEEP_S, lease_s=LEASE_S)


async def accepted(
    store: Store, fingerprint: str = "f", severity: Severity = Severity.WARNING
) -> AlertId:
    [answer] = await store.alerts.accept([arrival(fingerprint, severity=severity)])
    assert answer.alert_id is not None
    return answer.alert_id


async def due(store: Store, limit: int = 1_000) -> list[AlertId]:
    return [alert_id for alert_id, _ in await store.alerts.to_wake(limit=limit)]


async def test_a_new_alert_is_due_after_a_while(store: Store, clock: HandClock) -> None:
    alert_id = await accepted(store)
    assert await due(store) == []
    clock.advance(SWEEP_S - 0.000001)
    assert await due(store) == []
    clock.advance(0.000001)
    assert await store.alerts.to_wake(limit=1) == [(alert_id, Severity.WARNING)]


async def test_nothing_is_asked_for(store: Store, clock: HandClock) -> None:
    await accepted(store)
    clock.advance(SWEEP_S)
    assert await due(store, limit=0) == []
    assert len(await due(store)) == 1


async def test_who_waits_is_put_off_by_as_long_up_to_five_minutes(
    store: Store, clock: HandClock
) -> None:
    alert_id = await accepted(store)
    handed_out = []
    for _ in range(1_500):
        if await due(store):
            handed_out.append((clock.now() - START).total_seconds())
        clock.advance(1)
    assert handed_out == [10, 20, 40, 80, 160, 320, 620, 920, 1220]
    stored = await store.alerts.stored(alert_id)
    assert stored is not None
    assert stored.attempts == 0


async def test_a_sweep_slower_than_five_minutes_is_not_made_faster(
    make_store: StoreMaker, clock: HandClock
) -> None:
    store = await make_store(clock=clock, sweep_s=400)
    await accepted(store)
    clock.advance(400)
    assert len(await due(store)) == 1
    clock.advance(399)
    assert await due(store) == []
    clock.advance(1)
    assert len(await due(store)) == 1


async def test_an_attempt_is_left_alone_for_its_lease(store: Store, clock: HandClock) -> None:
    alert_id = await accepted(store)
    clock.advance(SWEEP_S)
    await store.alerts.begin_attempt(alert_id)
    clock.advance(LEASE_S + SWEEP_S - 1)
    assert await due(store) == []

    await store.alerts.hold([AlertId("unheard"), alert_id])
    clock.advance(LEASE_S + SWEEP_S - 1)
    assert await due(store) == []
    clock.advance(1)
    assert await due(store) == [alert_id]


async def test_holding_nothing_is_nothing(store: Store) -> None:
    await store.alerts.hold([])


async def test_what_is_no_longer_pending_is_never_due(store: Store, clock: HandClock) -> None:
    decided, dead, late = [await accepted(store, name) for name in ("decided", "dead", "late")]
    await store.decisions.commit(decision(decided), {}, ())
    await store.alerts.dead_letter(dead, "attempts_used_up", "")
    await store.alerts.begin_attempt(decided)
    await store.alerts.hold([decided, dead])
    await store.alerts.wake_all()
    clock.advance(10_000)
    assert await due(store) == [late]


async def test_the_longest_overdue_are_taken_and_the_most_severe_named_first(
    store: Store, clock: HandClock
) -> None:
    old = await accepted(store, "old", Severity.INFO)
    clock.advance(1)
    severe = await accepted(store, "severe", Severity.CRITICAL)
    clock.advance(1)
    young = await accepted(store, "young", Severity.CRITICAL)
    clock.advance(SWEEP_S)

    assert await due(store, limit=2) == [severe, old]
    assert await due(store, limit=2) == [young]


async def test_a_queue_that_lost_its_memory_gets_all_that_nobody_holds(
    store: Store, clock: HandClock
) -> None:
    fresh = await accepted(store, "fresh", Severity.INFO)
    severe = await accepted(store, "severe", Severity.CRITICAL)
    begun = await accepted(store, "begun")
    await store.alerts.begin_attempt(begun)

    await store.alerts.wake_all()

    # Page by page in this order too: nothing critical waits for a page of its own.
    assert await due(store, limit=1) == [severe]
    assert await due(store, limit=1) == [fresh]
    assert await due(store) == []
    clock.advance(LEASE_S + SWEEP_S)
    assert begun in await due(store)


async def test_whoever_was_put_off_for_long_does_not_wait_for_it_after_a_loss(
    store: Store, clock: HandClock
) -> None:
    """Whether it was never begun, or begun by a process that is gone since."""
    never, gone = await accepted(store, "never"), await accepted(store, "gone")
    await store.alerts.begin_attempt(gone)
    clock.advance(200)
    assert sorted(await due(store)) == sorted([never, gone])

    await store.alerts.wake_all()
    assert sorted(await due(store)) == sorted([never, gone])

    # And at the latest when the alerts of a process that dies now are due.
    clock.advance(LEASE_S + SWEEP_S)
    await store.alerts.wake_all()
    assert sorted(await due(store)) == sorted([never, gone])


async def test_what_was_never_begun_is_due_after_a_loss_however_it_was_put_off(
    store: Store, clock: HandClock
) -> None:
    """Its time may look like that of an attempt under way."""
    alert_id = await accepted(store)
    clock.advance(SWEEP_S + LEASE_S / 2)
    assert await due(store) == [alert_id]
    await store.alerts.wake_all()
    assert await due(store) == [alert_id]


async def test_what_is_due_already_keeps_its_place(store: Store, clock: HandClock) -> None:
    waiting = await accepted(store, "waiting")
    clock.advance(SWEEP_S + 1)
    await accepted(store, "fresh", Severity.CRITICAL)
    await store.alerts.wake_all()
    assert await due(store, limit=1) == [waiting]


async def test_replicas_get_different_alerts(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    ids = {await accepted(store, f"f{n}") for n in range(60)}
    clock.advance(SWEEP_S)
    replicas = [store]
    if make_store.backend == "postgres":
        replicas.append(await make_store(clock=clock, sweep_s=SWEEP_S, lease_s=LEASE_S))

    claims = [replica.alerts.to_wake(limit=7) for _ in range(9) for replica in replicas]
    woken = [alert_id for claim in await asyncio.gather(*claims) for alert_id, _ in claim]
    woken += await due(store)  # a claim steps over what another one has locked

    assert len(woken) == len(ids)
    assert set(woken) == ids


@pytest.mark.parametrize("make_store", ["postgres"], indirect=True)
async def test_what_another_process_holds_is_stepped_over(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    held, free = [await accepted(store, name) for name in ("held", "free")]
    with psycopg.connect(str(make_store.location)) as other:
        other.execute("SELECT 1 FROM alerts WHERE alert_id = %s FOR UPDATE", [held])
        await store.alerts.wake_all()
        assert await due(store) == [free]
        clock.advance(SWEEP_S)
        assert await due(store) == [free]
    assert await due(store) == [held]


async def test_replicas_that_see_the_loss_at_once_wake_each_alert_once(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    ids = {await accepted(store, f"f{n}") for n in range(40)}
    replicas = [store]
    if make_store.backend == "postgres":
        replicas.append(await make_store(clock=clock, sweep_s=SWEEP_S, lease_s=LEASE_S))

    async def recover(replica: Store) -> list[AlertId]:
        await replica.alerts.wake_all()
        return await due(replica)

    woken = [await asyncio.gather(*(recover(replica) for replica in replicas))]
    assert {alert_id for claims in woken for claim in claims for alert_id in claim} == ids


async def test_a_resolve_does_not_wake(store: Store, clock: HandClock) -> None:
    alert_id = await accepted(store)
    await store.alerts.begin_attempt(alert_id)
    await store.alerts.accept([resolve(), arrival()])
    clock.advance(SWEEP_S)
    assert await due(store) == []


async def test_an_alert_of_an_older_version_is_due_at_once(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    alert_id = await accepted(store)
    change(make_store, "UPDATE alerts SET wake_at = 0")  # as the migration leaves it
    assert await due(store) == [alert_id]
    [(wake_at,)] = query(make_store, "SELECT wake_at FROM alerts")
    assert wake_at == to_us(clock.now()) + SWEEP_S * 1e6


async def test_an_attempt_that_was_not_made_does_not_count(make_store: StoreMaker) -> None:
    clock = HandClock()
    store = await make_store(clock=clock)
    [answer] = await store.alerts.accept([arrival()])
    assert answer.alert_id is not None
    for before in (0, 1, 1):
        stored = await store.alerts.begin_attempt(answer.alert_id)
        assert stored is not None
        assert stored.attempts == before
        if before:
            await store.alerts.release_attempt(answer.alert_id)
    await store.alerts.release_attempt(answer.alert_id)
    await store.alerts.release_attempt(answer.alert_id)
    left = await store.alerts.stored(answer.alert_id)
    assert left is not None
    assert left.attempts == 0
    await store.alerts.begin_attempt(answer.alert_id)
    await store.decisions.commit(decision(answer.alert_id), {}, ())
    await store.alerts.release_attempt(answer.alert_id)
    decided = await store.alerts.stored(answer.alert_id)
    assert decided is not None
    assert decided.attempts == 1
