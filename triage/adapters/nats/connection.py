"""Always one connection to a server, made again for as long as it takes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from triage.adapters.nats.address import Address
from triage.adapters.nats.wire import Wire
from triage.errors import QueueError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
"""Between attempts. Operations wait for the next attempt, so it must not be long."""


class Connection:
    """Belongs to one event loop; connects when first used. `prepare` is run on every new
    connection before it is used. `wake` is the subject that wakes receivers, if there is one.

    Raises ConfigError when the URL cannot be used or the library is missing.
    """

    def __init__(
        self, url: str, *, name: str, prepare: Callable[[Wire], Awaitable[None]], wake: str = ""
    ) -> None:
        self._address = Address.read(url)
        self._name = name
        self._prepare = prepare
        self._wake = wake
        self.label = self._address.label
        self._trouble = ""
        self._wire: Wire | None = None
        self._prepared: Wire | None = None
        self._preparing = asyncio.Lock()
        self._attempt: asyncio.Task[Wire | QueueError] | None = None
        self._attempts = 0
        self._failures = 0
        self._closed = False

    @property
    def trouble(self) -> str:
        if not self._trouble and self._wire is not None and self._wire.lost and not self._closed:
            return f"{self.label}: {self._wire.lost}"
        return self._trouble

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Around each, so that `trouble` says how the last one went."""
        try:
            yield
        except QueueError as error:
            self._trouble = str(error)
            raise
        self._trouble = ""

    def works(self) -> None:
        """An operation that goes on has had an answer."""
        self._trouble = ""

    async def ready(self) -> Wire:
        """Connected and prepared; within seconds, or raises QueueError."""
        wire = await self._connected()
        if self._prepared is not wire:
            async with self._preparing:
                if self._prepared is not wire:
                    await self._prepare(wire)
                    self._prepared = wire
                    self._failures = 0
        return wire

    def unprepare(self) -> None:
        """What `prepare` made is not there any more."""
        self._prepared = None

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        attempt, wire = self._attempt, self._wire
        self._attempt = None
        if attempt is not None and not attempt.done():
            attempt.cancel()
            await asyncio.wait((attempt,))
        if wire is not None:
            await wire.close()

    def _complain(self, problem: str) -> None:
        self._trouble = problem

    async def _connected(self) -> Wire:
        if self._closed:
            raise QueueError(f"{self.label} is closed")
        if self._wire is not None and not self._wire.lost:
            return self._wire
        if self._attempt is None or self._attempt.done():
            # Of its own: whoever waits for it may be cancelled while others wait as well.
            self._attempt = asyncio.create_task(self._connect())
        attempt = self._attempt
        await asyncio.wait((attempt,))
        if attempt.cancelled():
            raise QueueError(f"{self.label} is closed")
        made = attempt.result()
        if isinstance(made, QueueError):
            raise QueueError(str(made))
        return made

    async def _connect(self) -> Wire | QueueError:
        if self._failures:
            longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures, 10))
            # Half of it by chance: a server that came back must not meet every replica at once.
            await asyncio.sleep(longest * random.uniform(0.5, 1.0))
        if self._wire is not None:
            await self._wire.close()
        servers = self._address.servers
        server = servers[self._attempts % len(servers)]
        self._attempts += 1
        # Until it is prepared it counts as failed: a server may take connections and no more.
        self._failures += 1
        wire = Wire(self._address, wake=self._wake, report=self._complain)
        try:
            await wire.open(server, name=self._name)
        except QueueError as error:
            return error
        self._wire = wire
        return wire
