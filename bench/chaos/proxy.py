"""A TCP proxy that cuts connections in the middle of what they carry.

Each link of a replica has one: with the senders, with PostgreSQL, with the broker. A cut that is
asked for waits for the next bytes in its direction: so many of them pass, the rest does not, and
both ends see the connection go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self, cast

from bench.chaos.plan import Direction
from bench.servers import HOST, free_port

BACKLOG = 512


class Proxy:
    """Listens on `port`, the same over all its life. `drops` counts the cuts that happened."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.drops = 0
        self._target_port = target_port
        self._cuts: dict[Direction, deque[int]] = {one: deque() for one in Direction}
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Link(self, self._target_port).client, HOST, self.port, backlog=BACKLOG
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for link in list(self._links):
            link.abort()
        if server is not None:
            await server.wait_closed()

    def cut(self, direction: Direction, after_bytes: int) -> None:
        self._cuts[direction].append(after_bytes)

    def disarm(self) -> None:
        """Forget the cuts that have not happened."""
        for waiting in self._cuts.values():
            waiting.clear()

    def opened(self, link: _Link) -> None:
        self._links.add(link)

    def ended(self, link: _Link) -> None:
        self._links.discard(link)

    def passing(self, direction: Direction, count: int) -> int:
        """How many of `count` bytes pass; fewer than that, and the connection is to be cut."""
        waiting = self._cuts[direction]
        if not waiting:
            return count
        if waiting[0] >= count:
            waiting[0] -= count
            return count
        self.drops += 1
        return waiting.popleft()


class _Link:
    """One connection: what the client sends goes to the server, and back."""

    def __init__(self, proxy: Proxy, target_port: int) -> None:
        self.proxy = proxy
        self.client = _End(self, Direction.REQUEST)
        self.server = _End(self, Direction.ANSWER)
        self._target_port = target_port
        self._connecting: asyncio.Task[None] | None = None

    def accepted(self) -> None:
        self.proxy.opened(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def passed(self, origin: _End, data: bytes) -> None:
        other = self.server if origin is self.client else self.client
        count = self.proxy.passing(origin.direction, len(data))
        other.write(data[:count])
        if count < len(data):
            origin.abort()
            other.close()  # after what was let through

    def ended(self, origin: _End) -> None:
        other = self.server if origin is self.client else self.client
        other.close()
        self.proxy.ended(self)

    def abort(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self.client.abort()
        self.server.abort()
        self.proxy.ended(self)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.server, HOST, self._target_port)
        except OSError:
            self.abort()  # as a client of a dead server sees it: gone at once


class _End(asyncio.Protocol):
    def __init__(self, link: _Link, direction: Direction) -> None:
        self.direction = direction
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._gone = False
        self._early = bytearray()
        """What is to be written once there is a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        if self._gone:
            self._transport.abort()  # the other end left while this one connected
            return
        self._transport.write(self._early)
        self._early = bytearray()
        if self.direction is Direction.REQUEST:
            self._link.accepted()

    def data_received(self, data: bytes) -> None:
        self._link.passed(self, data)

    def connection_lost(self, _: Exception | None) -> None:
        self._gone = True
        self._link.ended(self)

    def pause_writing(self) -> None:
        self._other.pause_reading()

    def resume_writing(self) -> None:
        self._other.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
        elif data and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        self._gone = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._gone = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def _other(self) -> _End:
        return self._link.server if self is self._link.client else self._link.client
