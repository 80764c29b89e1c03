"""Alerts come first, and what looks at decisions goes on all the same."""

from __future__ import annotations

import asyncio

import pytest

from triage.app.watchers import EASES, calm

BOUND_S = 30.0


async def test_nobody_waits_while_nothing_is_decided() -> None:
    looks = 0

    def is_busy() -> bool:
        nonlocal looks
        looks += 1
        return False

    await calm(is_busy)
    assert looks == 1


@pytest.mark.parametrize("busy", [1, 3, EASES - 1])
async def test_a_decision_under_way_is_waited_for(busy: int) -> None:
    looks = 0

    def is_busy() -> bool:
        nonlocal looks
        looks += 1
        return looks <= busy

    async with asyncio.timeout(BOUND_S):
        await calm(is_busy)
    assert looks == busy + 1


async def test_a_load_without_a_gap_is_not_waited_out() -> None:
    async with asyncio.timeout(BOUND_S):
        await calm(lambda: True)
