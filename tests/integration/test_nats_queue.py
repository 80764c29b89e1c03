"""The queue on NATS JetStream, beyond what every queue must do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from bench.nats_server import NatsServer
from tests.integration.nats_world import (
    BOUND_S,
    LEASE_S,
    NAME,
    WAIT_S,
    administered,
    entries,
    entry,
    ids,
    made,
    opened_queue,
    received,
    refused,
    steps,
)
from triage.adapters.nats import NatsQueue
from triage.adapters.nats.weaknesses import weaknesses
from triage.model.alert import PRIORITY_NAMES, Severity

MANY = 5_000
FINISHED = 3  # receives that were over before they could be cancelled: later is too late


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with made(tmp_path) as running:
        yield running


@pytest.fixture
async def queue(server: NatsServer) -> AsyncIterator[NatsQueue]:
    async with opened_queue(server.url) as opened:
        yield opened


async def test_a_stream_of_somebody_else_is_left_alone(server: NatsServer) -> None:
    async with administered(server.url) as jetstream:
        await jetstream.add_stream(name=NAME, subjects=["orders.*"])
        async with opened_queue(server.url) as queue:
            problem = await refused(lambda: queue.publish([entry(1)]))
        async with opened_queue(server.url, name="triage.two") as queue:
            await queue.publish([entry(1)])
        info = await jetstream.stream_info(NAME)

    assert "orders.*" in problem
    assert "'limits'" in problem
    assert f"nats stream rm {NAME}" in problem
    assert info.config.subjects == ["orders.*"]
    assert info.state.consumer_count == 0


async def test_a_consumer_of_somebody_else_is_left_alone(server: NatsServer) -> None:
    async with opened_queue(server.url) as queue, administered(server.url) as jetstream:
        await queue.publish([entry(1)])
        await jetstream.delete_consumer(NAME, "error")
        await jetstream.add_consumer(
            NAME,
            ConsumerConfig(
                durable_name="error", filter_subject=f"{NAME}.work.error.x", ack_wait=LEASE_S
            ),
        )
        async with opened_queue(server.url) as later:
            problem = await refused(later.depth)

    assert f"nats consumer rm {NAME} error" in problem


async def test_another_lease_is_taken_over(server: NatsServer) -> None:
    async with opened_queue(server.url, lease_s=300) as before:
        await before.publish([entry(1)])
    async with opened_queue(server.url, lease_s=0.3) as dead:
        assert len(await dead.receive(limit=1, wait_s=WAIT_S)) == 1

    async with opened_queue(server.url, lease_s=0.3) as queue:
        assert ids(await queue.receive(limit=1, wait_s=WAIT_S)) == [entry(1)[0]]


@pytest.mark.parametrize(("lease_s", "held_s"), [(30.0, 29.0), (3.0, 2.0), (1.0, 0.5)])
async def test_others_have_a_dead_ones_deliveries_after_a_lease(
    server: NatsServer, lease_s: float, held_s: float
) -> None:
    """The server looks for them a second after they are due."""
    async with opened_queue(server.url, lease_s=lease_s) as queue:
        await queue.publish([entry(1)])
        async with administered(server.url) as jetstream:
            info = await jetstream.consumer_info(NAME, "warning")
    assert info.config.ack_wait == held_s


async def test_a_dead_consumers_deliveries_go_to_another(server: NatsServer) -> None:
    async with opened_queue(server.url, lease_s=0.5) as dead:
        await dead.publish(entries(3))
        assert len(await received(dead, 3)) == 3

    async with opened_queue(server.url, lease_s=0.5) as queue:
        taken = await received(queue, 3)
        assert sorted(ids(taken)) == sorted(alert_id for alert_id, _ in entries(3))
        await queue.settle(acked=taken)
        assert sum((await queue.depth()).values()) == 0


async def test_an_alert_that_waits_is_entered_once_whoever_publishes_it(
    server: NatsServer, queue: NatsQueue
) -> None:
    async with opened_queue(server.url) as other:
        await asyncio.gather(
            *(one.publish(entries(50)) for one in (queue, other, queue, other, queue))
        )
        assert (await other.depth())["warning"] == 50
        held = await received(other, 50)
        await queue.publish(entries(50))
        assert await queue.receive(limit=1, wait_s=0) == []

        await other.settle(acked=held)
        await queue.publish(entries(50))

        assert len(await received(queue, 50)) == 50


async def test_consumers_never_hold_the_same(server: NatsServer, queue: NatsQueue) -> None:
    wanted = {alert_id for alert_id, _ in entries(400)}
    seen: list[str] = []

    async def work(one: NatsQueue) -> None:
        while len(seen) < len(wanted):
            # One at a time: how a pull comes to be asked for what another just took.
            got = await one.receive(limit=1, wait_s=0.2)
            seen.extend(ids(got))
            await one.settle(acked=got)

    async with opened_queue(server.url) as other, asyncio.timeout(WAIT_S):
        workers = asyncio.gather(*(work(one) for one in (queue, other) * 3))
        for one in entries(400):
            await queue.publish([one])
        await workers

    assert len(seen) == len(wanted)
    assert set(seen) == wanted


async def test_no_pull_is_left_behind(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish(entries(3))
    for number in range(5):
        waiting = asyncio.create_task(queue.receive(limit=2, wait_s=WAIT_S))
        await steps(number)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await queue.settle(acked=await received(queue, 3))
    assert await queue.receive(limit=5, wait_s=0) == []

    async with administered(server.url) as jetstream:
        infos = [await jetstream.consumer_info(NAME, name) for name in PRIORITY_NAMES]

    assert [info.num_waiting for info in infos] == [0, 0, 0, 0]


async def test_a_receive_cancelled_anywhere_keeps_nothing(
    server: NatsServer, queue: NatsQueue
) -> None:
    cancelled = finished = number = 0
    async with opened_queue(server.url) as other:
        while finished < FINISHED:
            number += 1
            severities = (Severity.CRITICAL, Severity.WARNING)
            published = [entry(number, severity) for severity in severities]
            await queue.publish(published)
            receiver = asyncio.create_task(queue.receive(limit=3, wait_s=WAIT_S))
            await steps(number)
            receiver.cancel()
            try:
                got = await receiver
            except asyncio.CancelledError:
                cancelled += 1
            else:
                finished += 1
                await queue.settle(returned=got)
            # Of any severity a first alert at once, and not after the lease.
            async with asyncio.timeout(LEASE_S / 2):
                again = await received(other, 2)
            assert ids(again) == [alert_id for alert_id, _ in published]
            await other.settle(acked=again)

    assert cancelled > FINISHED


async def looked(queue: NatsQueue) -> None:
    """A receive that was begun before has asked for each priority once, and waits."""
    for _ in range(3 * len(PRIORITY_NAMES)):
        await queue.depth()


async def test_receivers_are_woken_and_do_not_only_look_now_and_then(
    server: NatsServer, queue: NatsQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triage.adapters.nats.queue.POLL_S", 3600.0)
    async with opened_queue(server.url) as other, asyncio.timeout(WAIT_S):
        for number in range(3):
            receiver = asyncio.create_task(other.receive(limit=1, wait_s=3600))
            await looked(other)
            await queue.publish([entry(number)])
            held = await receiver
            assert ids(held) == [entry(number)[0]]

            receiver = asyncio.create_task(queue.receive(limit=1, wait_s=3600))
            await looked(queue)
            await other.settle(returned=held)
            await queue.settle(acked=await receiver)


async def test_a_publish_cancelled_anywhere_can_be_done_again(queue: NatsQueue) -> None:
    for number in range(20):
        publishing = asyncio.create_task(queue.publish(entries(number)))
        await steps(number)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await queue.publish(entries(number))

        got = await received(queue, number)

        assert sorted(ids(got)) == sorted(alert_id for alert_id, _ in entries(number))
        assert await queue.receive(limit=1, wait_s=0) == []
        await queue.settle(acked=got)


async def test_a_settle_cancelled_anywhere_can_be_done_again(queue: NatsQueue) -> None:
    for number in range(20):
        await queue.publish(entries(2))
        first, second = await received(queue, 2)
        settling = asyncio.create_task(queue.settle(acked=[first], returned=[second]))
        await steps(number)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)
        await queue.settle(acked=[first], returned=[second])

        again = await received(queue, 1)

        assert ids(again) == [second.alert_id]
        await queue.settle(acked=again)
        assert sum((await queue.depth()).values()) == 0


async def test_cancelled_before_it_was_connected(server: NatsServer) -> None:
    for number in range(25):
        async with opened_queue(server.url) as queue:
            first = asyncio.create_task(queue.depth())
            second = asyncio.create_task(queue.depth())
            await steps(number)
            first.cancel()
            assert sum((await second).values()) == 0


async def test_many_are_published_and_received(queue: NatsQueue) -> None:
    published = [entry(number, list(Severity)[number % 5]) for number in range(MANY)]
    await queue.publish(published)
    assert sum((await queue.depth()).values()) == MANY

    seen: list[str] = []
    while len(seen) < MANY:
        got = await queue.receive(limit=100, wait_s=WAIT_S)
        seen += ids(got)
        await queue.settle(acked=got)

    assert len(seen) == MANY
    assert set(seen) == {alert_id for alert_id, _ in published}
    assert sum((await queue.depth()).values()) == 0


async def test_a_file_without_sync_is_a_weakness(queue: NatsQueue) -> None:
    found = await queue.weaknesses()

    assert len(found) == 1
    assert "sync" in found[0]
    assert "wake-ups are lost" in found[0]


async def test_memory_and_limits_are_weaknesses(server: NatsServer, queue: NatsQueue) -> None:
    async with administered(server.url) as jetstream:
        await jetstream.add_stream(
            StreamConfig(
                name=NAME,
                subjects=[f"{NAME}.work.*.*"],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=StorageType.MEMORY,
                max_bytes=1_000_000,
            )
        )
        found = await queue.weaknesses()

    assert "memory" in found[0]
    assert "max_bytes" in found[1]
    assert len(found) == 2


def test_what_cannot_be_seen_is_said() -> None:
    config = {"name": "S", "storage": "file", "num_replicas": 1}
    info = {"config": config, "cluster": {"name": "c"}}

    found = list(weaknesses(info, version=(2, 11), version_text="2.11.0", loss="it is lost"))

    assert "cannot be seen" in found[0]
    assert "one replica" in found[1]
    info["config"] = config | {"num_replicas": 3}
    assert len(list(weaknesses(info, version=(2, 11), version_text="2.11.0", loss=""))) == 1


async def test_a_closed_queue_says_so(queue: NatsQueue) -> None:
    await queue.publish([entry(1)])
    await queue.close()

    assert "closed" in await refused(lambda: queue.publish([entry(2)]))
    async with asyncio.timeout(BOUND_S):
        assert await queue.receive(limit=0, wait_s=WAIT_S) == []
