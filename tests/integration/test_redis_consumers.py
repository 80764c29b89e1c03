"""Consumers of the Redis queue beside each other: who holds what, and who takes over from whom."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.redis_world import (
    LEASE_S,
    LONG_S,
    NAME,
    Broken,
    blocked_clients,
    broken,
    ids,
    named,
    warnings,
)
from triage.adapters.redis import RedisQueue
from triage.adapters.redis.connection import Connection
from triage.errors import QueueError
from triage.model.alert import Severity
from triage.ports import Delivery

# A consumer in a process of its own: it says what it holds, then does nothing until it is killed.
HOLDER = """
import asyncio, sys
from triage.adapters.redis import RedisQueue
from triage.clock import SystemClock

async def hold(url, name, lease_s):
    queue = RedisQueue(url, name=name, lease_s=float(lease_s), clock=SystemClock())
    for one in await queue.receive(limit=3, wait_s=60):
        print(one.alert_id)
    print("held", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold(*sys.argv[1:]))
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as opened:
        yield opened


async def test_consumers_never_hold_the_same(world: Broken) -> None:
    alerts = ids(500)
    queues = [world.queue() for _ in range(4)]
    seen: list[Delivery] = []

    async def consume(queue: RedisQueue) -> None:
        while len(seen) < len(alerts):
            got = await queue.receive(limit=7, wait_s=0.01)
            seen.extend(got)
            await queue.settle(acked=got[::2], returned=())
            await queue.extend(got[1::2])

    async with asyncio.timeout(LONG_S), asyncio.TaskGroup() as tasks:
        for queue in queues:
            tasks.create_task(consume(queue))
        await queues[0].publish(warnings(alerts))

    assert sorted(named(seen)) == alerts


async def test_what_a_killed_process_held_is_taken_over_after_its_lease(world: Broken) -> None:
    queue = world.queue()
    alerts = ids(5)
    await queue.publish(warnings(alerts))
    command = [sys.executable, "-c", HOLDER, world.server.url, NAME, str(LEASE_S)]
    assert await asyncio.to_thread(killed_once_it_holds, command) == [*alerts[:3], "held"]

    assert named(await queue.receive(limit=10, wait_s=0)) == alerts[3:]
    assert await queue.receive(limit=10, wait_s=0) == []
    world.lapse(LEASE_S / 2)
    assert await queue.receive(limit=10, wait_s=0) == []
    world.lapse()

    taken = await queue.receive(limit=3, wait_s=0)
    assert named(taken) == alerts[:3]
    assert await queue.extend(taken) == taken


async def test_a_receiver_that_waits_sees_a_lapsed_lease(world: Broken) -> None:
    queue, dead = world.queue(), world.queue()
    [alert] = ids(1)
    await queue.publish(warnings([alert]))
    await dead.receive(limit=1, wait_s=0)
    receiver = asyncio.create_task(queue.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)

    world.lapse()

    assert named(await receiver) == [alert]


async def test_a_receiver_that_waits_gets_what_becomes_due(world: Broken) -> None:
    queue, other = world.queue(), world.queue()
    [alert] = ids(1)
    await queue.publish(warnings([alert]))
    held = await queue.receive(limit=1, wait_s=0)
    receiver = asyncio.create_task(other.receive(limit=1, wait_s=LONG_S))
    with world.direct as client:
        await blocked_clients(client)

    await queue.settle(returned=held, delay_s=0.05)

    [again] = await receiver
    assert (again.alert_id, again.published_at) == (alert, held[0].published_at)


async def test_a_wait_is_no_longer_than_until_something_is_due(
    world: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = world.queue()
    [alert] = ids(1)
    await queue.publish(warnings([alert]))
    await queue.settle(returned=await queue.receive(limit=1, wait_s=0), delay_s=0.2)
    waited: list[object] = []
    asked = Connection.blocked_read

    async def seen(self: Connection, *command: object) -> object:
        waited.append(command[command.index("BLOCK") + 1])
        return await asked(self, *command)

    monkeypatch.setattr(Connection, "blocked_read", seen)

    assert named(await queue.receive(limit=1, wait_s=LONG_S)) == [alert]
    assert all(isinstance(ms, int) and 1 <= ms <= 200 for ms in waited)


async def test_what_comes_while_it_closes_is_given_back(
    world: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = world.queue(), world.queue()
    alerts = ids(1)
    closing: list[asyncio.Task[None]] = []
    asked = Connection.blocked_read

    async def late(self: Connection, *command: object) -> object:
        closing.append(asyncio.create_task(queue.close()))
        await other.publish(warnings(alerts))
        return await asked(self, *command)

    monkeypatch.setattr(Connection, "blocked_read", late)
    assert await queue.receive(limit=1, wait_s=LONG_S) == []
    await closing[0]

    assert named(await other.receive(limit=1, wait_s=0)) == alerts


async def test_a_wait_that_finds_too_much_keeps_the_most_severe(
    world: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = world.queue(), world.queue()
    alerts = dict(zip((Severity.INFO, Severity.ERROR, Severity.CRITICAL), ids(3), strict=True))
    asked = Connection.blocked_read

    async def late(self: Connection, *command: object) -> object:
        # Published after the pass that found nothing, and before the wait.
        await other.publish([(alert, severity) for severity, alert in alerts.items()])
        return await asked(self, *command)

    monkeypatch.setattr(Connection, "blocked_read", late)

    assert named(await queue.receive(limit=1, wait_s=LONG_S)) == [alerts[Severity.CRITICAL]]
    rest = await other.receive(limit=10, wait_s=0)
    assert named(rest) == [alerts[Severity.ERROR], alerts[Severity.INFO]]


async def test_a_consumer_that_leaves_is_taken_off_the_list(world: Broken) -> None:
    leaver, holder = world.queue(), world.queue()
    key = f"{{{NAME}}}:work:warning"
    await leaver.publish(warnings(ids(2)))
    await leaver.settle(acked=await leaver.receive(limit=1, wait_s=0))
    held = await holder.receive(limit=1, wait_s=0)
    with world.direct as client:
        assert len(client.xinfo_consumers(key, "workers")) == 2

        await leaver.close()
        await holder.close()

        # What it holds would go with it.
        assert [one["pending"] for one in client.xinfo_consumers(key, "workers")] == [1]
    with pytest.raises(QueueError, match="closed"):
        await holder.settle(acked=held)


async def test_a_consumer_that_died_is_taken_off_the_list_when_it_holds_nothing(
    world: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, holder = world.queue(), world.queue()
    key = f"{{{NAME}}}:work:warning"
    await dead.publish(warnings(ids(2)))
    await dead.settle(acked=await dead.receive(limit=1, wait_s=0))
    await holder.receive(limit=1, wait_s=0)
    await world.queue().depth()
    with world.direct as client:
        assert len(client.xinfo_consumers(key, "workers")) == 2
        monkeypatch.setattr("triage.adapters.redis.queue.gone_ms", lambda _lease_ms: -1)

        await world.queue().depth()

        assert [one["pending"] for one in client.xinfo_consumers(key, "workers")] == [1]


def killed_once_it_holds(command: list[str]) -> list[str]:
    """What it printed before."""
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told: list[str] = []
        while not told or told[-1] not in ("held", ""):
            told.append(process.stdout.readline().strip())
        process.kill()
    return told
