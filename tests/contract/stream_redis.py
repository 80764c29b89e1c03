"""The world of a producers' stream on Redis. A lease passes as in `queue_redis`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from bench.redis_server import RedisServer
from tests.contract.queue_redis import QUICK, age_pending, direct
from tests.contract.queue_worlds import Ground
from tests.contract.stream_contract import StreamWorld
from triage.adapters.redis import RedisStream

GROUP = "triage"


class RedisStreamWorld(StreamWorld):
    def __init__(self, server: RedisServer, key: str) -> None:
        self.key = key
        self.server = server
        self.direct = direct(server)
        self.stream = self.opened_again()
        self.other = self.opened_again()

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[RedisServer]:
        with RedisServer(folder, flags=QUICK) as server:
            yield server

    @classmethod
    @asynccontextmanager
    async def opened(cls, ground: Ground) -> AsyncIterator[RedisStreamWorld]:
        world = cls(ground.server, f"alerts-{secrets.token_hex(4)}")
        try:
            yield world
        finally:
            await world.stream.close()
            await world.other.close()
            world.direct.close()

    def opened_again(self) -> RedisStream:
        return RedisStream(
            self.server.url, stream=self.key, group=GROUP, lease_s=self.lease_s, body_field="body"
        )

    async def produce(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.direct.xadd(self.key, {"body": body, **(headers or {})})

    async def left(self) -> int:
        held: int = self.direct.xpending(self.key, GROUP)["pending"]
        [group] = self.direct.xinfo_groups(self.key)
        unread = self.direct.xrange(self.key, min=b"(" + group["last-delivered-id"])
        return held + len(unread)

    async def lapse(self, share: float = 1.0) -> None:
        age_pending(self.direct, self.key, GROUP, share * self.lease_s)

    async def pass_delay(self) -> None:
        age_pending(self.direct, self.key, GROUP, self.delay_s)
