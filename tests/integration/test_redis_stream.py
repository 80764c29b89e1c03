"""Producers' streams on Redis: what producers do to them, and what servers do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.queue_redis import age_pending
from tests.integration.redis_world import (
    LEASE_S,
    LONG_S,
    Broken,
    at_last,
    blocked_clients,
    broken,
    cancelled_after,
)
from triage.adapters.redis import RedisStream
from triage.errors import QueueError
from triage.ports import StreamMessage

KEY = "alerts"
GROUP = "triage"


class Streams(Broken):
    """A server, and consumers of one stream on it."""

    def __init__(self, world: Broken) -> None:
        super().__init__(world.server)
        self._streams: list[RedisStream] = []

    def stream(self, *, lease_s: float = LEASE_S, body_field: str = "body") -> RedisStream:
        stream = RedisStream(
            self.server.url, stream=KEY, group=GROUP, lease_s=lease_s, body_field=body_field
        )
        self._streams.append(stream)
        return stream

    def produce(self, *bodies: bytes) -> None:
        with self.direct as client:
            for body in bodies:
                client.xadd(KEY, {"body": body})

    def lapse(self, seconds: float = LEASE_S) -> None:
        with self.direct as client:
            age_pending(client, KEY, GROUP, seconds)

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Streams]:
    async with broken(tmp_path) as opened:
        streams = Streams(opened)
        yield streams
        await streams.close()


def bodies(messages: list[StreamMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_fields_that_are_no_text_and_entries_without_a_body_are_messages(
    world: Streams,
) -> None:
    with world.direct as client:
        client.xadd(KEY, {b"payload": b"\xff", b"na\xffme": b"va\xfflue"})
        client.xadd(KEY, {b"body": b"not here"})
    stream = world.stream(body_field="payload")

    first, second = await stream.receive(limit=10, wait_s=0)

    assert (first.body, first.headers) == (b"\xff", {"na\ufffdme": "va\ufffdlue"})
    assert (second.body, second.headers) == (b"", {"body": "not here"})
    assert first.message_id != second.message_id


async def test_nothing_is_deleted_from_the_producers_stream(world: Streams) -> None:
    world.produce(b"a", b"b")
    stream = world.stream()

    await stream.ack(await stream.receive(limit=10, wait_s=0))

    with world.direct as client:
        assert client.xlen(KEY) == 2
        assert client.xpending(KEY, GROUP)["pending"] == 0
        assert client.keys("*") == [KEY.encode()]


async def test_what_producers_delete_meanwhile_is_forgotten(world: Streams) -> None:
    world.produce(b"a", b"b")
    stream = world.stream()
    held = await stream.receive(limit=10, wait_s=0)
    with world.direct as client:
        client.xdel(KEY, held[0].message_id)
        world.lapse()

        again = await stream.receive(limit=10, wait_s=0)

        assert bodies(again) == [b"b"]
        assert client.xpending(KEY, GROUP)["pending"] == 1
        client.xtrim(KEY, maxlen=0)
        await stream.ack(again)
        assert client.xpending(KEY, GROUP)["pending"] == 0


async def test_a_delay_longer_than_the_lease_is_kept(world: Streams) -> None:
    world.produce(b"a")
    stream, other = world.stream(), world.stream()
    held = await stream.receive(limit=1, wait_s=0)
    await stream.release(held, delay_s=3 * LEASE_S)

    for _ in range(2):
        world.lapse()
        assert await other.receive(limit=1, wait_s=0) == []
    with world.direct as client:
        # The time of two leases and a half has passed for its postponement as well.
        [(member, due)] = client.zrange(f"{{{KEY}}}:later:{GROUP}", 0, -1, withscores=True)
        client.zadd(f"{{{KEY}}}:later:{GROUP}", {member: due - 2.5 * LEASE_S * 1000})
    world.lapse()
    assert await other.receive(limit=1, wait_s=0) == []
    world.lapse(LEASE_S / 4)
    assert await other.receive(limit=1, wait_s=0) == []
    with world.direct as client:
        client.zadd(f"{{{KEY}}}:later:{GROUP}", {member: due - 3 * LEASE_S * 1000})
    # It was put off for what was left, half a lease, and not for a whole one.
    world.lapse(LEASE_S / 2)

    [again] = await other.receive(limit=1, wait_s=0)

    assert again.deliveries == 2
    await other.release([again])
    with world.direct as client:
        assert not client.exists(f"{{{KEY}}}:later:{GROUP}")


async def test_a_receiver_that_waits_sees_what_another_released(world: Streams) -> None:
    world.produce(b"a")
    stream, other = world.stream(), world.stream()
    held = await stream.receive(limit=1, wait_s=0)
    waiting = asyncio.create_task(other.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)

    await stream.release(held)

    assert bodies(await waiting) == [b"a"]


async def test_a_cancelled_receive_does_not_count(world: Streams) -> None:
    world.produce(b"a")
    stream, other = world.stream(), world.stream()
    steps, rounds, last = 0, 0, None
    while last is None:
        receiver = asyncio.create_task(stream.receive(limit=1, wait_s=LONG_S))
        done = await cancelled_after(receiver, steps)
        rounds += 1
        steps += 1 + steps // 8
        if done:
            [last] = receiver.result()
        elif rounds % 3 == 0:
            # Now and then somebody does take it; the next one is delivery number two, and so on.
            [held] = await other.receive(limit=1, wait_s=LONG_S)
            assert held.deliveries == rounds // 3
            await other.release([held])
    assert rounds > 5
    assert last.deliveries == (rounds - 1) // 3 + 1


async def test_a_wait_cancelled_while_it_is_answered_keeps_nothing_back(world: Streams) -> None:
    stream, other = world.stream(), world.stream()
    for steps in range(40):
        receiver = asyncio.create_task(stream.receive(limit=1, wait_s=LONG_S))
        with world.direct as client:
            await blocked_clients(client)
        world.produce(b"%d" % steps)

        done = await cancelled_after(receiver, steps)

        held = receiver.result() if done else await other.receive(limit=1, wait_s=LONG_S)
        assert bodies(held) == [b"%d" % steps]
        await other.ack(held)


async def test_a_killed_server_keeps_what_was_held(world: Streams) -> None:
    world.produce(b"a", b"b", b"c")
    stream = world.stream()
    first, second = await stream.receive(limit=2, wait_s=0)

    world.server.kill()
    with pytest.raises(QueueError):
        await stream.ack([first])
    assert stream.trouble
    world.server.start()

    await at_last(lambda: stream.ack([first]))
    assert stream.trouble == ""
    assert bodies(await stream.receive(limit=10, wait_s=0)) == [b"c"]
    world.lapse()
    assert bodies(await stream.receive(limit=10, wait_s=0)) == [b"b", b"c"]
    assert second.deliveries == 1


async def test_an_emptied_server_is_read_from_its_new_beginning(world: Streams) -> None:
    world.produce(b"a")
    stream = world.stream()
    held = await stream.receive(limit=1, wait_s=0)
    waiting = asyncio.create_task(stream.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)
        client.flushall()
    world.produce(b"b")

    assert bodies(await waiting) == [b"b"]
    with world.direct as client:
        client.flushall()
    await stream.ack(held)
    await stream.release(held)
    world.produce(b"c")
    assert bodies(await stream.receive(limit=1, wait_s=0)) == [b"c"]


async def test_a_server_that_hangs_holds_nobody_up(world: Streams) -> None:
    world.produce(b"a")
    stream = world.stream()
    held = await stream.receive(limit=1, wait_s=0)
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: stream.ack(held),
        lambda: stream.release(held),
        lambda: stream.receive(limit=1, wait_s=0),
        stream.weaknesses,
    ]
    world.server.pause()
    try:
        async with asyncio.timeout(LONG_S):
            for _ in range(50):
                for call in calls:
                    with pytest.raises(QueueError):
                        await call()
    finally:
        world.server.resume()

    await at_last(lambda: stream.ack(held))


async def test_a_key_that_is_no_stream_is_trouble(world: Streams) -> None:
    with world.direct as client:
        client.set(KEY, "text")
    stream = world.stream()

    with pytest.raises(QueueError, match="WRONGTYPE"):
        await stream.receive(limit=1, wait_s=0)

    assert "WRONGTYPE" in stream.trouble


async def test_after_closing_nothing_is_taken(world: Streams) -> None:
    world.produce(b"a")
    stream, other = world.stream(), world.stream()
    waiting = asyncio.create_task(other.receive(limit=5, wait_s=LONG_S))
    assert bodies(await waiting) == [b"a"]
    waiting = asyncio.create_task(stream.receive(limit=5, wait_s=10 * LONG_S))
    with world.direct as client:
        await blocked_clients(client)

        async with asyncio.timeout(LONG_S):
            await stream.close()
            assert await waiting == []

        assert [c["pending"] for c in client.xinfo_consumers(KEY, GROUP)] == [1]
    with pytest.raises(QueueError, match="closed"):
        await stream.receive(limit=1, wait_s=0)
