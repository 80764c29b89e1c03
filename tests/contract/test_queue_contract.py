"""The delivery contract of every queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.store_world import HandClock, arrival, decision, migrated
from triage.adapters.store import Store
from triage.model.alert import AlertId, Severity
from triage.ports import Delivery, Queue

LEASE_S = 30.0


@dataclass
class World:
    """A queue, and the store whose pending alerts it may be told of."""

    queue: Queue
    store: Store
    clock: HandClock

    async def alert(self, fingerprint: str, severity: Severity = Severity.WARNING) -> AlertId:
        """Accepted, not yet published."""
        [answer] = await self.store.alerts.accept([arrival(fingerprint, severity=severity)])
        assert answer.alert_id is not None
        return answer.alert_id

    async def publish(self, fingerprint: str, severity: Severity = Severity.WARNING) -> AlertId:
        alert_id = await self.alert(fingerprint, severity)
        await self.queue.publish([(alert_id, severity)])
        return alert_id

    async def receive(self, limit: int = 10) -> list[Delivery]:
        return await self.queue.receive(limit=limit, wait_s=0)


@pytest.fixture(params=["sqlite"])
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock = HandClock()
    store = await Store.open(
        migrated(tmp_path / "triage.db"), clock=clock, lease_s=LEASE_S, embedded_queue=False
    )
    yield World(queue=store.queue, store=store, clock=clock)
    await store.close()


async def test_published_alerts_are_received_once(world: World) -> None:
    first = await world.publish("a")
    second = await world.publish("b")

    received = await world.receive()

    assert [delivery.alert_id for delivery in received] == [first, second]
    assert received[0].published_at == world.clock.now()
    assert await world.receive() == []


async def test_publishing_again_changes_nothing(world: World) -> None:
    alert_id = await world.publish("a")
    await world.queue.publish([(alert_id, Severity.WARNING)])
    [held] = await world.receive()
    await world.queue.publish([(alert_id, Severity.WARNING)])

    assert await world.receive() == []
    await world.queue.settle(acked=[held])
    assert await world.receive() == []


async def test_a_decided_alert_is_not_queued_again(world: World) -> None:
    alert_id = await world.alert("a")
    await world.store.decisions.commit(decision(alert_id), {}, ())

    await world.queue.publish([(alert_id, Severity.WARNING)])

    assert await world.receive() == []


async def test_the_most_severe_come_first_then_the_oldest(world: World) -> None:
    order = [Severity.INFO, Severity.UNKNOWN, Severity.CRITICAL, Severity.WARNING, Severity.ERROR]
    ids = {severity: await world.publish(severity.value, severity) for severity in order}

    received = []
    while got := await world.receive(limit=2):
        received += [delivery.alert_id for delivery in got]

    expected = [Severity.CRITICAL, Severity.ERROR, Severity.UNKNOWN, Severity.WARNING]
    assert received == [ids[severity] for severity in [*expected, Severity.INFO]]


async def test_two_consumers_never_hold_the_same(world: World) -> None:
    ids = [await world.publish(f"f{n}") for n in range(20)]

    shares = await asyncio.gather(*(world.receive(limit=3) for _ in range(9)))

    received = [delivery.alert_id for share in shares for delivery in share]
    assert sorted(received) == sorted(ids)


async def test_a_lost_lease_goes_to_another_and_its_ack_is_harmless(world: World) -> None:
    await world.publish("a")
    [lost] = await world.receive()
    world.clock.advance(LEASE_S - 1)
    assert await world.receive() == []
    world.clock.advance(1)

    [taken] = await world.receive()
    assert taken.alert_id == lost.alert_id
    assert taken.token != lost.token
    await world.queue.settle(acked=[lost])
    await world.queue.settle(returned=[lost])

    assert await world.receive() == []
    assert await world.queue.extend([lost, taken]) == [taken]


async def test_extending_keeps_a_delivery(world: World) -> None:
    await world.publish("a")
    held = await world.receive()
    for _ in range(4):
        world.clock.advance(LEASE_S - 1)
        assert await world.queue.extend(held) == held
        assert await world.receive() == []

    world.clock.advance(LEASE_S)
    assert await world.queue.extend(held) == []
    assert await world.queue.extend([]) == []


async def test_a_returned_delivery_comes_again_after_its_delay(world: World) -> None:
    await world.publish("a")
    [held] = await world.receive()
    await world.queue.settle(returned=[held], delay_s=5)

    assert await world.receive() == []
    world.clock.advance(5)
    [again] = await world.receive()
    await world.queue.settle(returned=[again])
    assert [d.alert_id for d in await world.receive()] == [held.alert_id]


async def test_acks_and_returns_settle_together(world: World) -> None:
    ids = [await world.publish(f"f{n}") for n in range(3)]
    first, second, third = await world.receive()

    await world.queue.settle(acked=[first], returned=[second, third])
    await world.queue.settle()

    assert [d.alert_id for d in await world.receive()] == ids[1:]


async def test_a_waiting_receiver_is_woken_by_a_publish(world: World) -> None:
    waiting = asyncio.create_task(world.queue.receive(limit=1, wait_s=60))
    other = asyncio.create_task(world.queue.receive(limit=1, wait_s=60))
    first = await world.publish("a")
    second = await world.publish("b")

    received = await asyncio.gather(waiting, other)

    assert {delivery.alert_id for share in received for delivery in share} == {first, second}


async def test_a_waiting_receiver_is_woken_by_a_return(world: World) -> None:
    await world.publish("a")
    [held] = await world.receive()
    waiting = asyncio.create_task(world.queue.receive(limit=1, wait_s=60))
    await world.queue.extend([held])

    await world.queue.settle(returned=[held])

    [again] = await waiting
    assert again.alert_id == held.alert_id


async def test_waiting_ends_with_nothing(world: World) -> None:
    assert await world.queue.receive(limit=1, wait_s=0.01) == []


async def test_what_a_cancelled_receiver_claimed_is_given_back(world: World) -> None:
    alert_id = await world.publish("a")
    receiver = asyncio.create_task(world.queue.receive(limit=1, wait_s=60))
    while not receiver.done():
        # Cancelled at every point it can be cancelled at, as the loop comes by.
        await asyncio.sleep(0)
        receiver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiver

    [again] = await world.queue.receive(limit=1, wait_s=60)

    assert again.alert_id == alert_id


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
