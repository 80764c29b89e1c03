"""The delivery contract of every queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.queue_worlds import WAIT_S, Ground, SqliteWorld, World, backends, world_class
from tests.contract.store_world import HandClock, arrival, decision, migrated
from triage.adapters.store import Store
from triage.model.alert import PRIORITY_NAMES, Severity
from triage.ports import PATIENCE, Delivery

Backend = tuple[type[World], Any]


@pytest.fixture(scope="module", params=backends())
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    kind = world_class(request.param)
    with kind.running(tmp_path_factory.mktemp(request.param)) as server:
        yield kind, server


@pytest.fixture
async def world(backend: Backend, tmp_path: Path) -> AsyncIterator[World]:
    kind, server = backend
    async with kind.opened(Ground(tmp_path, server)) as opened:
        yield opened


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[SqliteWorld]:
    async with SqliteWorld.opened(Ground(tmp_path, None)) as opened:
        yield opened


async def test_published_alerts_are_received_once(world: World) -> None:
    before = world.clock.now()
    first = await world.publish("a")
    second = await world.publish("b")
    after = world.clock.now()

    received = await world.receive()

    assert [delivery.alert_id for delivery in received] == [first, second]
    assert before <= received[0].published_at <= received[1].published_at <= after
    assert await world.receive() == []


async def test_an_empty_queue_gives_nothing(world: World) -> None:
    await world.queue.publish([])

    assert await world.receive() == []
    assert set((await world.queue.depth()).values()) == {0}


async def test_publishing_again_changes_nothing(world: World) -> None:
    alert_id = await world.publish("a")
    await world.queue.publish([(alert_id, Severity.WARNING), (alert_id, Severity.WARNING)])
    [held] = await world.receive()
    await world.queue.publish([(alert_id, Severity.WARNING)])

    assert await world.receive() == []
    await world.queue.settle(returned=[held], delay_s=world.delay_s)
    await world.queue.publish([(alert_id, Severity.WARNING)])
    await world.pass_delay()
    [again] = await world.receive()
    assert await world.receive() == []
    await world.queue.settle(acked=[again])
    assert await world.receive() == []


async def test_an_acked_alert_can_be_published_again(world: World) -> None:
    alert_id = await world.publish("a")
    await world.queue.settle(acked=await world.receive())

    await world.queue.publish([(alert_id, Severity.WARNING)])

    assert [delivery.alert_id for delivery in await world.receive()] == [alert_id]


async def test_the_most_severe_come_first_then_the_oldest(world: World) -> None:
    order = [Severity.INFO, Severity.UNKNOWN, Severity.CRITICAL, Severity.WARNING, Severity.ERROR]
    ids = {severity: await world.publish(severity.value, severity) for severity in order}

    received: list[str] = []
    while got := await world.receive(limit=2):
        received += [delivery.alert_id for delivery in got]

    expected = [Severity.CRITICAL, Severity.ERROR, Severity.UNKNOWN, Severity.WARNING]
    assert received == [ids[severity] for severity in [*expected, Severity.INFO]]


async def test_a_flood_of_the_most_severe_does_not_starve_the_others(world: World) -> None:
    flood = [await world.publish(f"c{n}", Severity.CRITICAL) for n in range(PATIENCE)]
    patient = await world.publish("i", Severity.INFO)

    received: list[str] = []
    for _ in range(PATIENCE):
        received += [delivery.alert_id for delivery in await world.receive(limit=1)]

    assert received == [*flood[:-1], patient]


async def test_depth_counts_by_priority_what_is_held_as_well(world: World) -> None:
    await world.publish("a", Severity.CRITICAL)
    await world.publish("b", Severity.UNKNOWN)
    await world.publish("c", Severity.WARNING)
    held = await world.receive(limit=2)
    expected = dict.fromkeys(PRIORITY_NAMES, 0) | {"critical": 1, "warning": 2}
    assert await world.queue.depth() == expected

    await world.queue.settle(returned=held, delay_s=world.delay_s)
    assert await world.queue.depth() == expected

    await world.queue.settle(acked=await world.receive())
    assert await world.queue.depth() == expected | {"warning": 1}


async def test_two_consumers_never_hold_the_same(world: World) -> None:
    ids = [await world.publish(f"f{n}") for n in range(20)]

    shares = await asyncio.gather(
        *(queue.receive(limit=3, wait_s=0) for queue in (world.queue, world.other, world.queue) * 3)
    )

    received = [delivery.alert_id for share in shares for delivery in share]
    assert sorted(received) == sorted(ids)


async def test_a_lost_lease_goes_to_another_and_what_the_first_says_is_harmless(
    world: World,
) -> None:
    await world.publish("a")
    [lost] = await world.receive()
    await world.lapse(0.5)
    assert await world.other.receive(limit=1, wait_s=0) == []
    await world.lapse()

    [taken] = await world.other.receive(limit=1, wait_s=WAIT_S)
    assert taken.alert_id == lost.alert_id
    assert taken.token != lost.token
    assert taken.published_at == lost.published_at
    await world.queue.settle(acked=[lost])
    await world.queue.settle(returned=[lost])
    assert await world.queue.extend([lost]) == []

    assert await world.receive() == []
    assert await world.other.extend([taken]) == [taken]


async def test_a_lease_lost_to_oneself_is_lost(world: World) -> None:
    await world.publish("a")
    [lost] = await world.receive()
    await world.lapse()
    [taken] = await world.queue.receive(limit=1, wait_s=WAIT_S)

    await world.queue.settle(acked=[lost])
    await world.queue.settle(returned=[lost])

    assert await world.receive() == []
    assert await world.queue.extend([lost, taken]) == [taken]


async def test_extending_keeps_a_delivery(world: World) -> None:
    await world.publish("a")
    held = await world.receive()
    for _ in range(4):
        await world.lapse(0.5)
        assert await world.queue.extend(held) == held
        assert await world.receive() == []

    await world.lapse()
    assert await world.queue.extend(held) == []
    assert await world.queue.extend([]) == []


async def test_a_returned_delivery_comes_again_after_its_delay(world: World) -> None:
    await world.publish("a")
    [held] = await world.receive()
    await world.queue.settle(returned=[held], delay_s=world.delay_s)

    assert await world.receive() == []
    await world.pass_delay()
    [again] = await world.queue.receive(limit=1, wait_s=WAIT_S)
    assert again.alert_id == held.alert_id
    assert again.published_at == held.published_at
    await world.queue.settle(returned=[again])
    [last] = await world.queue.receive(limit=1, wait_s=WAIT_S)
    assert (last.alert_id, last.published_at) == (held.alert_id, held.published_at)


async def test_what_was_returned_twice_by_one_holder_comes_once(world: World) -> None:
    await world.publish("a")
    [held] = await world.receive()
    await world.queue.settle(returned=[held])
    await world.queue.settle(returned=[held])
    await world.queue.settle(acked=[held])

    [again] = await world.queue.receive(limit=10, wait_s=WAIT_S)
    assert again.alert_id == held.alert_id
    assert await world.receive() == []


async def test_what_is_returned_comes_before_what_is_newer(world: World) -> None:
    first = await world.publish("a")
    second = await world.publish("b")
    await world.queue.settle(returned=await world.receive(limit=1))

    received: list[Delivery] = []
    while len(received) < 2:
        received += await world.queue.receive(limit=1, wait_s=WAIT_S)

    assert [delivery.alert_id for delivery in received] == [first, second]


async def test_acks_and_returns_settle_together(world: World) -> None:
    ids = [await world.publish(f"f{n}") for n in range(3)]
    first, second, third = await world.receive()

    await world.queue.settle(acked=[first], returned=[second, third])
    await world.queue.settle()

    received: list[str] = []
    while len(received) < 2:
        received += [d.alert_id for d in await world.queue.receive(limit=10, wait_s=WAIT_S)]
    assert received == ids[1:]
    assert await world.receive() == []


async def test_a_waiting_receiver_is_woken_by_a_publish(world: World) -> None:
    waiting = asyncio.create_task(world.queue.receive(limit=1, wait_s=WAIT_S))
    other = asyncio.create_task(world.other.receive(limit=1, wait_s=WAIT_S))
    first = await world.publish("a")
    second = await world.publish("b")

    received = await asyncio.gather(waiting, other)

    assert {delivery.alert_id for share in received for delivery in share} == {first, second}


async def test_a_waiting_receiver_is_woken_by_a_return(world: World) -> None:
    await world.publish("a")
    [held] = await world.receive()
    waiting = asyncio.create_task(world.other.receive(limit=1, wait_s=WAIT_S))
    await world.queue.extend([held])

    await world.queue.settle(returned=[held])

    [again] = await waiting
    assert again.alert_id == held.alert_id


async def test_waiting_ends_with_nothing(world: World) -> None:
    assert await world.queue.receive(limit=1, wait_s=0.01) == []


async def test_what_a_cancelled_receiver_claimed_is_given_back(world: World) -> None:
    alert_id = await world.publish("a")
    receiver = asyncio.create_task(world.queue.receive(limit=1, wait_s=WAIT_S))
    while not receiver.done():
        # Cancelled at every point it can be cancelled at, as the loop comes by.
        await asyncio.sleep(0)
        receiver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiver

    [again] = await world.other.receive(limit=1, wait_s=WAIT_S)

    assert again.alert_id == alert_id


async def test_a_receiver_cancelled_while_it_waits_keeps_nothing_back(world: World) -> None:
    for number in range(5):
        waiting = asyncio.create_task(world.queue.receive(limit=1, wait_s=WAIT_S))
        publishing = asyncio.create_task(world.publish(f"f{number}"))
        for _ in range(number * 20):
            await asyncio.sleep(0)
        waiting.cancel()
        alert_id = await publishing
        try:
            received = await waiting
        except asyncio.CancelledError:
            received = await world.other.receive(limit=1, wait_s=WAIT_S)
            await world.other.settle(acked=received)
        else:
            await world.queue.settle(acked=received)
        assert [delivery.alert_id for delivery in received] == [alert_id]


async def test_a_queue_that_works_is_in_no_trouble(world: World) -> None:
    await world.publish("a")

    assert world.queue.trouble == ""
    assert world.queue.label
    world.queue.forgot()
    assert not world.queue.forgot()


async def test_closing_again_does_nothing(world: World) -> None:
    await world.publish("a")
    await world.receive()

    await world.queue.close()
    await world.queue.close()


async def test_a_decided_alert_is_not_queued_again(embedded: SqliteWorld) -> None:
    alert_id = await embedded.alert("a")
    await embedded.store.decisions.commit(decision(alert_id), {}, ())

    await embedded.queue.publish([(alert_id, Severity.WARNING)])

    assert await embedded.receive() == []


async def test_accepting_publishes_in_the_same_transaction(tmp_path: Path) -> None:
    clock = HandClock()
    store = await Store.open(migrated(tmp_path / "embedded.db"), clock=clock)
    try:
        waiting = asyncio.create_task(store.queue.receive(limit=5, wait_s=60))
        [answer] = await store.alerts.accept([arrival()])
        assert answer.alert_id is not None
        [delivery] = await waiting
        assert delivery.alert_id == answer.alert_id
        await store.decisions.commit(decision(delivery.alert_id), {}, ())
        await store.queue.settle(acked=[delivery])

        await store.queue.publish([(answer.alert_id, answer.severity)])

        assert await store.queue.receive(limit=5, wait_s=0) == []
    finally:
        await store.close()
