"""A world for every kind of producers' stream. See `queue_worlds`, which is the same for queues."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.contract.queue_worlds import Ground
from triage.ports import Stream, StreamMessage

_WORLDS = {
    "redis": ("tests.contract.stream_redis", "RedisStreamWorld"),
    "nats": ("tests.contract.stream_nats", "NatsStreamWorld"),
}


def backends() -> list[str]:
    """The names of those that the suite runs on."""
    return [name for name, (module, _) in _WORLDS.items() if find_spec(module) is not None]


def world_class(backend: str) -> type[StreamWorld]:
    module, name = _WORLDS[backend]
    found: type[StreamWorld] = getattr(importlib.import_module(module), name)
    return found


class StreamWorld(ABC):
    """A producer and its stream, empty at first. `stream` and `other` are two replicas' consumers
    of one group; neither has received anything yet."""

    lease_s: float = 30.0
    delay_s: float = 5.0

    stream: Stream
    other: Stream

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Any]:
        """The server, started once for the tests of a module. Raises MissingServer."""
        yield folder

    @classmethod
    @abstractmethod
    def opened(cls, ground: Ground) -> AbstractAsyncContextManager[StreamWorld]:
        """A new world; closed when the test ends."""

    @abstractmethod
    async def produce(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """As a producer does, which knows nothing of triage."""

    @abstractmethod
    async def left(self) -> int:
        """Messages that the group has not acked: held ones, and those still to come."""

    @abstractmethod
    async def lapse(self, share: float = 1.0) -> None:
        """A `share` of the lease passes for what is held now. 1 and more: its leases have ended;
        tests ask for no share so near to 1 that a slow machine would end them as well."""

    @abstractmethod
    async def pass_delay(self) -> None:
        """`delay_s` passes for what was released with it."""

    async def receive(self, limit: int = 10) -> list[StreamMessage]:
        """What is there now."""
        return await self.stream.receive(limit=limit, wait_s=0)
