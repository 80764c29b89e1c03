"""From `[queue]` and `[streams.NAME]` sections to a queue and to consumers of streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from triage.app.data_folder import DataFolder
from triage.app.delivery_sections import QueueSection, StreamSection
from triage.intake.fields import FieldMap
from triage.ports import AlertLog, Clock, DeadLetterLog, Queue, Stream
from triage.telemetry.metrics import Metrics
from triage.worker.backoff import TROUBLE
from triage.worker.messages import StreamOptions
from triage.worker.streams import StreamConsumer
from triage.worker.suspects import Suspects

NATS = ("nats://", "tls://")
ASK_S = 2.0  # seconds a queue may take to say how much it holds


def make_queue(section: QueueSection, *, lease_s: float, clock: Clock) -> Queue | None:
    """Not connected yet: a broker that is away does not stop a start. None for the store's own.
    Raises ConfigError, also for want of a package."""
    if section.is_embedded:
        return None
    url = section.address
    if url.startswith(NATS):
        from triage.adapters.nats import NatsQueue

        return NatsQueue(url=url, name=section.name, lease_s=lease_s, clock=clock)
    from triage.adapters.redis import RedisQueue

    return RedisQueue(url=url, name=section.name, lease_s=lease_s, clock=clock)


def make_stream(name: str, section: StreamSection, clock: Clock) -> Stream:
    """Not connected yet. Raises ConfigError, also for want of a package."""
    url = section.address
    if url.startswith(NATS):
        from triage.adapters.nats import NatsStream

        return NatsStream(
            url=url,
            name=name,
            stream=section.stream,
            subject=section.subject,
            group=section.group,
            lease_s=section.lease_s,
            clock=clock,
        )
    from triage.adapters.redis import RedisStream

    return RedisStream(
        url=url,
        stream=section.stream,
        group=section.group,
        lease_s=section.lease_s,
        body_field=section.body_field,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """What every consumer of a stream works with."""

    alerts: AlertLog
    queue: Queue
    dead_letters: DeadLetterLog
    field_map: Callable[[str], FieldMap | None]
    data: DataFolder
    clock: Clock
    metrics: Metrics
    max_body_bytes: int

    def consumer(self, name: str, section: StreamSection, stream: Stream) -> StreamConsumer:
        return StreamConsumer(
            stream=stream,
            alerts=self.alerts,
            queue=self.queue,
            bury=self.dead_letters.bury,
            field_map=self.field_map,
            suspects=Suspects(self.data.suspect(name)),
            clock=self.clock,
            metrics=self.metrics.deliveries.stream(name),
            intake=self.metrics.intake.cell(section.format),
            options=StreamOptions(
                name=name,
                format=section.format,
                integration=section.integration,
                tenant=section.tenant,
                batch=section.batch,
                max_deliveries=section.max_deliveries,
                max_body_bytes=self.max_body_bytes,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Queue and streams of one run, as readiness and metrics see them."""

    queue: Queue
    consumers: Sequence[StreamConsumer]
    metrics: Metrics

    async def queue_trouble(self) -> str:
        """Why the queue does nothing, empty while it works. It is asked: nothing else may have
        used it for a while."""
        return (await self._ask())[1]

    def streams(self) -> Mapping[str, str]:
        return {consumer.name: consumer.trouble or "ok" for consumer in self.consumers}

    async def observe(self) -> None:
        """Bring the metrics up to date."""
        metrics = self.metrics.deliveries
        depth, trouble = await self._ask()
        metrics.entries.update(depth)
        metrics.queue_up.labels().set(0.0 if trouble else 1.0)
        for consumer in self.consumers:
            metrics.stream(consumer.name).up(works=not consumer.trouble)

    async def _ask(self) -> tuple[Mapping[str, int] | None, str]:
        try:
            async with asyncio.timeout(ASK_S):
                depth = await self.queue.depth()
        except TimeoutError:
            return None, self.queue.trouble or f"did not answer within {ASK_S:g} s"
        except TROUBLE as error:
            return None, str(error)
        return depth, self.queue.trouble
