"""Slots: how many alerts are worked on at once, bounded before anything is received."""

from __future__ import annotations

import asyncio


class Lanes:
    """A fast lane for alerts whose tools work, a slow one for those that wait for a fallback.

    Belongs to the event loop's thread.
    """

    def __init__(self, *, fast: int, slow: int) -> None:
        self.fast = fast
        self.slow = slow
        self.fast_in_use = 0
        self.slow_in_use = 0
        self._freed = asyncio.Event()

    @property
    def free(self) -> int:
        return self.fast - self.fast_in_use

    async def wait_for_free(self) -> int:
        """How many fast slots are free, at least one."""
        while self.free <= 0:
            self._freed.clear()
            await self._freed.wait()
        return self.free

    def take(self) -> Slot:
        """A fast slot. The caller has seen that one is free."""
        self.fast_in_use += 1
        return Slot(self)

    def move(self) -> bool:
        if self.slow_in_use >= self.slow:
            return False
        self.slow_in_use += 1
        self.free_fast()
        return True

    def free_fast(self) -> None:
        self.fast_in_use -= 1
        self._freed.set()

    def free_slow(self) -> None:
        self.slow_in_use -= 1


class Slot:
    """Implements `ports.Lane`. Release it once, whichever lane it is in by then."""

    __slots__ = ("_is_slow", "_lanes")

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._is_slow = False

    async def enter_slow(self) -> bool:
        if not self._is_slow:
            self._is_slow = self._lanes.move()
        return self._is_slow

    def release(self) -> None:
        if self._is_slow:
            self._lanes.free_slow()
        else:
            self._lanes.free_fast()
