"""A world for every queue: the queue, and how time passes for its server.

Each backend has one `World` in a module of its own, which is imported when its tests run. A lease
passes without waiting for it where the server can be told so (`lapse`).
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.contract.store_world import HandClock, arrival, migrated
from triage.adapters.store import Store
from triage.model.alert import AlertId, Severity, occurrence_id
from triage.ports import Clock, Delivery, Queue

_WORLDS = {
    "sqlite": ("tests.contract.queue_worlds", "SqliteWorld"),
    "redis": ("tests.contract.queue_redis", "RedisWorld"),
    "nats": ("tests.contract.queue_nats", "NatsWorld"),
}
WAIT_S = 60.0
"""For what must come: no assertion depends on how soon."""


def backends() -> list[str]:
    """The names of those that the suite runs on."""
    return [name for name, (module, _) in _WORLDS.items() if find_spec(module) is not None]


def world_class(backend: str) -> type[World]:
    module, name = _WORLDS[backend]
    found: type[World] = getattr(importlib.import_module(module), name)
    return found


@dataclass(frozen=True, slots=True)
class Ground:
    """What a world stands on: a folder of its own, and what `running` gave."""

    folder: Path
    server: Any


class World(ABC):
    """One queue, empty at first. `other` is the same queue as another process has it open; it may
    be `queue` itself where there is only ever one process."""

    lease_s: float = 30.0
    delay_s: float = 5.0
    """What returned deliveries are delayed by."""

    queue: Queue
    other: Queue
    clock: Clock

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Any]:
        """The server, started once for the tests of a module; where there is none, just the
        folder. Raises MissingServer."""
        yield folder

    @classmethod
    @abstractmethod
    def opened(cls, ground: Ground) -> AbstractAsyncContextManager[World]:
        """A new world; closed when the test ends."""

    @abstractmethod
    async def lapse(self, share: float = 1.0) -> None:
        """A `share` of the lease passes for what is held now. 1 and more: its leases have ended;
        tests ask for no share so near to 1 that a slow machine would end them as well."""

    @abstractmethod
    async def pass_delay(self) -> None:
        """`delay_s` passes for what was returned with it."""

    async def alert(self, fingerprint: str, severity: Severity = Severity.WARNING) -> AlertId:
        """Accepted, not yet published."""
        return occurrence_id("alertmanager", "", fingerprint, 1)

    async def publish(self, fingerprint: str, severity: Severity = Severity.WARNING) -> AlertId:
        alert_id = await self.alert(fingerprint, severity)
        await self.queue.publish([(alert_id, severity)])
        return alert_id

    async def receive(self, limit: int = 10) -> list[Delivery]:
        """What is there now."""
        return await self.queue.receive(limit=limit, wait_s=0)


class SqliteWorld(World):
    """The embedded queue, with the store whose pending alerts it is told of."""

    clock: HandClock

    def __init__(self, store: Store, clock: HandClock) -> None:
        self.store = store
        self.clock = clock
        self.queue = self.other = store.queue

    @classmethod
    @asynccontextmanager
    async def opened(cls, ground: Ground) -> AsyncIterator[SqliteWorld]:
        clock = HandClock()
        store = await Store.open(
            migrated(ground.folder / "triage.db"),
            clock=clock,
            lease_s=cls.lease_s,
            embedded_queue=False,
        )
        try:
            yield cls(store, clock)
        finally:
            await store.close()

    async def lapse(self, share: float = 1.0) -> None:
        self.clock.advance(share * self.lease_s)

    async def pass_delay(self) -> None:
        self.clock.advance(self.delay_s)

    async def alert(self, fingerprint: str, severity: Severity = Severity.WARNING) -> AlertId:
        [answer] = await self.store.alerts.accept([arrival(fingerprint, severity=severity)])
        assert answer.alert_id is not None
        return answer.alert_id
