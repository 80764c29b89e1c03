"""The Redis queue's world: a lease passes when the server is told how long an entry was idle."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import redis

from bench.redis_server import RedisServer
from tests.contract.queue_worlds import Ground, World
from tests.contract.store_world import HandClock
from triage.adapters.redis import RedisQueue
from triage.adapters.redis.queue import GROUP

QUICK = ("--appendfsync", "no")
"""What a killed server wrote is in the kernel's hands and survives; only a crash of the machine
would lose it. No test waits for a disk that others keep busy."""


class RedisWorld(World):
    def __init__(self, server: RedisServer, name: str) -> None:
        self.clock = HandClock()
        self.name = name
        self.server = server
        self.direct = direct(server)
        self.queue = self.opened_again()
        self.other = self.opened_again()

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[RedisServer]:
        with RedisServer(folder, flags=QUICK) as server:
            yield server

    @classmethod
    @asynccontextmanager
    async def opened(cls, ground: Ground) -> AsyncIterator[RedisWorld]:
        # A name of its own: tests share the server, and nothing on it.
        world = cls(ground.server, f"q{secrets.token_hex(4)}")
        try:
            yield world
        finally:
            await world.queue.close()
            await world.other.close()
            world.direct.close()

    def opened_again(self) -> RedisQueue:
        return RedisQueue(self.server.url, name=self.name, lease_s=self.lease_s, clock=self.clock)

    async def lapse(self, share: float = 1.0) -> None:
        self.age(share * self.lease_s)

    async def pass_delay(self) -> None:
        for key in self.keys("later"):
            for member, due in self.direct.zrange(key, 0, -1, withscores=True):
                self.direct.zadd(key, {member: due - self.delay_s * 1000})

    def keys(self, kind: str) -> list[str]:
        found = self.direct.keys(f"{{{self.name}}}:{kind}:*")
        return sorted(key.decode() for key in found)

    def age(self, seconds: float) -> None:
        for key in [*self.keys("again"), *self.keys("work")]:
            age_pending(self.direct, key, GROUP, seconds)


def direct(server: RedisServer) -> Any:
    """A client beside the adapter's."""
    return redis.Redis(port=server.port, protocol=2)


def age_pending(client: Any, key: str, group: str, seconds: float) -> None:
    """As if `seconds` more had passed since each pending entry was delivered."""
    for entry in client.xpending_range(key, group, "-", "+", 10_000):
        client.xclaim(
            *(key, group, entry["consumer"], 0, [entry["message_id"]]),
            idle=int(entry["time_since_delivered"] + seconds * 1000),
            retrycount=entry["times_delivered"],
            justid=True,
        )
