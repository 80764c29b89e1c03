"""An open-loop sender: requests leave when they are due, however late the answers are.

Arrivals are Poisson, from a seed. A request that finds every connection busy waits for one, and
that wait counts, as does the sender's own lateness: a latency begins when the request was due.
"""

from __future__ import annotations

import asyncio
import gc
import random
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench.servers import HOST

T = TypeVar("T")

CONNECTIONS = 128  # kept alive; below the daemon's own limit of requests at once
ANSWER_S = 20.0  # seconds the last answers may take
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(slots=True)
class Sent:
    """One request. Times are seconds of `time.time`; `status` is 0 while nothing was answered."""

    n: int
    due: float
    left: float = 0.0
    answered: float = 0.0
    status: int = 0
    body: bytes = b""


@dataclass(slots=True)
class _Pool:
    idle: list[_Connection] = field(default_factory=list)
    waiting: deque[tuple[Sent, bytes]] = field(default_factory=deque)
    open: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    unanswered: int = 0


class _Connection(asyncio.Protocol):
    """One request at a time. An answer is a head with Content-Length and as many bytes."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._sent: Sent | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pool.open += 1
        self._free()

    def send(self, sent: Sent, request: bytes) -> None:
        assert self._transport is not None
        self._sent = sent
        self._received.clear()
        sent.left = time.time()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = bytes(self._received).partition(_END_OF_HEAD)
        if not end:
            return
        _, _, length = head.lower().partition(_LENGTH)
        if len(body) >= int(length.split(b"\r", 1)[0]):
            self._answer(int(head.split(b" ", 2)[1]), body)
            self._free()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._pool.open -= 1
        if self in self._pool.idle:
            self._pool.idle.remove(self)
        self._answer(0, b"")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, status: int, body: bytes) -> None:
        sent, self._sent = self._sent, None
        if sent is None:
            return
        sent.answered, sent.status, sent.body = time.time(), status, body
        self._pool.unanswered -= 1
        if not self._pool.unanswered:
            self._pool.done.set()

    def _free(self) -> None:
        if self._pool.waiting:
            self.send(*self._pool.waiting.popleft())
        else:
            self._pool.idle.append(self)


def arrivals(rate_per_s: float, seconds: float, seed: int) -> list[float]:
    """Seconds from the start at which requests are due."""
    draw = random.Random(seed)
    due, moments = draw.expovariate(rate_per_s), []
    while due < seconds:
        moments.append(due)
        due += draw.expovariate(rate_per_s)
    return moments


async def send_all(
    port: int, moments: Sequence[float], request: Callable[[int], bytes], first: int
) -> list[Sent]:
    """Sends request `first`, `first + 1`, … at `moments`; returns when all are answered, or
    `ANSWER_S` after the last was due: then what has no answer has status 0."""
    loop = asyncio.get_running_loop()
    pool = _Pool()
    connections: list[_Connection] = []
    try:
        for _ in range(min(CONNECTIONS, max(4, len(moments)))):
            _, connection = await loop.create_connection(lambda: _Connection(pool), HOST, port)
            connections.append(connection)
        requests = [request(first + index) for index in range(len(moments))]
        pool.unanswered = len(moments)
        began = time.time() + 0.05
        sent = [Sent(first + index, began + due) for index, due in enumerate(moments)]
        for one, body in zip(sent, requests, strict=True):
            ahead = one.due - time.time()
            # Even when it is late: else the answers would not be read while it catches up.
            await asyncio.sleep(max(0.0, ahead))
            if pool.idle:
                pool.idle.pop().send(one, body)
            else:
                pool.waiting.append((one, body))
        try:
            async with asyncio.timeout(ANSWER_S):
                await pool.done.wait()
        except TimeoutError:
            pool.waiting.clear()
        return sent
    finally:
        for connection in connections:
            connection.close()


def run_precisely(main: Coroutine[Any, Any, T]) -> T:
    """Runs it on a loop that wakes up to the microsecond: `epoll`, which asyncio would use, waits
    whole milliseconds, and that would be most of an unloaded latency. Nothing is collected."""
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
        ) as runner:
            return runner.run(main)
    finally:
        gc.enable()
