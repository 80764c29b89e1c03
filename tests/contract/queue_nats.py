"""The queue on a real NATS server.

Leases are the server's: for a holder they end as soon as the test says so, for the others when
the server's own time has passed, which they wait for.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.nats_server import NatsServer
from tests.contract.queue_worlds import WAIT_S, Ground, World
from triage.adapters.nats import NatsQueue

_NUMBERS = itertools.count()


class ShiftedClock:
    """The real time, and how much further on a holder believes it to be."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() + self.shift_s


class NatsWorld(World):
    lease_s = 4.0
    delay_s = 1.5

    clock: ShiftedClock

    def __init__(self, queue: NatsQueue, other: NatsQueue, clock: ShiftedClock) -> None:
        self.queue = queue
        self.other = other
        self.clock = clock

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[NatsServer]:
        with NatsServer(folder) as server:
            yield server

    @classmethod
    @asynccontextmanager
    async def opened(cls, ground: Ground) -> AsyncIterator[NatsWorld]:
        clock = ShiftedClock()
        name = f"triage{next(_NUMBERS)}"
        queue, other = (
            NatsQueue(url=ground.server.url, name=name, lease_s=cls.lease_s, clock=clock)
            for _ in range(2)
        )
        try:
            yield cls(queue, other, clock)
        finally:
            await queue.close()
            await other.close()

    async def lapse(self, share: float = 1.0) -> None:
        if share >= 1:
            self.clock.shift_s += share * self.lease_s

    async def pass_delay(self) -> None:
        returned = await self.other.receive(limit=1, wait_s=WAIT_S)
        await self.other.settle(returned=returned)
