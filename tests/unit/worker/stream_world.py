"""A stream, a store and a consumer between them, in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from tests.unit.evaluation.virtual_time import LoopClock
from tests.unit.worker.fakes import Record
from triage.errors import TriageError
from triage.intake.fields import default_field_maps
from triage.model.alert import Accepted, AcceptStatus, AlertId, Arrival, occurrence_id
from triage.ports import DeadLetter, StreamMessage
from triage.telemetry.metrics import Metrics
from triage.worker.messages import StreamOptions
from triage.worker.streams import StreamConsumer
from triage.worker.suspects import Suspects

LEASE_S = 30.0
NAME = "floor"


def native(number: int, **more: Any) -> dict[str, Any]:
    return {"alarm": "al", "fired_at": "2026-03-01T11:59:00Z", "id": f"a{number}", **more}


def body(*alerts: Mapping[str, Any]) -> bytes:
    return orjson.dumps(alerts[0] if len(alerts) == 1 else list(alerts))


@dataclass(slots=True)
class Kept:
    message: StreamMessage
    available_at: float = 0.0


class FakeStream:
    """Implements `ports.Stream` on the running loop's time. `failures` as in `Record`."""

    name = "producers' own"
    label = "fake stream"

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.acked: list[str] = []
        self.released: list[tuple[str, float]] = []
        self.receives: list[float] = []
        self.trouble = ""
        self.failures: dict[str, list[Exception]] = {}
        self._changed = asyncio.Event()

    def put(
        self, content: bytes, headers: Mapping[str, str] | None = None, *, deliveries: int = 0
    ) -> str:
        """`deliveries` that it has had before."""
        message_id = f"{len(self.kept) + len(self.acked) + 1}-0"
        self.kept[message_id] = Kept(
            StreamMessage(
                message_id=message_id,
                token="",
                body=content,
                headers=headers or {},
                deliveries=deliveries,
            )
        )
        self._changed.set()
        return message_id

    async def receive(self, *, limit: int, wait_s: float) -> list[StreamMessage]:
        self.receives.append(_now())
        self._fail("receive")
        ends = _now() + wait_s
        while True:
            self._changed.clear()
            got: list[StreamMessage] = []
            for kept in self.kept.values():
                if kept.available_at <= _now() and len(got) < limit:
                    deliveries = kept.message.deliveries + 1
                    kept.message = replace(kept.message, deliveries=deliveries)
                    kept.available_at = _now() + LEASE_S
                    got.append(kept.message)
            left = ends - _now()
            if got or left <= 0:
                return got
            soonest = min((kept.available_at for kept in self.kept.values()), default=ends)
            try:
                async with asyncio.timeout(min(left, max(0.0, soonest - _now()) or left)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def ack(self, messages: Sequence[StreamMessage]) -> None:
        self._fail("ack")
        for message in messages:
            if self.kept.pop(message.message_id, None) is not None:
                self.acked.append(message.message_id)

    async def release(self, messages: Sequence[StreamMessage], *, delay_s: float = 0) -> None:
        self._fail("release")
        for message in messages:
            self.released.append((message.message_id, delay_s))
            self.kept[message.message_id].available_at = _now() + delay_s
        self._changed.set()

    async def weaknesses(self) -> list[str]:
        return []

    async def close(self) -> None:
        """Nothing is open."""

    def _fail(self, method: str) -> None:
        left = self.failures.get(method)
        error = left.pop(0) if left else None
        self.trouble = str(error) if isinstance(error, TriageError) else ""
        if error is not None:
            raise error


class Shelf(Record):
    """A `Record` that accepts, and in which dead letters lie. `refused` maps a fingerprint to
    what accepting it raises, every time."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, AlertId] = {}
        self.buried: dict[str, DeadLetter] = {}
        self.refused: dict[str, Exception] = {}
        self.transactions: list[int] = []

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        await asyncio.sleep(0)
        self.fail("accept")
        for arrival in arrivals:
            if arrival.fingerprint in self.refused:
                raise self.refused[arrival.fingerprint]
        self.transactions.append(len(arrivals))
        return [self._take(arrival) for arrival in arrivals]

    def _take(self, arrival: Arrival) -> Accepted:
        if arrival.delivery_key in self.keys:
            return Accepted(alert_id=self.keys[arrival.delivery_key], status=AcceptStatus.DUPLICATE)
        if arrival.starts_at_ns is None:
            return Accepted(alert_id=None, status=AcceptStatus.RECORDED)
        alert_id = occurrence_id(
            arrival.integration, arrival.tenant, arrival.fingerprint, arrival.starts_at_ns
        )
        self.keys[arrival.delivery_key] = alert_id
        known = alert_id in self.rows
        if not known:
            self.add(alert_id, enqueue=False, severity=arrival.severity)
        status = AcceptStatus.KNOWN if known else AcceptStatus.NEW
        return Accepted(alert_id=alert_id, status=status, severity=arrival.severity)

    async def bury(self, message: DeadLetter) -> bool:
        await asyncio.sleep(0)
        self.fail("bury")
        if message.dead_letter_id in self.buried:
            return False
        self.buried[message.dead_letter_id] = message
        return True


@dataclass(slots=True, kw_only=True)
class StreamBench:
    folder: Path
    options: StreamOptions = field(
        default_factory=lambda: StreamOptions(name=NAME, format="native", max_body_bytes=2000)
    )
    shelf: Shelf = field(default_factory=Shelf)
    stream: FakeStream = field(default_factory=FakeStream)
    metrics: Metrics = field(
        default_factory=lambda: Metrics.register(version="test", monotonic=lambda: 0.0)
    )

    @property
    def note(self) -> Path:
        return self.folder / "suspect.json"

    @property
    def letters(self) -> list[DeadLetter]:
        return list(self.shelf.buried.values())

    def consumer(self) -> StreamConsumer:
        return StreamConsumer(
            stream=self.stream,
            alerts=self.shelf,
            queue=self.shelf.queue,
            bury=self.shelf.bury,
            field_map=default_field_maps().get,
            suspects=Suspects(self.note),
            clock=LoopClock(),
            metrics=self.metrics.deliveries.stream(NAME),
            intake=self.metrics.intake.cell(self.options.format),
            options=self.options,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StreamConsumer]:
        """The consumer runs inside, and is stopped and done after it."""
        consumer = self.consumer()
        task = asyncio.create_task(consumer.run())
        try:
            yield consumer
            consumer.stop()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def results(self) -> dict[str, float]:
        """How many messages ended in which way, those that some did."""
        name = "triage_stream_messages_total"
        return {
            sample.labels["result"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name and sample.value
        }


def _now() -> float:
    return asyncio.get_running_loop().time()
