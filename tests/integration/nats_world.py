"""NATS servers, queues and streams for the integration tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.js import JetStreamContext

from bench.nats_server import NatsServer
from tests.contract.queue_nats import ShiftedClock
from triage.adapters.nats import NatsQueue, NatsStream
from triage.errors import QueueError
from triage.model.alert import AlertId, Severity, occurrence_id
from triage.ports import Delivery

NAME = "triage"
LEASE_S = 30.0
WAIT_S = 60.0
"""For what must come: no assertion depends on how soon."""
BOUND_S = 20.0
"""For what must end by itself: a few seconds, and many on a loaded machine."""

Entry = tuple[AlertId, Severity]


def entry(number: int, severity: Severity = Severity.WARNING) -> Entry:
    return AlertId(occurrence_id("alertmanager", "", str(number), 1)), severity


def entries(count: int) -> list[Entry]:
    return [entry(number) for number in range(count)]


def ids(deliveries: Sequence[Delivery]) -> list[AlertId]:
    return [delivery.alert_id for delivery in deliveries]


@asynccontextmanager
async def opened_queue(
    url: str, *, name: str = NAME, lease_s: float = LEASE_S, clock: ShiftedClock | None = None
) -> AsyncIterator[NatsQueue]:
    queue = NatsQueue(url=url, name=name, lease_s=lease_s, clock=clock or ShiftedClock())
    try:
        yield queue
    finally:
        await queue.close()


@asynccontextmanager
async def opened_stream(url: str, **options: Any) -> AsyncIterator[NatsStream]:
    given: dict[str, Any] = {
        "name": "alerts",
        "stream": "ALERTS",
        "group": NAME,
        "lease_s": LEASE_S,
    }
    stream = NatsStream(url=url, clock=ShiftedClock(), **(given | options))
    try:
        yield stream
    finally:
        await stream.close()


@asynccontextmanager
async def administered(url: str) -> AsyncIterator[JetStreamContext]:
    """JetStream as a person has it who works on the server."""
    client = await nats.connect(url)
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def received(queue: NatsQueue, count: int) -> list[Delivery]:
    """So many, over as many calls as it takes."""
    got: list[Delivery] = []
    while len(got) < count:
        got += await queue.receive(limit=count - len(got), wait_s=WAIT_S)
    return got


async def in_the_end(operation: Callable[[], Any]) -> Any:
    """What it returns once it does not raise QueueError any more, as for a worker that tries
    again and again."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await operation()
            except QueueError:
                await asyncio.sleep(0)


async def refused(operation: Callable[[], Any]) -> str:
    """What the QueueError says that it ends with, within BOUND_S."""
    async with asyncio.timeout(BOUND_S):
        try:
            await operation()
        except QueueError as error:
            return str(error)
    raise AssertionError("it did not fail")


async def steps(count: int) -> None:
    """So many iterations of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def made(folder: Path, **options: Any) -> NatsServer:
    return NatsServer(folder / "nats", **options)
