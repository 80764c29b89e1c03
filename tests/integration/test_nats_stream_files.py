"""Producers' streams on NATS JetStream whose files and whose consumer's are not of one moment."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import pytest
from nats.js.api import RetentionPolicy, StreamConfig

from bench.nats_server import NatsServer
from tests.integration.nats_world import WAIT_S, administered, in_the_end, made, opened_stream
from triage.adapters.nats import NatsStream

STREAM = "ALERTS"
FILES = Path("jetstream") / "$G" / "streams" / STREAM
OLD, MORE, NEW = 200, 20, 10
AT_ONCE = 20
LIMITS, WORK_QUEUE = RetentionPolicy.LIMITS, RetentionPolicy.WORK_QUEUE


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with made(tmp_path) as running:
        yield running


def bodies(word: str, count: int) -> set[bytes]:
    return {f"{word} {number}".encode() for number in range(count)}


async def entered(server: NatsServer, some: Collection[bytes]) -> None:
    async with administered(server.url) as jetstream:
        for body in sorted(some):
            await jetstream.publish("alerts.x", body)


async def taken(
    stream: NatsStream, wanted: Collection[bytes], *, acked: bool = True
) -> list[bytes]:
    """Until all that is wanted has come."""
    got: list[bytes] = []
    async with asyncio.timeout(WAIT_S):
        while not set(wanted) <= set(got):
            messages = await in_the_end(lambda: stream.receive(limit=AT_ONCE, wait_s=0.2))
            got += [bytes(message.body) for message in messages]
            if acked:
                await in_the_end(partial(stream.ack, messages))
    return got


def older(server: NatsServer, part: str, copy: Path) -> None:
    """The server stands still with this part of its files as it was when it was copied."""
    server.stop()
    shutil.rmtree(server.data / FILES / part)
    shutil.copytree(copy, server.data / FILES / part)


@pytest.mark.parametrize("retention", [LIMITS, WORK_QUEUE])
async def test_messages_that_only_the_consumer_remembers(
    server: NatsServer, tmp_path: Path, retention: RetentionPolicy
) -> None:
    """They were acked, or deleted by their producers, since its files were written; there are more
    of them than pulls in a lease, so what lies behind was never reached."""
    config = StreamConfig(name=STREAM, subjects=["alerts.>"], retention=retention)
    async with opened_stream(server.url, lease_s=1) as stream:
        async with administered(server.url) as jetstream:
            await jetstream.add_stream(config)
        await entered(server, bodies("old", OLD))
        for _ in range(2):  # so that all have been handed out again when it is saved
            await taken(stream, bodies("old", OLD), acked=False)
        server.stop()
        shutil.copytree(server.data / FILES / "obs", tmp_path / "obs")
        server.start()
        async with administered(server.url) as jetstream:
            # All but the first: the server forgets by itself what lies before the stream's first.
            for sequence in range(2, OLD + 1):
                await in_the_end(partial(jetstream.delete_msg, STREAM, sequence))

        older(server, "obs", tmp_path / "obs")
        server.start()
        for _ in range(3):  # until their leases have ended
            held = await in_the_end(lambda: stream.receive(limit=AT_ONCE, wait_s=1))
            await in_the_end(partial(stream.release, held))
        await entered(server, bodies("new", NEW))

        await taken(stream, {*bodies("new", NEW), b"old 0"})


@pytest.mark.parametrize("known", [True, False], ids=["the same process", "a new one"])
async def test_a_stream_that_lost_its_end(server: NatsServer, tmp_path: Path, known: bool) -> None:
    """Its consumer is ahead, and what is entered has the numbers of what was acked long ago."""
    async with opened_stream(server.url) as other:
        async with administered(server.url) as jetstream:
            await jetstream.add_stream(StreamConfig(name=STREAM, subjects=["alerts.>"]))
        async with opened_stream(server.url) as stream:
            await entered(server, bodies("old", OLD))
            await taken(stream, bodies("old", OLD))
            server.stop()
            shutil.copytree(server.data / FILES / "msgs", tmp_path / "msgs")
            server.start()
            await entered(server, bodies("more", MORE))
            await taken(stream, bodies("more", MORE))

            older(server, "msgs", tmp_path / "msgs")
            server.start()
            await entered(server, bodies("new", NEW))

            got = await taken(stream if known else other, bodies("new", NEW))
        # One that had received the newest begins after it; another cannot tell old from new.
        assert set(got) == bodies("new", NEW) | (set() if known else bodies("old", OLD))


async def test_a_consumer_that_others_hold_messages_of_is_left_alone(server: NatsServer) -> None:
    async with opened_stream(server.url) as one, opened_stream(server.url) as other:
        async with administered(server.url) as jetstream:
            await jetstream.add_stream(StreamConfig(name=STREAM, subjects=["alerts.>"]))
            await entered(server, bodies("old", OLD))
            held = await one.receive(limit=OLD, wait_s=WAIT_S)
            made_at = (await jetstream.consumer_info(STREAM, "triage")).created
            for _ in range(20):
                assert await other.receive(limit=1, wait_s=0) == []
            assert (await jetstream.consumer_info(STREAM, "triage")).created == made_at
            await one.ack(held)
            assert (await jetstream.consumer_info(STREAM, "triage")).num_ack_pending == 0
