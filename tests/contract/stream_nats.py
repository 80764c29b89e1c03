"""Producers' streams on a real NATS server. Leases pass as in `queue_nats`."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from bench.nats_server import NatsServer
from tests.contract.queue_nats import ShiftedClock
from tests.contract.queue_worlds import WAIT_S, Ground
from tests.contract.stream_contract import StreamWorld
from triage.adapters.nats import NatsStream

GROUP = "triage"
_NUMBERS = itertools.count()


class NatsStreamWorld(StreamWorld):
    lease_s = 4.0
    delay_s = 1.5

    def __init__(self, producer: Client, name: str, server: NatsServer) -> None:
        self.clock = ShiftedClock()
        self._jetstream = producer.jetstream()
        self._name = name
        self.stream, self.other = (
            NatsStream(
                url=server.url,
                name="alerts",
                stream=name,
                group=GROUP,
                lease_s=self.lease_s,
                clock=self.clock,
            )
            for _ in range(2)
        )

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[NatsServer]:
        with NatsServer(folder) as server:
            yield server

    @classmethod
    @asynccontextmanager
    async def opened(cls, ground: Ground) -> AsyncIterator[NatsStreamWorld]:
        name = f"ALERTS{next(_NUMBERS)}"
        producer = await nats.connect(ground.server.url)
        world = cls(producer, name, ground.server)
        try:
            await producer.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
            yield world
        finally:
            await world.stream.close()
            await world.other.close()
            await producer.close()

    async def produce(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        await self._jetstream.publish(
            f"{self._name}.site", body, headers=dict(headers) if headers else None
        )

    async def left(self) -> int:
        try:
            info = await self._jetstream.consumer_info(self._name, GROUP)
        except NotFoundError:
            return (await self._jetstream.stream_info(self._name)).state.messages
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def lapse(self, share: float = 1.0) -> None:
        if share >= 1:
            self.clock.shift_s += share * self.lease_s

    async def pass_delay(self) -> None:
        released = await self.other.receive(limit=1, wait_s=WAIT_S)
        await self.other.release(released)
