"""Storms: what fires again within a window is coalesced into the first of them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from tests.contract.conftest import StoreMaker
from tests.contract.store_world import HandClock, arrival, decision, resolve
from triage.adapters.store import Store
from triage.adapters.store.storms import coalesced_count
from triage.model.alert import AcceptStatus, AlertId, Arrival
from triage.model.decision import Outcome

WINDOW_S = 60.0


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(make_store: StoreMaker, clock: HandClock) -> Store:
    return await make_store(clock=clock, coalesce_s=WINDOW_S)


async def new(store: Store, what: Arrival) -> AlertId:
    [answer] = await store.alerts.accept([what])
    assert answer.alert_id is not None
    assert answer.status is AcceptStatus.NEW
    return answer.alert_id


async def first_of(store: Store, alert_id: AlertId) -> AlertId | None:
    stored = await store.alerts.stored(alert_id)
    assert stored is not None
    begun = await store.alerts.begin_attempt(alert_id)
    assert begun is not None
    assert begun.alert == stored.alert
    return stored.alert.coalesced_into


async def count(store: Store, alert_id: AlertId) -> int:
    return await store.alerts.readers.run(lambda found: coalesced_count(found, alert_id))


async def test_it_is_off_unless_asked_for(make_store: StoreMaker, clock: HandClock) -> None:
    store = await make_store(clock=clock)
    ids = [await new(store, arrival(starts_at_ns=n)) for n in range(3)]
    assert [await first_of(store, alert_id) for alert_id in ids] == [None, None, None]


async def test_re_fires_within_the_window_are_coalesced_into_the_first(
    store: Store, clock: HandClock
) -> None:
    first = await new(store, arrival(starts_at_ns=1))
    clock.advance(WINDOW_S / 2)
    second = await new(store, arrival(starts_at_ns=2))
    clock.advance(WINDOW_S / 2)
    third = await new(store, arrival(starts_at_ns=3))

    assert await first_of(store, first) is None
    assert await first_of(store, second) == first
    assert await first_of(store, third) == first
    assert (await count(store, first), await count(store, second)) == (2, 0)
    ledger = await store.ledger.ledger(full=True)
    assert (ledger.accepted, ledger.pending, ledger.balances) == (3, 3, True)


async def test_the_window_begins_with_the_first_and_then_anew(
    store: Store, clock: HandClock
) -> None:
    first = await new(store, arrival(starts_at_ns=1))
    clock.advance(WINDOW_S)
    await new(store, arrival(starts_at_ns=2))
    clock.advance(0.000001)
    following = await new(store, arrival(starts_at_ns=3))
    last = await new(store, arrival(starts_at_ns=4))

    assert await first_of(store, following) is None
    assert await first_of(store, last) == following
    assert (await count(store, first), await count(store, following)) == (1, 1)


async def test_only_the_same_fingerprint_of_the_same_sender_is_a_re_fire(store: Store) -> None:
    await new(store, arrival())
    for other in (arrival("g"), arrival(tenant="t")):
        assert await first_of(store, await new(store, other)) is None


async def test_episodes_are_coalesced_too(store: Store, clock: HandClock) -> None:
    first = await new(store, arrival(starts_at_ns=None))
    await store.decisions.commit(decision(first), {}, ())
    clock.advance(5)
    await store.alerts.accept([resolve(starts_at_ns=None)])
    clock.advance(5)
    assert await first_of(store, await new(store, arrival(starts_at_ns=None))) == first


async def test_a_re_send_of_the_first_is_no_re_fire(store: Store) -> None:
    first = await new(store, arrival())
    [again] = await store.alerts.accept([arrival()])
    assert again.status is AcceptStatus.KNOWN
    assert await first_of(store, first) is None
    assert await count(store, first) == 0


async def test_a_resolve_without_its_firing_neither_begins_a_storm_nor_is_part_of_one(
    store: Store,
) -> None:
    alone = await new(store, resolve(starts_at_ns=1))
    first = await new(store, arrival(starts_at_ns=2))
    within = await new(store, resolve(starts_at_ns=3))
    for alert_id in (alone, first, within):
        assert await first_of(store, alert_id) is None


async def test_nothing_is_coalesced_into_what_nobody_looks_at(
    store: Store, clock: HandClock
) -> None:
    """Decided `resolved` or given up: then the one that fires now would never be walked."""
    await new(store, arrival("overtaken", starts_at_ns=1))
    await store.alerts.accept([resolve("overtaken", starts_at_ns=1)])
    resolved = await new(store, arrival("resolved", starts_at_ns=1))
    await store.alerts.accept([resolve("resolved", starts_at_ns=1)])
    await store.decisions.commit(decision(resolved, Outcome.RESOLVED), {}, ())
    dead = await new(store, arrival("dead", starts_at_ns=1))
    await store.alerts.dead_letter(dead, "attempts_used_up", "")
    taken_out = await new(store, arrival("taken out", starts_at_ns=1))
    await store.alerts.dead_letter(taken_out, "attempts_used_up", "")
    await store.dead_letters.discard(taken_out, by="ann", note="", at=clock.now())

    for name in ("overtaken", "resolved", "dead", "taken out"):
        second = await new(store, arrival(name, starts_at_ns=2))
        assert await first_of(store, second) is None
        assert await first_of(store, await new(store, arrival(name, starts_at_ns=3))) == second


async def test_a_first_that_was_resolved_after_its_decision_stays_the_first(
    store: Store,
) -> None:
    first = await new(store, arrival(starts_at_ns=1))
    await store.decisions.commit(decision(first, Outcome.ACTIONS), {}, ())
    await store.alerts.accept([resolve(starts_at_ns=1)])
    assert await first_of(store, await new(store, arrival(starts_at_ns=2))) == first


async def test_what_a_person_tries_again_is_walked(store: Store, clock: HandClock) -> None:
    """Alone, whatever else fires."""
    first = await new(store, arrival(starts_at_ns=1))
    await store.alerts.dead_letter(first, "attempts_used_up", "")
    await new(store, arrival(starts_at_ns=2))
    await store.dead_letters.redrive(first, by="ann", at=clock.now())
    assert await first_of(store, first) is None


async def test_of_many_at_once_one_is_the_first(
    make_store: StoreMaker, store: Store, clock: HandClock
) -> None:
    replicas = [store]
    if make_store.backend == "postgres":
        replicas.append(await make_store(clock=clock, coalesce_s=WINDOW_S))
    for storm in range(10):
        answers = await asyncio.gather(
            *(
                replicas[n % len(replicas)].alerts.accept([arrival(f"f{storm}", starts_at_ns=n)])
                for n in range(8)
            )
        )
        ids = [answer.alert_id for [answer] in answers]
        firsts = [await first_of(store, alert_id) for alert_id in ids if alert_id]
        [first] = [alert_id for alert_id, into in zip(ids, firsts, strict=True) if into is None]
        assert firsts.count(first) == 7


@dataclass(slots=True)
class Window:
    """A storm as its rule has it: from its first for WINDOW_S."""

    first: AlertId
    began_at: float


@pytest.mark.parametrize("seed", range(3))
async def test_any_history_is_coalesced_by_the_rule(
    store: Store, clock: HandClock, seed: int
) -> None:
    chance = random.Random(seed)
    windows: dict[str, Window] = {}
    for n in range(60):
        clock.advance(chance.choice([0, 1, 20, 59, 60, 61]))
        name = chance.choice("ab")
        alert_id = await new(store, arrival(name, starts_at_ns=n))
        if chance.random() < 0.5:
            await store.decisions.commit(decision(alert_id, Outcome.ESCALATE), {}, ())
        window = windows.get(name)
        if window is None or clock.monotonic() > window.began_at + WINDOW_S:
            windows[name] = Window(alert_id, clock.monotonic())
            assert await first_of(store, alert_id) is None
        else:
            assert await first_of(store, alert_id) == window.first
