"""Sends what decisions left in the outbox, until the sink took it or refused it for good."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

import structlog

from triage.errors import DeliveryRejected, Overloaded, StoreError, TriageError
from triage.ports import Clock, Outbox, OutboxRow, Sink
from triage.telemetry.edge_metrics import SinkCell

POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxOptions:
    """Attempt n waits `first_retry_s * 2**(n-1)`, at most `last_retry_s`, half of it at random.
    A message that failed when it is older than `max_age_s` is given up."""

    concurrency: int = 4
    first_retry_s: float = 1.0
    last_retry_s: float = 300.0
    max_age_s: float = 86_400.0


class End(Enum):
    """How one attempt to send a message ended."""

    DELIVERED = auto()
    FAILED = auto()
    UNRECORDED = auto()


class OutboxSender:
    """One sink's deliveries. `run` ends when `stop` was called and no send is under way."""

    def __init__(
        self,
        *,
        sink: Sink,
        outbox: Outbox,
        clock: Clock,
        metrics: SinkCell,
        options: OutboxOptions,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._sink = sink
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._woken = asyncio.Event()
        self._jitter = jitter
        self._stopping = False
        self._log = structlog.get_logger("triage.outbox").bind(sink=sink.name)

    def wake(self) -> None:
        """Something was committed: look now instead of at the next poll."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            try:
                rows = await self._outbox.due(
                    self._sink.name, now=self._clock.now(), limit=self._options.concurrency
                )
                if rows and await self._send_all(rows):
                    continue
            except StoreError as error:
                self._log.warning("outbox_failed", error=str(error))
            try:
                async with asyncio.timeout(POLL_S):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _send_all(self, rows: list[OutboxRow]) -> bool:
        """Whether the outbox knows how each ended. What it does not is due still, and would be
        sent again and again as fast as the receiver takes it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send(row)) for row in rows]
        ended = [task.result() for task in tasks]
        delivered = [row.row for row, end in zip(rows, ended, strict=True) if end is End.DELIVERED]
        if delivered:
            await self._outbox.delivered(delivered)
        return End.UNRECORDED not in ended

    async def _send(self, row: OutboxRow) -> End:
        began = self._clock.monotonic()
        result, end = "delivered", End.DELIVERED
        try:
            await self._sink.send(row.key, row.body)
        except DeliveryRejected as error:
            result = "rejected"
            end = await self._record_failure(row, error, None)
        except Exception as error:  # noqa: BLE001 - told below, and the message stays due
            # Also a fault of the sink's own: its message waits, the others go on.
            if not isinstance(error, TriageError | OSError):
                self._log.exception("sink_crashed", key=row.key)
            result = "retried"
            after = error.retry_after_s if isinstance(error, Overloaded) else None
            if (self._clock.now() - row.posted_at).total_seconds() > self._options.max_age_s:
                result = "given_up"
                end = await self._record_failure(row, error, None)
            else:
                end = await self._record_failure(row, error, self._retry_at(row.attempts, after))
        self._metrics.record(result, self._clock.monotonic() - began)
        return end

    async def _record_failure(
        self, row: OutboxRow, error: Exception, until: datetime | None
    ) -> End:
        """A StoreError here leaves the row due: it is sent again with the same key and body."""
        text = f"{type(error).__name__}: {error}"[:1000]
        try:
            if until is None:
                self._log.error("message_given_up", key=row.key, error=text)
                await self._outbox.give_up(row.row, error=text)
            else:
                self._log.warning("message_postponed", key=row.key, error=text)
                await self._outbox.postpone(row.row, until=until, error=text)
        except StoreError as store_error:
            self._log.warning("outbox_failed", error=str(store_error))
            return End.UNRECORDED
        return End.FAILED

    def _retry_at(self, attempts: int, retry_after_s: int | None) -> datetime:
        options = self._options
        wait = min(options.last_retry_s, options.first_retry_s * 2 ** min(attempts, 30))
        wait = wait / 2 + wait / 2 * self._jitter()
        return self._clock.now() + timedelta(seconds=max(wait, retry_after_s or 0))
