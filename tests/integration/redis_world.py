"""What the tests of Redis share: a server of their own, queues on it, and one they may break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bench.redis_server import RedisServer
from bench.servers import HOST, wait_until
from tests.contract.queue_redis import QUICK, age_pending, direct
from triage.adapters.redis import RedisQueue
from triage.adapters.redis.queue import GROUP
from triage.clock import SystemClock
from triage.errors import QueueError
from triage.model.alert import AlertId, Severity
from triage.ports import Delivery

LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
LEASE_S = 30.0
NAME = "q"

T = TypeVar("T")


class Broken:
    """A server that tests kill, stop and empty, and the queues that go through it."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self._queues: list[RedisQueue] = []

    @property
    def server_label(self) -> str:
        return f"redis://{HOST}:{self.server.port}/0"

    def queue(self, *, url: str = "", name: str = NAME) -> RedisQueue:
        """Another process's."""
        queue = RedisQueue(url or self.server.url, name=name, lease_s=LEASE_S, clock=SystemClock())
        self._queues.append(queue)
        return queue

    @property
    @contextmanager
    def direct(self) -> Iterator[Any]:
        client = direct(self.server)
        try:
            yield client
        finally:
            client.close()

    def lapse(self, seconds: float = LEASE_S) -> None:
        with self.direct as client:
            for key in client.keys("{*}:again:*") + client.keys("{*}:work:*"):
                age_pending(client, key, GROUP, seconds)

    async def close(self) -> None:
        for queue in self._queues:
            await queue.close()


@asynccontextmanager
async def broken(folder: Path, flags: tuple[str, ...] = ()) -> AsyncIterator[Broken]:
    with RedisServer(folder, flags=(*QUICK, *flags)) as server:
        world = Broken(server)
        try:
            yield world
        finally:
            await world.close()


def ids(number: int) -> list[AlertId]:
    return [AlertId(f"{n:032x}") for n in range(number)]


def warnings(alerts: list[AlertId]) -> list[tuple[AlertId, Severity]]:
    return [(alert, Severity.WARNING) for alert in alerts]


def named(deliveries: list[Delivery]) -> list[AlertId]:
    return [delivery.alert_id for delivery in deliveries]


async def at_last(ask: Callable[[], Awaitable[T]]) -> T:
    """What it gives once the server is there again."""
    given: list[T] = []
    loop = asyncio.get_running_loop()

    async def asked() -> T:
        return await ask()

    def works() -> bool:
        try:
            given.append(asyncio.run_coroutine_threadsafe(asked(), loop).result(LONG_S))
        except QueueError:
            return False
        return True

    await asyncio.to_thread(wait_until, works, what="an answer of Redis", within_s=LONG_S)
    return given[0]


async def received(queue: RedisQueue, limit: int = 10) -> list[Delivery]:
    """Something, as soon as there is something."""
    return await at_last(lambda: queue.receive(limit=limit, wait_s=LONG_S))


async def blocked_clients(client: Any, number: int = 1) -> None:
    """Returns when so many readers wait at the server."""
    async with asyncio.timeout(LONG_S):
        while client.info("clients")["blocked_clients"] < number:  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0)


async def cancelled_after(task: asyncio.Task[Any], steps: int) -> bool:
    """Cancelled after so many turns of the loop; whether it was done before."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True
