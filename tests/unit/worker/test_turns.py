"""Who is let in next."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from triage.worker.turns import Turns

CAPACITY = 4
GATHER_S = 0.5


class Visitors:
    """Each stays until it is told to leave; `inside` in the order they came in."""

    def __init__(self) -> None:
        self.turns = Turns(CAPACITY, GATHER_S)
        self.inside: list[str] = []
        self.here = 0
        self._leave: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, rank: int, weight: int = CAPACITY) -> None:
        self._leave[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._visit(name, rank, weight))

    async def come(self, name: str, rank: int, weight: int = CAPACITY) -> None:
        self.begin(name, rank, weight)
        await self.settle()

    async def _visit(self, name: str, rank: int, weight: int = CAPACITY) -> None:
        async with self.turns.turn(rank, weight):
            self.inside.append(name)
            self.here += weight
            assert self.here <= CAPACITY
            try:
                await self._leave[name].wait()
            finally:
                self.here -= weight

    def release(self, name: str) -> None:
        self._leave[name].set()

    async def leave(self, name: str) -> None:
        self.release(name)
        await self._tasks[name]
        await self.settle()

    def cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    async def settle(self) -> None:
        await asyncio.sleep(2 * GATHER_S)


@on_virtual_time
async def test_the_lowest_rank_is_next_and_the_first_among_equals() -> None:
    visitors = Visitors()
    for name, rank in (("a", 9), ("b", 3), ("c", 2), ("d", 3), ("e", 2)):
        visitors.begin(name, rank)
    await visitors.settle()
    for name in ("c", "e", "b", "d", "a"):
        assert visitors.inside[-1] == name
        await visitors.leave(name)
    await visitors.come("f", 1)
    assert visitors.inside[-1] == "f"
    await visitors.leave("f")


@on_virtual_time
async def test_one_that_gives_up_waiting_is_passed_over() -> None:
    visitors = Visitors()
    for name in ("a", "b", "c"):
        await visitors.come(name, 0)
    visitors.cancel("b")
    await visitors.settle()
    await visitors.leave("a")
    assert visitors.inside == ["a", "c"]
    await visitors.leave("c")


@pytest.mark.parametrize("waiting", [0, 1])
@on_virtual_time
async def test_one_that_is_cancelled_as_it_is_called_calls_the_next(waiting: int) -> None:
    visitors = Visitors()
    for name in ["a", "b", "c"][: 2 + waiting]:
        await visitors.come(name, 0)
    visitors.release("a")
    await asyncio.sleep(0)
    assert visitors.inside == ["a"]
    assert visitors.here == 0, "a has left and called b, who has not come in yet"
    visitors.cancel("b")
    await visitors.settle()
    await visitors.come("d", 0)
    if waiting:
        assert visitors.inside[-1] == "c"
        await visitors.leave("c")
    assert visitors.inside[-1] == "d"
    await visitors.leave("d")


@on_virtual_time
async def test_one_that_fails_inside_passes_the_turn_on() -> None:
    turns = Turns(CAPACITY, GATHER_S)
    with pytest.raises(ValueError, match="inside"):
        async with turns.turn(0, CAPACITY):
            raise ValueError("inside")
    async with asyncio.timeout(60), turns.turn(0, CAPACITY):
        pass


@on_virtual_time
async def test_light_ones_are_inside_together_and_a_heavy_one_alone() -> None:
    visitors = Visitors()
    visitors.begin("heavy", 3)
    for number in range(CAPACITY + 2):
        visitors.begin(f"light {number}", 2, 1)
    await visitors.settle()
    assert visitors.inside == [f"light {number}" for number in range(CAPACITY)]
    await visitors.leave("light 0")
    assert visitors.inside[-1] == f"light {CAPACITY}"
    for number in range(1, CAPACITY + 1):
        await visitors.leave(f"light {number}")
    assert visitors.inside[-1] == f"light {CAPACITY + 1}", "the heavy one waits for the last"
    await visitors.leave(f"light {CAPACITY + 1}")
    assert visitors.inside[-1] == "heavy"
    visitors.begin("late", 0, 1)
    await visitors.settle()
    assert visitors.inside[-1] == "heavy"
    await visitors.leave("heavy")
    assert visitors.inside[-1] == "late"
    await visitors.leave("late")
