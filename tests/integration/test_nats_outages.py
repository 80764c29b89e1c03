"""The queue on NATS JetStream while its server dies, hangs or loses what it knew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from nats.js.api import ConsumerConfig

from bench.nats_server import NatsServer
from tests.contract.queue_nats import ShiftedClock
from tests.integration.nats_world import (
    BOUND_S,
    NAME,
    WAIT_S,
    administered,
    entries,
    entry,
    ids,
    in_the_end,
    made,
    opened_queue,
    received,
    refused,
    steps,
)
from triage.adapters.nats import NatsQueue
from triage.adapters.nats.jetstream import JetStream
from triage.adapters.nats.queue_setup import QueueSetup
from triage.errors import QueueError
from triage.model.alert import AlertId
from triage.ports import Delivery

STREAM = Path("jetstream") / "$G" / "streams" / NAME


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with made(tmp_path) as running:
        yield running


@pytest.fixture
async def queue(server: NatsServer) -> AsyncIterator[NatsQueue]:
    async with opened_queue(server.url) as opened:
        yield opened


async def test_a_first_server_is_waited_for(tmp_path: Path) -> None:
    server = made(tmp_path)
    async with opened_queue(server.url) as queue:
        problem = await refused(lambda: queue.publish([entry(1)]))
        assert server.url in problem
        assert queue.trouble == problem
        with server:
            await in_the_end(lambda: queue.publish([entry(1)]))
            assert queue.trouble == ""
            assert queue.forgot()
            assert not queue.forgot()


async def test_killed_and_back_with_its_files(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish(entries(6))
    held = await received(queue, 2)
    await queue.settle(acked=held[:1])
    assert queue.forgot()  # it was made just now

    server.kill()
    assert server.url in await refused(queue.depth)
    assert await refused(lambda: queue.receive(limit=1, wait_s=WAIT_S)) == queue.trouble
    server.start()

    # An ack may be forgotten, and so what was acked may come again; nothing else is.
    assert (await in_the_end(queue.depth))["warning"] in {5, 6}
    assert await queue.extend(held[1:]) == held[1:]
    await queue.settle(acked=held[1:])
    wanted = {alert_id for alert_id, _ in entries(6)[2:]}
    while wanted:
        got = await queue.receive(limit=10, wait_s=WAIT_S)
        wanted -= set(ids(got))
        await queue.settle(acked=got)
    assert queue.trouble == ""


async def test_killed_and_back_without_its_files(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish(entries(3))
    [held] = await received(queue, 1)
    queue.forgot()

    server.kill()
    server.lose_files()
    server.start()
    await in_the_end(lambda: queue.publish([entry(7)]))

    assert queue.forgot()
    # Its number names another entry by now.
    assert await queue.extend([held]) == []
    await queue.settle(acked=[held], returned=[held])
    assert ids(await received(queue, 1)) == [entry(7)[0]]


async def test_what_another_replica_made_again_was_forgotten_too(
    server: NatsServer, queue: NatsQueue
) -> None:
    await queue.publish([entry(1)])
    queue.forgot()
    server.kill()
    server.lose_files()
    server.start()
    async with opened_queue(server.url) as other:
        await other.depth()

    # The other may die before it has published anything.
    assert (await in_the_end(queue.depth))["warning"] == 0
    assert queue.forgot()


async def test_back_from_an_older_copy_of_its_files(
    server: NatsServer, queue: NatsQueue, tmp_path: Path
) -> None:
    await queue.publish(entries(1))
    server.stop()
    shutil.copytree(server.data, tmp_path / "copy")
    server.start()
    await in_the_end(lambda: queue.publish(entries(3)))
    queue.forgot()

    server.stop()
    server.lose_files()
    shutil.copytree(tmp_path / "copy", server.data)
    server.start()

    assert (await in_the_end(queue.depth))["warning"] == 1
    assert queue.forgot()


async def test_entries_that_the_consumers_lost_sight_of(
    server: NatsServer, queue: NatsQueue, tmp_path: Path
) -> None:
    """Stream and consumers are files apart, and a power cut may leave one older."""
    await queue.publish(entries(3))
    server.stop()
    shutil.copytree(server.data / STREAM / "msgs", tmp_path / "msgs")
    server.start()
    held: list[Delivery] = await in_the_end(lambda: received(queue, 2))
    await queue.settle(acked=held)
    queue.forgot()

    server.stop()
    shutil.rmtree(server.data / STREAM / "msgs")
    shutil.copytree(tmp_path / "msgs", server.data / STREAM / "msgs")
    server.start()

    again = await in_the_end(lambda: received(queue, 3))
    assert ids(again) == [alert_id for alert_id, _ in entries(3)]
    assert queue.forgot()


@pytest.mark.parametrize("others_at_work", [False, True])
async def test_entries_that_only_the_consumers_remember(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_at_work: bool
) -> None:
    """The other way round: a consumer that wants to hand out again what was acked since. Once
    their leases end, nats-server 2.9 looks for one of those at each pull, finds nothing and does
    not answer; there are more of them than pulls in a lease, so what lies behind is never reached.
    """
    obs, saved = server.data / STREAM / "obs", tmp_path / "obs"
    async with opened_queue(server.url, lease_s=1) as queue:
        await queue.publish(entries(200))
        async with asyncio.timeout(BOUND_S):
            while True:
                # Twice, so that all have been handed out again when it is saved.
                for _ in range(2):
                    held: list[Delivery] = await in_the_end(lambda: received(queue, 200))
                server.stop()
                if _has_state(obs / "warning"):
                    break
                server.start()
        shutil.copytree(obs, saved)
        server.start()
        # All but the first: the server forgets by itself what lies before the stream's first.
        first, *others = await in_the_end(lambda: received(queue, 200))
        await in_the_end(partial(queue.settle, acked=others))
        assert (await in_the_end(queue.depth))["warning"] == 1
        queue.forgot()

        server.stop()
        shutil.rmtree(obs)
        shutil.copytree(saved, obs)
        if others_at_work:
            # Then the figures of stream and consumers are never of one moment.
            monkeypatch.setattr(QueueSetup, "_is_broken", _never_broken)
        server.start()
        for _ in range(3):  # until their leases have ended
            held = await in_the_end(lambda: queue.receive(limit=20, wait_s=1))
            await in_the_end(partial(queue.settle, returned=held))
        await in_the_end(lambda: queue.publish(entries(220)[200:]))

        expected = {first.alert_id, *(alert_id for alert_id, _ in entries(220)[200:])}
        again = set[AlertId]()
        async with asyncio.timeout(WAIT_S):
            while again != expected:
                got = await in_the_end(lambda: queue.receive(limit=20, wait_s=1))
                again |= set(ids(got))
                await in_the_end(partial(queue.settle, acked=got))
        assert queue.forgot()
        assert set((await queue.depth()).values()) == {0}


def _has_state(consumer: Path) -> bool:
    """Of a server that is stopped. On a busy machine it ends at times without having written what
    the consumer handed out. A consumer that has handed nothing out has eight bytes."""
    file = consumer / "o.dat"
    return file.exists() and file.stat().st_size > 8


async def _never_broken(_setup: QueueSetup, _server: JetStream) -> bool:
    return False


async def test_a_stream_deleted_under_way(server: NatsServer, queue: NatsQueue) -> None:
    async with opened_queue(server.url) as other, administered(server.url) as jetstream:
        await queue.publish(entries(2))
        [held] = await received(queue, 1)
        await received(other, 1)
        queue.forgot()

        await jetstream.delete_stream(NAME)
        await queue.publish([entry(7)])
        assert queue.forgot()
        await jetstream.delete_stream(NAME)
        async with asyncio.timeout(BOUND_S):
            while not queue.forgot():
                # Servers from 2.10 on may hand out a last one after they said that it is gone.
                await queue.receive(limit=1, wait_s=0)

        await queue.publish([entry(8)])
        await queue.settle(acked=[held])
        assert ids(await received(other, 1)) == [entry(8)[0]]


async def test_settling_with_a_stream_that_is_gone(server: NatsServer, queue: NatsQueue) -> None:
    async with administered(server.url) as jetstream:
        await queue.publish(entries(2))
        first, second = await received(queue, 2)
        queue.forgot()
        await jetstream.delete_stream(NAME)

        assert await queue.extend([first]) == []
        await queue.settle(acked=[second])
        await queue.publish([entry(7)])

    assert queue.forgot()


async def test_a_consumer_deleted_under_way(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish([entry(1)])
    queue.forgot()
    async with administered(server.url) as jetstream:
        await jetstream.delete_consumer(NAME, "warning")

    [delivery] = await queue.receive(limit=1, wait_s=WAIT_S)

    assert delivery.alert_id == entry(1)[0]
    assert queue.forgot()


async def test_depth_after_a_consumer_was_deleted(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish([entry(1)])
    async with administered(server.url) as jetstream:
        await jetstream.delete_consumer(NAME, "warning")

    assert (await in_the_end(queue.depth))["warning"] == 1


async def test_a_server_that_hangs_hangs_nobody(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish(entries(2))
    [held] = await received(queue, 1)
    server.pause()

    operations = (
        lambda: queue.receive(limit=1, wait_s=0),
        lambda: queue.publish([entry(3)]),
        lambda: queue.settle(acked=[held]),
        lambda: queue.extend([held]),
        queue.depth,
        queue.weaknesses,
    )
    problems = await asyncio.gather(*(refused(operation) for operation in operations))
    problems.append(await refused(lambda: queue.receive(limit=1, wait_s=WAIT_S)))

    assert all(server.url in problem for problem in problems)
    assert queue.trouble
    server.resume()
    await in_the_end(lambda: queue.settle(acked=[held]))
    assert (await queue.depth())["warning"] >= 1
    assert queue.trouble == ""


async def test_a_waiting_receiver_notices_that_the_server_hangs(
    server: NatsServer, queue: NatsQueue
) -> None:
    waiting = asyncio.create_task(refused(lambda: queue.receive(limit=1, wait_s=WAIT_S)))
    await queue.depth()
    server.pause()

    assert server.url in await waiting
    server.resume()


async def test_a_server_that_hangs_can_be_closed(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish([entry(1)])
    server.pause()
    # More than the sockets hold, so that some of it cannot be written any more.
    flood = [asyncio.create_task(queue.publish(entries(500))) for _ in range(100)]
    await steps(20)

    async with asyncio.timeout(BOUND_S):
        await queue.close()
        ended = await asyncio.gather(*flood, return_exceptions=True)

    assert all(isinstance(one, QueueError) for one in ended)
    server.resume()


async def test_a_waiting_receiver_gets_what_comes_after_an_outage(
    server: NatsServer, queue: NatsQueue
) -> None:
    waiting = asyncio.create_task(
        in_the_end(lambda: queue.receive(limit=1, wait_s=WAIT_S)), name="worker"
    )
    await queue.depth()
    for _ in range(3):
        server.restart()
    async with opened_queue(server.url) as other:
        await in_the_end(lambda: other.publish([entry(1)]))

        [delivery] = await waiting

    assert delivery.alert_id == entry(1)[0]


async def test_work_goes_on_over_kills_and_nothing_is_lost(server: NatsServer) -> None:
    wanted = {alert_id for alert_id, _ in entries(300)}
    done: set[str] = set()

    async def work(one: NatsQueue) -> None:
        while done != wanted:
            got = await in_the_end(lambda: one.receive(limit=5, wait_s=0.2))
            try:
                await one.settle(acked=got)
            except QueueError:
                continue  # it comes again
            finally:
                done.update(ids(got))

    async with opened_queue(server.url, lease_s=1) as first:
        async with opened_queue(server.url, lease_s=1) as second, asyncio.timeout(WAIT_S):
            workers = [asyncio.create_task(work(one)) for one in (first, second)]
            for number, one in enumerate(entries(300)):
                await in_the_end(partial(first.publish, [one]))
                if number % 50 == 25:
                    server.restart()
            await asyncio.gather(*workers)
            while sum((await in_the_end(first.depth)).values()):
                left = await in_the_end(lambda: first.receive(limit=5, wait_s=WAIT_S))
                await first.settle(acked=left)

    assert done == wanted


async def test_nothing_is_left_over_of_lost_connections(
    server: NatsServer, queue: NatsQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.publish([entry(1)])
    before = len(asyncio.all_tasks())

    for _ in range(5):
        waiting = asyncio.create_task(queue.receive(limit=1, wait_s=WAIT_S))
        await steps(3)
        server.restart()
        await asyncio.gather(waiting, return_exceptions=True)
        await in_the_end(queue.depth)
    # What closes a connection may be at its last step.
    await steps(20)

    assert len(asyncio.all_tasks()) <= before
    assert [record.name for record in caplog.records if record.name.startswith("nats")] == []


async def test_a_lease_that_was_slept_through_is_lost(server: NatsServer) -> None:
    """A replica that was stopped and goes on believes nothing of before."""
    clock = ShiftedClock()
    async with opened_queue(server.url, clock=clock) as queue:
        await queue.publish([entry(1)])
        [held] = await received(queue, 1)
        clock.shift_s += 31

        assert await queue.extend([held]) == []
        await queue.settle(acked=[held])

        assert (await queue.depth())["warning"] == 1


async def test_a_purged_queue_takes_its_alerts_again(server: NatsServer, queue: NatsQueue) -> None:
    await queue.publish(entries(3))
    async with administered(server.url) as jetstream:
        await jetstream.purge_stream(NAME)
        await queue.publish(entries(3))
        assert len(await received(queue, 3)) == 3
        info = await jetstream.consumer_info(NAME, "warning")
        assert isinstance(info.config, ConsumerConfig)
        assert info.config.max_deliver == -1
