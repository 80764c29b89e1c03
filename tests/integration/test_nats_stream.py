"""Producers' streams on NATS JetStream, beyond what every stream must do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig

from bench.nats_server import NatsServer
from tests.integration.nats_world import (
    LEASE_S,
    NAME,
    WAIT_S,
    administered,
    in_the_end,
    made,
    opened_stream,
    refused,
    steps,
)
from tests.servers import HOST
from triage.adapters.nats import NatsStream
from triage.errors import ConfigError

STREAM = "ALERTS"
FINISHED = 3  # receives that were over before they could be cancelled: later is too late
BIG = 900_000  # bytes; a server takes 1 MiB


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with made(tmp_path) as running:
        yield running


@pytest.fixture
async def jetstream(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    async with administered(server.url) as opened:
        yield opened


@pytest.fixture
async def stream(server: NatsServer) -> AsyncIterator[NatsStream]:
    async with opened_stream(server.url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("key", "value"),
    [("stream", "a.b"), ("stream", "a b"), ("stream", ""), ("subject", "a..b"), ("subject", "a b")],
)
async def test_names_that_nats_has_not_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[streams.alerts\] {key}"):
        async with opened_stream("nats://localhost", **{key: value}):
            pass


async def test_a_stream_is_looked_for_until_it_is_there(
    stream: NatsStream, jetstream: JetStreamContext
) -> None:
    problem = await refused(lambda: stream.receive(limit=1, wait_s=WAIT_S))
    assert f"nats stream add {STREAM}" in problem
    assert "[streams.alerts]" in problem
    assert stream.trouble == problem
    assert f"stream {STREAM}" in await refused(stream.weaknesses)

    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.publish("alerts.a", b"1")

    [message] = await stream.receive(limit=1, wait_s=WAIT_S)
    assert message.body == b"1"
    assert stream.trouble == ""


async def test_only_what_the_subject_takes(server: NatsServer, jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    for subject in ("alerts.north.a", "alerts.south.b", "alerts.north.c"):
        await jetstream.publish(subject, subject.encode())

    async with opened_stream(server.url, subject="alerts.north.*") as stream:
        messages = await stream.receive(limit=10, wait_s=WAIT_S)

    assert [message.body for message in messages] == [b"alerts.north.a", b"alerts.north.c"]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (ConsumerConfig(filter_subject="alerts.x"), "filter_subject"),
        (ConsumerConfig(ack_policy=AckPolicy.NONE), "ack_policy"),
        (ConsumerConfig(deliver_subject="push.here"), "deliver_subject"),
    ],
)
async def test_a_consumer_of_somebody_else_is_left_alone(
    stream: NatsStream, jetstream: JetStreamContext, config: ConsumerConfig, what: str
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.add_consumer(STREAM, config.evolve(durable_name=NAME))

    problem = await refused(lambda: stream.receive(limit=1, wait_s=0))

    assert what in problem
    assert "another group" in problem


async def test_a_work_queue_that_others_read_says_so(
    stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(
        name=STREAM, subjects=["alerts.>"], retention=RetentionPolicy.WORK_QUEUE
    )
    await jetstream.add_consumer(
        STREAM, ConsumerConfig(durable_name="others", ack_policy=AckPolicy.EXPLICIT)
    )

    assert "workqueue" in await refused(lambda: stream.receive(limit=1, wait_s=0))


async def test_a_lease_of_before_is_taken_over(
    server: NatsServer, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.publish("alerts.a", b"1")
    async with opened_stream(server.url, lease_s=300) as before:
        await before.receive(limit=1, wait_s=0.01)
    async with opened_stream(server.url, lease_s=0.3) as stream:
        info = await in_the_end(lambda: stream.receive(limit=1, wait_s=0.01))
        assert info == []
        config = (await jetstream.consumer_info(STREAM, NAME)).config
    assert config.ack_wait == 0.3


async def test_of_a_header_that_comes_twice_the_first_counts(
    server: NatsServer, stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    head = b"NATS/1.0\r\ntenant: a\r\norigin: x\r\ntenant: b\r\nStatus: 503\r\n\r\n"
    reader, writer = await asyncio.open_connection(HOST, server.port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
    writer.write(b"HPUB alerts.a %d %d\r\n" % (len(head), len(head) + 4))
    writer.write(head + b"body\r\n")
    await writer.drain()

    [message] = await stream.receive(limit=1, wait_s=WAIT_S)
    writer.close()
    await writer.wait_closed()

    assert message.headers == {"tenant": "a", "origin": "x", "Status": "503"}
    assert message.body == b"body"


async def test_large_messages_come_in_shares(
    stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    sent = [b"%d" % number * BIG for number in range(10)]
    for body in sent:
        await jetstream.publish("alerts.a", body)

    received: list[bytes] = []
    shares = 0
    while len(received) < len(sent):
        messages = await stream.receive(limit=100, wait_s=WAIT_S)
        received += [message.body for message in messages]
        shares += 1
        await stream.ack(messages)

    assert received == sent
    assert shares > 1


async def test_a_stream_made_again_has_other_messages(
    stream: NatsStream, jetstream: JetStreamContext
) -> None:
    work = StreamConfig(name=STREAM, subjects=["alerts.>"], retention=RetentionPolicy.WORK_QUEUE)
    await jetstream.add_stream(work)
    await jetstream.publish("alerts.a", b"old")
    [old] = await stream.receive(limit=1, wait_s=WAIT_S)

    await jetstream.delete_stream(STREAM)
    await jetstream.add_stream(work)
    await jetstream.publish("alerts.a", b"new")
    [new] = await stream.receive(limit=1, wait_s=WAIT_S)
    await stream.ack([old])
    await stream.release([old])

    # Both are the first of their stream, and an ack of one must not be taken for the other's.
    assert new.body == b"new"
    assert new.message_id != old.message_id
    assert (await jetstream.stream_info(STREAM)).state.messages == 1
    await stream.ack([new])
    assert (await jetstream.stream_info(STREAM)).state.messages == 0


async def test_a_pull_that_was_not_answered_keeps_nothing(
    server: NatsServer, stream: NatsStream, jetstream: JetStreamContext
) -> None:
    """A server that hands out no more for now answers late, and to nobody."""
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.add_consumer(
        STREAM,
        ConsumerConfig(
            durable_name=NAME,
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=1,
            ack_wait=LEASE_S,
        ),
    )
    await jetstream.publish("alerts.a", b"1")
    await jetstream.publish("alerts.a", b"2")
    [first] = await stream.receive(limit=1, wait_s=WAIT_S)
    assert await stream.receive(limit=1, wait_s=0) == []

    await stream.ack([first])

    async with opened_stream(server.url) as other, asyncio.timeout(LEASE_S / 2):
        [second] = await other.receive(limit=1, wait_s=WAIT_S)
    assert second.body == b"2"


async def test_an_ack_that_the_server_knows_nothing_of(
    stream: NatsStream, jetstream: JetStreamContext
) -> None:
    """It answers none that is of no message; from 2.10 on, also none of a delivery it forgot."""
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.publish("alerts.a", b"1")
    [message] = await stream.receive(limit=1, wait_s=WAIT_S)
    parts = message.token.split(".")
    parts[5] = "0"

    await stream.ack([replace(message, token=".".join(parts))])

    assert stream.trouble == ""
    await stream.ack([message])
    assert (await jetstream.consumer_info(STREAM, NAME)).num_ack_pending == 0


@pytest.mark.parametrize("denied", ["$JS.ACK.>", "$JS.API.CONSUMER.MSG.NEXT.>"])
async def test_what_it_may_not_do_is_said(tmp_path: Path, denied: str) -> None:
    user = f'{{ user: "u", password: "p", permissions: {{ publish: {{ deny: ["{denied}"] }} }} }}'
    admin = '{ user: "a", password: "p" }'
    with made(tmp_path, extra=f"authorization {{ users: [{user}, {admin}] }}") as server:
        address = f"{HOST}:{server.port}"
        async with administered(f"nats://a:p@{address}") as jetstream:
            await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
            await jetstream.publish("alerts.a", b"1")
        async with opened_stream(f"nats://u:p@{address}") as stream:

            async def work() -> None:
                await stream.ack(await stream.receive(limit=1, wait_s=0))

            problem = await refused(work)
            assert stream.trouble == problem

    assert "permissions violation" in problem
    assert denied.lower().removesuffix(".>") in problem


async def test_a_receive_cancelled_anywhere_keeps_nothing(
    server: NatsServer, stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    cancelled = finished = number = 0
    async with opened_stream(server.url) as other:
        while finished < FINISHED:
            number += 1
            await jetstream.publish("alerts.a", b"%d" % number)
            receiver = asyncio.create_task(stream.receive(limit=3, wait_s=WAIT_S))
            await steps(number)
            receiver.cancel()
            try:
                received = await receiver
            except asyncio.CancelledError:
                cancelled += 1
            else:
                finished += 1
                await stream.release(received)
            # At once, and not after the lease.
            async with asyncio.timeout(LEASE_S / 2):
                [again] = await other.receive(limit=3, wait_s=WAIT_S)
            assert again.body == b"%d" % number
            await other.ack([again])

    assert cancelled > FINISHED


async def test_killed_and_back(
    server: NatsServer, stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    for number in range(4):
        await jetstream.publish("alerts.a", b"%d" % number)
    first, second = await stream.receive(limit=2, wait_s=WAIT_S)
    await stream.ack([first])

    server.kill()
    assert server.url in await refused(lambda: stream.ack([second]))
    assert stream.trouble
    server.start()

    await in_the_end(lambda: stream.ack([second]))
    wanted = {b"2", b"3"}
    while wanted:
        messages = await stream.receive(limit=10, wait_s=WAIT_S)
        # An ack may be forgotten, and so what was acked may come again.
        wanted -= {message.body for message in messages}
        await stream.ack(messages)
    assert stream.trouble == ""


async def test_a_server_that_hangs_hangs_nobody(
    server: NatsServer, stream: NatsStream, jetstream: JetStreamContext
) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"])
    await jetstream.publish("alerts.a", b"1")
    held = await stream.receive(limit=1, wait_s=WAIT_S)
    server.pause()

    problems = await asyncio.gather(
        refused(lambda: stream.receive(limit=1, wait_s=WAIT_S)),
        refused(lambda: stream.ack(held)),
        refused(lambda: stream.release(held)),
        refused(stream.weaknesses),
    )

    assert all(server.url in problem for problem in problems)
    server.resume()
    await in_the_end(lambda: stream.ack(held))


async def test_what_could_be_lost_is_said(stream: NatsStream, jetstream: JetStreamContext) -> None:
    await jetstream.add_stream(name=STREAM, subjects=["alerts.>"], max_age=3600)

    found = await stream.weaknesses()

    assert "sync" in found[0]
    assert "not taken from it yet are lost" in found[0]
    assert "max_age" in found[1]
