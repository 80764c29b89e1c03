"""Callers of the Redis queue that are cancelled, at every point they can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.redis_world import (
    LONG_S,
    Broken,
    blocked_clients,
    broken,
    cancelled_after,
    ids,
    named,
    received,
    warnings,
)

pytestmark = pytest.mark.both_loops


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as opened:
        yield opened


async def test_a_receive_cancelled_at_any_point_keeps_nothing_back(world: Broken) -> None:
    queue, other = world.queue(), world.queue()
    [alert] = ids(1)
    await queue.publish(warnings([alert]))
    steps, done = 0, False
    while not done:
        receiver = asyncio.create_task(queue.receive(limit=1, wait_s=LONG_S))
        done = await cancelled_after(receiver, steps)
        # A turn of the loop may be far shorter than an answer takes.
        steps += 1 + steps // 8
        held = receiver.result() if done else await received(other)
        assert named(held) == [alert]
        await (queue if done else other).settle(returned=held)
    assert steps > 5
    assert named(await received(queue)) == [alert]


async def test_a_wait_cancelled_while_it_is_answered_keeps_nothing_back(world: Broken) -> None:
    waiting, other = world.queue(), world.queue()
    for steps, alert in enumerate(ids(60)):
        receiver = asyncio.create_task(waiting.receive(limit=1, wait_s=LONG_S))
        with world.direct as client:
            await blocked_clients(client)
        await other.publish(warnings([alert]))

        done = await cancelled_after(receiver, steps)

        held = receiver.result() if done else await received(other)
        assert named(held) == [alert]
        await (waiting if done else other).settle(acked=held)
    assert await other.receive(limit=10, wait_s=0) == []


async def test_a_cancelled_change_is_made_all_the_same_and_breaks_no_connection(
    world: Broken,
) -> None:
    queue = world.queue()
    await queue.publish([])
    for steps, alert in enumerate(ids(40)):
        publishing = asyncio.create_task(queue.publish(warnings([alert])))
        await asyncio.sleep(0)
        await cancelled_after(publishing, steps)
        held = await received(queue)
        assert named(held) == [alert]
        extending = asyncio.create_task(queue.extend(held))
        await asyncio.sleep(0)
        await cancelled_after(extending, steps)
        acking = asyncio.create_task(queue.settle(acked=held))
        await asyncio.sleep(0)
        await cancelled_after(acking, steps)
    async with asyncio.timeout(LONG_S):
        while any((await queue.depth()).values()):  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0)
    assert queue.trouble == ""
