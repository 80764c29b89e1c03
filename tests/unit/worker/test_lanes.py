"""Slots of the two lanes."""

from __future__ import annotations

import asyncio

from tests.unit.evaluation.virtual_time import on_virtual_time, settled
from triage.worker.lanes import Lanes


@on_virtual_time
async def test_a_slot_goes_back_to_the_lane_it_is_in() -> None:
    lanes = Lanes(fast=2, slow=1)
    one, other = lanes.take(), lanes.take()
    assert lanes.free == 0
    assert await one.enter_slow()
    assert (lanes.fast_in_use, lanes.slow_in_use) == (1, 1)
    one.release()
    other.release()
    assert (lanes.fast_in_use, lanes.slow_in_use) == (0, 0)


@on_virtual_time
async def test_entering_twice_takes_one_slot() -> None:
    lanes = Lanes(fast=1, slow=2)
    one = lanes.take()
    assert await one.enter_slow()
    assert await one.enter_slow()
    assert (lanes.fast_in_use, lanes.slow_in_use) == (0, 1)
    one.release()
    assert lanes.slow_in_use == 0


@on_virtual_time
async def test_a_full_slow_lane_leaves_the_fast_slot_and_may_be_tried_again() -> None:
    lanes = Lanes(fast=2, slow=1)
    one, other = lanes.take(), lanes.take()
    assert await one.enter_slow()
    assert not await other.enter_slow()
    assert (lanes.fast_in_use, lanes.slow_in_use) == (1, 1)
    one.release()
    assert await other.enter_slow()
    other.release()
    assert (lanes.fast_in_use, lanes.slow_in_use) == (0, 0)


@on_virtual_time
async def test_whoever_waits_is_woken_by_a_release_or_a_move() -> None:
    lanes = Lanes(fast=1, slow=1)
    one = lanes.take()
    waiting = asyncio.create_task(lanes.wait_for_free())
    await settled()
    assert not waiting.done()
    await one.enter_slow()
    assert await waiting == 1
    other = lanes.take()
    waiting = asyncio.create_task(lanes.wait_for_free())
    await settled()
    one.release()
    await settled()
    assert not waiting.done(), "a slow slot is no fast one"
    other.release()
    assert await waiting == 1
