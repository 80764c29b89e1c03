"""Few at a time, the least suspicious first."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class _Waiting(NamedTuple):
    rank: int
    arrival: int
    weight: int
    called: asyncio.Future[None]


class Turns:
    """Those inside weigh no more than `capacity` together. Unlike a semaphore, which lets in
    whoever came first: after every start that would be the same ones, the oldest, and each process
    that ends early would take an attempt from them alone. So nobody is let in at once either:
    those who come within `gather_s` seconds are compared.
    """

    def __init__(self, capacity: int, gather_s: float) -> None:
        self._capacity = capacity
        self._gather_s = gather_s
        self._inside = 0
        self._gathering = False
        self._waiting: list[_Waiting] = []
        self._arrivals = 0

    @asynccontextmanager
    async def turn(self, rank: int, weight: int) -> AsyncIterator[None]:
        """The lowest `rank` of those that wait is next, the first to come among equals, and nobody
        overtakes. `weight` is at most the capacity. May be cancelled."""
        if not self._inside and not self._waiting and not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_later(self._gather_s, self._gathered)
        await self._wait(rank, weight)
        try:
            yield
        finally:
            self._leave(weight)

    async def _wait(self, rank: int, weight: int) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, _Waiting(rank, self._arrivals, weight, called))
        self._call()
        try:
            await called
        except asyncio.CancelledError:
            # Called and cancelled in the same step: its place is taken, and has to be given back.
            if called.done() and not called.cancelled():
                self._leave(weight)
            raise

    def _gathered(self) -> None:
        self._gathering = False
        self._call()

    def _leave(self, weight: int) -> None:
        self._inside -= weight
        self._call()

    def _call(self) -> None:
        """Whoever is called is inside from then on: nobody can come in between."""
        while self._waiting and not self._gathering:
            head = self._waiting[0]
            if head.called.done():  # it gave up
                heapq.heappop(self._waiting)
                continue
            if self._inside + head.weight > self._capacity:
                return
            heapq.heappop(self._waiting)
            self._inside += head.weight
            head.called.set_result(None)
