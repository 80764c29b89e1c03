"""One at a time, the least suspicious first."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Unlike a lock, which lets in whoever came first: after every start that would be the same
    one, the oldest, and each process that ends early would take an attempt from it alone. So
    nobody is let in at once either: those who come within `gather_s` seconds are compared.
    """

    def __init__(self, gather_s: float) -> None:
        self._gather_s = gather_s
        self._taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    @asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[None]:
        """The lowest `rank` of those that wait is next, the first to come among equals. May be
        cancelled."""
        if not self._taken:
            self._taken = True
            asyncio.get_running_loop().call_later(self._gather_s, self._pass_on)
        await self._wait(rank)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, rank: int) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (rank, self._arrivals, called))
        try:
            await called
        except asyncio.CancelledError:
            # Called and cancelled in the same step: somebody else has to be called instead.
            if called.done() and not called.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """The turn stays taken while it is handed over: nobody can come in between."""
        while self._waiting:
            _, _, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                return
        self._taken = False
