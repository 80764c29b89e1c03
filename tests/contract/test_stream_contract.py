"""The contract of every producers' stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.queue_worlds import WAIT_S, Ground
from tests.contract.stream_contract import StreamWorld, backends, world_class
from triage.ports import StreamMessage

Backend = tuple[type[StreamWorld], Any]


@pytest.fixture(scope="module", params=backends())
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    kind = world_class(request.param)
    with kind.running(tmp_path_factory.mktemp(request.param)) as server:
        yield kind, server


@pytest.fixture
async def world(backend: Backend, tmp_path: Path) -> AsyncIterator[StreamWorld]:
    kind, server = backend
    async with kind.opened(Ground(tmp_path, server)) as opened:
        yield opened


def bodies(messages: list[StreamMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_what_was_there_before_the_first_receive_is_received(world: StreamWorld) -> None:
    await world.produce(b"first")
    await world.produce(b"second")

    assert bodies(await world.receive()) == [b"first", b"second"]
    assert await world.receive() == []


async def test_an_empty_stream_gives_nothing(world: StreamWorld) -> None:
    assert await world.receive() == []
    assert await world.stream.receive(limit=1, wait_s=0.01) == []
    await world.stream.ack([])
    await world.stream.release([])


async def test_bytes_and_headers_come_as_they_were_sent(world: StreamWorld) -> None:
    await world.produce(b'{"a":"\xff\x00\r\n"}', {"format": "native", "origin": "über"})

    [message] = await world.receive()

    assert message.body == b'{"a":"\xff\x00\r\n"}'
    assert message.headers["format"] == "native"
    assert message.headers["origin"] == "über"
    assert message.deliveries == 1


async def test_an_empty_body_is_a_message(world: StreamWorld) -> None:
    await world.produce(b"")

    [message] = await world.receive()
    await world.stream.ack([message])

    assert message.body == b""
    assert await world.left() == 0


async def test_no_more_than_the_limit_the_oldest_first(world: StreamWorld) -> None:
    for number in range(5):
        await world.produce(b"%d" % number)

    received = [await world.receive(limit=2) for _ in range(3)]

    assert [bodies(share) for share in received] == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


async def test_what_is_acked_does_not_come_again(world: StreamWorld) -> None:
    await world.produce(b"a")
    await world.produce(b"b")
    first, _ = await world.receive()
    assert await world.left() == 2

    await world.stream.ack([first])
    await world.stream.ack([first])
    assert await world.left() == 1
    await world.lapse()

    [again] = await world.other.receive(limit=10, wait_s=WAIT_S)
    assert again.body == b"b"


async def test_what_was_not_settled_in_time_comes_again_and_is_counted(
    world: StreamWorld,
) -> None:
    await world.produce(b"a", {"k": "v"})
    [lost] = await world.receive()
    await world.lapse(0.5)
    assert await world.other.receive(limit=1, wait_s=0) == []
    await world.lapse()

    [taken] = await world.other.receive(limit=1, wait_s=WAIT_S)
    assert (taken.message_id, taken.body) == (lost.message_id, lost.body)
    assert taken.headers["k"] == "v"
    assert taken.deliveries == 2
    await world.lapse()
    [once_more] = await world.stream.receive(limit=1, wait_s=WAIT_S)
    assert once_more.deliveries == 3


async def test_releasing_a_lost_lease_is_harmless(world: StreamWorld) -> None:
    await world.produce(b"a")
    [lost] = await world.receive()
    await world.lapse()
    [taken] = await world.other.receive(limit=1, wait_s=WAIT_S)

    await world.stream.release([lost])

    assert await world.receive() == []
    await world.other.ack([taken])
    assert await world.left() == 0


async def test_an_ack_counts_whoever_holds_the_message_by_then(world: StreamWorld) -> None:
    await world.produce(b"a")
    [lost] = await world.receive()
    await world.lapse()
    await world.other.receive(limit=1, wait_s=WAIT_S)

    await world.stream.ack([lost])
    await world.lapse()

    assert await world.receive() == []


async def test_what_is_released_comes_again_at_once(world: StreamWorld) -> None:
    await world.produce(b"a")
    held = await world.receive()

    await world.stream.release(held)

    [again] = await world.other.receive(limit=1, wait_s=WAIT_S)
    assert again.body == b"a"
    assert again.deliveries == 2


async def test_what_is_released_with_a_delay_comes_after_it(world: StreamWorld) -> None:
    await world.produce(b"a")
    held = await world.receive()
    await world.stream.release(held, delay_s=world.delay_s)

    assert await world.receive() == []
    assert await world.other.receive(limit=1, wait_s=0) == []
    await world.pass_delay()

    [again] = await world.other.receive(limit=1, wait_s=WAIT_S)
    assert again.body == b"a"


async def test_two_consumers_share_the_stream(world: StreamWorld) -> None:
    sent = [b"%d" % number for number in range(20)]
    for body in sent:
        await world.produce(body)

    shares = await asyncio.gather(
        *(stream.receive(limit=3, wait_s=0) for stream in (world.stream, world.other) * 5)
    )

    assert sorted(body for share in shares for body in bodies(share)) == sorted(sent)


async def test_a_waiting_receiver_is_woken(world: StreamWorld) -> None:
    waiting = asyncio.create_task(world.stream.receive(limit=1, wait_s=WAIT_S))
    await asyncio.sleep(0)

    await world.produce(b"a")

    assert bodies(await waiting) == [b"a"]


async def test_what_a_cancelled_receiver_claimed_is_given_back(world: StreamWorld) -> None:
    await world.produce(b"a")
    receiver = asyncio.create_task(world.stream.receive(limit=1, wait_s=WAIT_S))
    while not receiver.done():
        # Cancelled at every point it can be cancelled at, as the loop comes by.
        await asyncio.sleep(0)
        receiver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiver

    [again] = await world.other.receive(limit=1, wait_s=WAIT_S)

    assert again.body == b"a"


async def test_a_stream_that_works_is_in_no_trouble(world: StreamWorld) -> None:
    await world.receive()

    assert world.stream.trouble == ""
    assert world.stream.label
    assert world.stream.name


async def test_closing_again_does_nothing(world: StreamWorld) -> None:
    await world.produce(b"a")
    await world.receive()

    await world.stream.close()
    await world.stream.close()
