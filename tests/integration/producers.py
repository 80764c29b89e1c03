"""Producers of alerts that know nothing of triage: one for each kind of stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import nats
import redis.asyncio

from bench.nats_server import NatsServer
from bench.redis_server import RedisServer

Broker = RedisServer | NatsServer
STREAM = "floor-alerts"


class Producer(ABC):
    @abstractmethod
    async def put(self, body: bytes, headers: Mapping[str, str] | None = None) -> None: ...

    @abstractmethod
    async def unsettled(self) -> int:
        """Messages that the group `triage` was given and has not acked."""


class RedisProducer(Producer):
    def __init__(self, client: Any) -> None:
        self._client = client

    async def put(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        await self._client.xadd(STREAM, {"body": body, **(headers or {})})

    async def unsettled(self) -> int:
        pending: int = (await self._client.xpending(STREAM, "triage"))["pending"]
        return pending


class NatsProducer(Producer):
    def __init__(self, jetstream: Any) -> None:
        self._jetstream = jetstream

    async def put(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        await self._jetstream.publish("floor.alerts", body, headers=dict(headers or {}))

    async def unsettled(self) -> int:
        held = 0
        for consumer in await self._jetstream.consumers_info(STREAM):
            held += consumer.num_ack_pending or 0
        return held


@asynccontextmanager
async def producer(server: Broker) -> AsyncIterator[Producer]:
    if isinstance(server, RedisServer):
        client = redis.asyncio.from_url(server.url)
        try:
            yield RedisProducer(client)
        finally:
            await client.aclose()
        return
    connection = await nats.connect(server.url, max_reconnect_attempts=-1)
    try:
        jetstream = connection.jetstream()
        await jetstream.add_stream(name=STREAM, subjects=["floor.>"])
        yield NatsProducer(jetstream)
    finally:
        await connection.close()
