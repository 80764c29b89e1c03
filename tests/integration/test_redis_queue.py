"""The Redis queue against servers that are killed, stopped, emptied and full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.redis_world import (
    LONG_S,
    NAME,
    Broken,
    at_last,
    blocked_clients,
    broken,
    ids,
    named,
    received,
    warnings,
)
from triage.errors import QueueError
from triage.model.alert import PRIORITY_NAMES


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as opened:
        yield opened


async def test_nothing_is_lost_when_the_server_is_killed(world: Broken) -> None:
    queue = world.queue()
    alerts = ids(5)
    await queue.publish(warnings(alerts))
    held = await queue.receive(limit=2, wait_s=0)
    assert queue.forgot()

    world.server.kill()
    with pytest.raises(QueueError, match=rf"redis://127\.0\.0\.1:{world.server.port}/0: "):
        await queue.settle(acked=held[:1])
    assert "refused" in queue.trouble or "closed" in queue.trouble
    world.server.start()

    await at_last(lambda: queue.settle(acked=held[:1]))
    assert queue.trouble == ""
    assert await queue.extend(held) == held[1:]
    assert named(await queue.receive(limit=10, wait_s=0)) == alerts[2:]
    assert not queue.forgot()


async def test_a_server_that_lost_its_files_is_told(world: Broken) -> None:
    queue, other = world.queue(), world.queue()
    alerts = ids(3)
    await queue.publish(warnings(alerts))
    held = await queue.receive(limit=1, wait_s=0)
    assert await other.depth() == {"critical": 0, "error": 0, "warning": 3, "info": 0}
    assert (queue.forgot(), other.forgot()) == (True, False)

    world.server.kill()
    world.server.lose_files()
    world.server.start()

    assert await at_last(lambda: queue.receive(limit=10, wait_s=0)) == []
    assert queue.forgot()
    assert not queue.forgot()
    # Made again by the first; the second must know all the same.
    assert await at_last(lambda: other.receive(limit=10, wait_s=0)) == []
    assert other.forgot()
    await queue.publish(warnings(alerts))
    await queue.settle(acked=held)
    assert await queue.extend(held) == []
    assert named(await queue.receive(limit=10, wait_s=0)) == alerts


async def test_a_receiver_that_waits_goes_on_after_the_server_was_emptied(world: Broken) -> None:
    waiting, publishing = world.queue(), world.queue()
    [alert] = ids(1)
    await publishing.depth()
    assert publishing.forgot()
    receiver = asyncio.create_task(waiting.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)

        client.flushall()

        await publishing.publish(warnings([alert]))
        assert named(await receiver) == [alert]
    assert waiting.forgot()
    assert publishing.forgot()


async def test_a_missing_epoch_means_that_it_forgot(world: Broken) -> None:
    queue = world.queue()
    alerts = ids(2)
    await queue.publish(warnings(alerts))
    queue.forgot()
    with world.direct as client:
        assert client.delete(f"{{{NAME}}}:epoch") == 1

    assert named(await queue.receive(limit=10, wait_s=0)) == alerts
    assert queue.forgot()
    with world.direct as client:
        client.delete(f"{{{NAME}}}:epoch")
    late = world.queue()
    await late.depth()
    assert late.forgot()
    later = world.queue()
    await later.depth()
    assert not later.forgot()


async def test_what_a_person_deleted_can_be_published_again(world: Broken) -> None:
    queue, other = world.queue(), world.queue()
    alerts = ids(3)
    await queue.publish(warnings(alerts))
    lost = await other.receive(limit=1, wait_s=0)
    key = f"{{{NAME}}}:work:warning"
    with world.direct as client:
        entries = client.xrange(key)
        # A consumer with what it holds, and an entry.
        [holder] = [c for c in client.xinfo_consumers(key, "workers") if c["pending"]]
        assert client.xgroup_delconsumer(key, "workers", holder["name"]) == 1
        assert client.xdel(key, entries[1][0]) == 1

    await queue.publish(warnings(alerts))

    assert sorted(named(await queue.receive(limit=10, wait_s=0))) == alerts
    assert await other.extend(lost) == []
    assert (await queue.depth())["warning"] == 3

    with world.direct as client:
        client.delete(key)
    await queue.publish(warnings(alerts))
    assert sorted(named(await queue.receive(limit=10, wait_s=0))) == alerts
    assert queue.forgot()


async def test_a_server_that_hangs_holds_nobody_up(world: Broken) -> None:
    queue = world.queue()
    [alert] = ids(1)
    await queue.publish(warnings([alert]))
    held = await queue.receive(limit=1, wait_s=0)
    waiting = asyncio.create_task(queue.receive(limit=1, wait_s=10 * LONG_S))
    with world.direct as client:
        await blocked_clients(client)

    world.server.pause()
    try:
        # One after another each would take seconds: fifty would not be done.
        async with asyncio.timeout(LONG_S):
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: queue.publish(warnings([alert])),
                lambda: queue.settle(acked=held),
                lambda: queue.extend(held),
                queue.depth,
                queue.weaknesses,
                lambda: queue.receive(limit=1, wait_s=0),
            ]
            for _ in range(50):
                for call in calls:
                    with pytest.raises(QueueError):
                        await call()
            with pytest.raises(QueueError):
                await waiting
        assert "Timeout" in queue.trouble
    finally:
        world.server.resume()

    assert await at_last(lambda: queue.extend(held)) == held
    assert queue.trouble == ""


async def test_many_calls_at_once_on_a_server_that_hangs_end_together(world: Broken) -> None:
    queue = world.queue()
    await queue.publish([])
    world.server.pause()
    try:
        async with asyncio.timeout(LONG_S):
            ends = await asyncio.gather(
                *(queue.publish(warnings([alert])) for alert in ids(500)), return_exceptions=True
            )
    finally:
        world.server.resume()
    assert {type(end) for end in ends} == {QueueError}


async def test_while_one_call_tries_a_server_that_hung_the_others_fail_at_once(
    world: Broken,
) -> None:
    queue = world.queue()
    await queue.depth()
    world.server.pause()
    try:
        async with asyncio.timeout(LONG_S):
            with pytest.raises(QueueError):
                await queue.depth()
            trying = asyncio.create_task(queue.depth())
            while await ended_at_once(trying):
                trying = asyncio.create_task(queue.depth())

            with pytest.raises(QueueError):
                await queue.publish(warnings(ids(1)))

            assert not trying.done()
            with pytest.raises(QueueError):
                await trying
    finally:
        world.server.resume()


async def test_killing_the_server_ends_a_wait(world: Broken) -> None:
    queue = world.queue()
    receiver = asyncio.create_task(queue.receive(limit=1, wait_s=10 * LONG_S))
    with world.direct as client:
        await blocked_clients(client)

    world.server.kill()

    with pytest.raises(QueueError):
        async with asyncio.timeout(LONG_S):
            await receiver
    assert queue.trouble


async def test_cut_connections_are_made_again(world: Broken) -> None:
    queue = world.queue()
    [alert] = ids(1)
    receiver = asyncio.create_task(queue.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)
        client.client_kill_filter(_type="normal", skipme=True)
        with pytest.raises(QueueError):
            await receiver

    await at_last(lambda: queue.publish(warnings([alert])))
    assert named(await received(queue)) == [alert]


async def test_ten_thousand_pass_through_and_leave_no_memory_behind(world: Broken) -> None:
    queue = world.queue()
    alerts = ids(10_000)
    await queue.publish(warnings(alerts[:1]))
    await queue.settle(acked=await queue.receive(limit=1, wait_s=0))
    with world.direct as client:
        before = client.info("memory")["used_memory"]

        await queue.publish(warnings(alerts))

        # Entry, place in the hash and their share of the trees: some 200 bytes an alert.
        assert client.info("memory")["used_memory"] - before < 10_000 * 400
        drained: list[str] = []
        while got := await queue.receive(limit=500, wait_s=0):
            drained += named(got)
            await queue.settle(acked=got)
        assert drained == alerts
        assert dict(await queue.depth()) == dict.fromkeys(PRIORITY_NAMES, 0)
        assert not client.exists(f"{{{NAME}}}:queued")
        assert client.info("memory")["used_memory"] - before < 1_000_000


async def test_a_full_server_refuses_what_is_new_and_takes_acks(world: Broken) -> None:
    queue = world.queue()
    first, second = ids(2)
    await queue.publish(warnings([first]))
    held = await queue.receive(limit=1, wait_s=0)
    with world.direct as client:
        client.config_set("maxmemory", "1")

        with pytest.raises(QueueError, match="maxmemory"):
            await queue.publish(warnings([second]))
        assert "maxmemory" in queue.trouble
        assert await queue.extend(held) == held
        await queue.settle(returned=held)
        await queue.settle(acked=await received(queue))

        client.config_set("maxmemory", "0")
    await queue.publish(warnings([second]))
    assert named(await received(queue)) == [second]
    assert queue.trouble == ""


async def ended_at_once(call: asyncio.Task[Any]) -> bool:
    """Whether it failed without asking, for the pause after a failure."""
    for _ in range(20):
        await asyncio.sleep(0)
    return call.done() and call.exception() is not None


async def test_a_connection_that_is_lost_while_it_is_written_to_is_no_fault_of_ours(
    world: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop tells of it by a RuntimeError, which the library passes on. Chaos found it."""
    queue = world.queue()
    await queue.depth()
    with monkeypatch.context() as lost:

        async def closed(*_: object) -> object:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")

        lost.setattr(queue._server, "_execute", closed)  # noqa: SLF001 - where the library begins
        with pytest.raises(QueueError, match="unable to perform operation"):
            await queue.publish(warnings(ids(1)))
        assert "unable to perform operation" in queue.trouble

    await at_last(lambda: queue.publish(warnings(ids(1))))
    assert len(await queue.receive(limit=5, wait_s=0)) == 1
    assert queue.trouble == ""
