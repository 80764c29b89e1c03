"""Garbage is looked for between alerts, and by the interpreter's own measure."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.unit.watching.shadow_world import decisions
from triage.app import garbage
from triage.app.garbage import (
    ENOUGH,
    OFTEN,
    SELDOM,
    SWITCH_S,
    TOO_MANY,
    Garbage,
    settle_in,
    undisturbed,
)
from triage.trial.model import at_once

BOUND_S = 30.0


@dataclass(slots=True)
class Interpreter:
    """In place of `gc`: counts as it is told, and says what it was asked for."""

    counts: tuple[int, int, int] = (ENOUGH, 0, 0)
    threshold: tuple[int, int, int] = (TOO_MANY, 1, SELDOM)
    looked: list[int] = field(default_factory=list)
    has_looked: asyncio.Event = field(default_factory=asyncio.Event)
    is_enabled: bool = False
    frozen: int = 0

    def get_count(self) -> tuple[int, int, int]:
        return self.counts

    def collect(self, generation: int) -> None:
        self.looked.append(generation)
        self.counts = (0, *self.counts[1:])
        self.has_looked.set()

    def get_threshold(self) -> tuple[int, int, int]:
        return self.threshold

    def set_threshold(self, *threshold: int) -> None:
        young, middle, old = threshold
        self.threshold = (young, middle, old)

    def enable(self) -> None:
        self.is_enabled = True

    def freeze(self) -> None:
        self.frozen += 1


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    made = Interpreter()
    monkeypatch.setattr(garbage, "gc", made)
    return made


@pytest.mark.parametrize(
    ("counts", "looked"),
    [
        ((0, 0, 0), []),
        ((ENOUGH - 1, OFTEN + 1, OFTEN + 1), []),
        ((ENOUGH, 0, 0), [0]),
        ((ENOUGH, OFTEN, SELDOM + 1), [0]),
        ((ENOUGH, OFTEN + 1, SELDOM), [1]),
        ((ENOUGH, OFTEN + 1, SELDOM + 1), [2]),
    ],
)
def test_new_objects_are_looked_through_most_and_all_of_them_least(
    interpreter: Interpreter, counts: tuple[int, int, int], looked: list[int]
) -> None:
    interpreter.counts = counts
    Garbage(is_busy=lambda: False, calm=at_once).collect()
    assert interpreter.looked == looked


def test_alerts_come_first(interpreter: Interpreter) -> None:
    Garbage(is_busy=lambda: True, calm=at_once).collect()
    assert interpreter.looked == []


def test_not_everything_is_looked_through_during_a_load(interpreter: Interpreter) -> None:
    interpreter.counts = (ENOUGH, OFTEN + 1, SELDOM + 1)
    before = interpreter.threshold
    one = Garbage(is_busy=lambda: False, calm=at_once)
    with undisturbed():
        one.collect()
        assert interpreter.threshold[0] == ENOUGH, "what is made stays: a look at much takes long"
    assert (interpreter.looked, interpreter.threshold) == ([1], before)
    interpreter.counts = (ENOUGH, OFTEN + 1, SELDOM + 1)
    one.collect()
    assert interpreter.looked == [1, 2]


@asynccontextmanager
async def running(one: Garbage) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        yield
        one.stop()
        async with asyncio.timeout(BOUND_S):
            await task
    finally:
        task.cancel()


async def test_a_decision_is_followed_by_a_look_once_nothing_is_under_way(
    interpreter: Interpreter,
) -> None:
    (made,) = await decisions(1)
    calm, waited = asyncio.Event(), asyncio.Event()

    async def ease() -> None:
        waited.set()
        await calm.wait()

    one = Garbage(is_busy=lambda: not calm.is_set(), calm=ease)
    async with asyncio.timeout(BOUND_S), running(one):
        one.offer(made[0], made[1], made[2].snapshot)
        await waited.wait()
        assert interpreter.looked == []
        calm.set()
        await interpreter.has_looked.wait()
    assert interpreter.looked == [0]


async def test_nothing_is_waited_for_when_there_is_little(interpreter: Interpreter) -> None:
    interpreter.counts = (ENOUGH - 1, 0, 0)
    (made,) = await decisions(1)
    eased = 0

    async def ease() -> None:
        nonlocal eased
        eased += 1

    one = Garbage(is_busy=lambda: False, calm=ease)
    async with running(one):
        one.offer(made[0], made[1], made[2].snapshot)
        await asyncio.sleep(0)
    assert (eased, interpreter.looked) == (0, [])


def test_a_daemon_leaves_it_to_the_gaps(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)
    settle_in()
    assert intervals == [SWITCH_S]
    assert (interpreter.frozen, interpreter.is_enabled) == (1, True)
    assert interpreter.threshold[0] > ENOUGH
