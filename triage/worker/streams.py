"""Alerts that producers put on a stream of their own: durable here first, acked there then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from triage.errors import Overloaded, PayloadError, StoreError
from triage.intake.fields import FieldMap
from triage.ports import AlertLog, Clock, DeadLetter, Queue, Stream, StreamMessage
from triage.telemetry.delivery_metrics import (
    ACCEPTED,
    ATTEMPTS_USED_UP,
    PARTLY_REJECTED,
    RELEASED,
    TOO_LARGE,
    UNDECODABLE,
    StreamCell,
)
from triage.telemetry.edge_metrics import IntakeCell
from triage.worker.accepting import count, publish_new
from triage.worker.backoff import TROUBLE, Backoff, pause
from triage.worker.messages import (
    Batch,
    Read,
    StreamOptions,
    dead_letter,
    read,
    rejections,
    too_large,
)
from triage.worker.suspects import Suspects

RECEIVE_WAIT_S = 1.0
RETRY_DELAY_S = 1.0
ARRIVALS_AT_ONCE = 1_000  # in one transaction, but for a message that alone has more
PROCESSES_ENDED = 2  # in a row; one may be a kill that just happened to come then
STORE_TRIES = 3  # failures in a row that are the store's, not the messages'


class StreamConsumer:
    """`run` takes messages until `stop`; then it ends when those in hand are settled.

    Each is acked once its alerts are durable, or once it is a dead letter. While the store is in
    trouble or full, messages are released and none are received: the stream is where they wait.
    Once delivered oftener than `max_deliveries` a message is taken alone, after the others of its
    batch, so that it can spoil nothing but itself. What SNS signed for HTTPS is not verified here:
    whoever may write to the stream is vouched for by its broker.
    """

    def __init__(
        self,
        *,
        stream: Stream,
        alerts: AlertLog,
        queue: Queue,
        bury: Callable[[DeadLetter], Awaitable[bool]],
        field_map: Callable[[str], FieldMap | None],
        suspects: Suspects,
        clock: Clock,
        metrics: StreamCell,
        intake: IntakeCell,
        options: StreamOptions,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`bury` is that of `ports.DeadLetterLog`."""
        self._stream = stream
        self._alerts = alerts
        self._queue = queue
        self._bury_letter = bury
        self._field_map = field_map
        self._suspects = suspects
        self._clock = clock
        self._metrics = metrics
        self._intake = intake
        self._options = options
        self._stopping = asyncio.Event()
        self._broker_backoff = Backoff(jitter=jitter)
        self._store_backoff = Backoff(jitter=jitter)
        self._held_up = ""
        self._log = structlog.get_logger("triage.streams").bind(stream=options.name)

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def trouble(self) -> str:
        """Why no messages are taken, empty while they are."""
        return self._stream.trouble or self._held_up

    def stop(self) -> None:
        """Take no more messages."""
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                messages = await self._stream.receive(
                    limit=self._options.batch, wait_s=RECEIVE_WAIT_S
                )
            except TROUBLE as error:
                self._log.warning("stream_receive_failed", error=str(error))
                await pause(self._broker_backoff.next_s(), self._stopping)
                continue
            self._broker_backoff.reset()
            if self._stopping.is_set():
                await self._settle(Batch(released=list(messages)))
                return
            batch = await self._take(messages)
            await self._settle(batch)
            if batch.wait_s:
                await pause(batch.wait_s, self._stopping)

    async def _take(self, messages: Sequence[StreamMessage]) -> Batch:
        batch = Batch()
        limit = self._options.max_deliveries
        group: list[Read] = []
        arrivals = 0
        for message in messages:
            one = await self._read(message, batch) if message.deliveries <= limit else None
            if one is not None:
                group.append(one)
                arrivals += len(one.parsed.arrivals)
            if arrivals >= ARRIVALS_AT_ONCE:
                await self._accept_all(group, batch)
                group, arrivals = [], 0
        await self._accept_all(group, batch)
        await self._take_worn([one for one in messages if one.deliveries > limit], batch)
        self._held_up = batch.held_up
        if not batch.held_up:
            self._store_backoff.reset()
        return batch

    async def _read(self, message: StreamMessage, batch: Batch) -> Read | None:
        """None when the message is settled already: there is no alert in it."""
        options = self._options
        if len(message.body) > options.max_body_bytes:
            detail = too_large(message, options.max_body_bytes)
            await self._bury(message, batch, TOO_LARGE, detail)
            return None
        field_map = self._field_map(options.format) or FieldMap()
        try:
            return read(message, options, field_map, self._clock.now())
        except PayloadError as error:
            self._intake.rejected()
            await self._bury(message, batch, UNDECODABLE, str(error))
        except Exception as error:  # noqa: BLE001 - logged with its traceback, and bounded
            await self._fail(message, batch, error)
        return None

    # --- making durable ---------------------------------------------------------------------------

    async def _accept_all(self, group: Sequence[Read], batch: Batch) -> None:
        if not batch.held_up:
            try:
                await self._accept(group, batch)
            except StoreError as error:
                self._hold_up(error, batch)
            else:
                return
        for one in group:
            self._release(one.message, batch)

    async def _accept(self, group: Sequence[Read], batch: Batch) -> None:
        """Raises StoreError when the store took none of them; then nothing is in `batch` yet."""
        try:
            answers = await self._alerts.accept([a for one in group for a in one.parsed.arrivals])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - logged with its traceback, and bounded
            if len(group) == 1:
                await self._fail(group[0].message, batch, error)
                return
            # One of them is more than the store can bear: the others are taken without it.
            for one in group:
                await self._accept_all([one], batch)
            return
        await publish_new(self._queue, answers)
        at = 0
        for message, parsed in group:
            its = answers[at : (at := at + len(parsed.arrivals))]
            count(self._intake, self._options.format, parsed, its)
            if parsed.rejected:
                await self._bury(message, batch, PARTLY_REJECTED, rejections(parsed))
            else:
                self._metrics.message(ACCEPTED)
                batch.acked.append(message)

    # --- messages that keep coming ----------------------------------------------------------------

    async def _take_worn(self, messages: Sequence[StreamMessage], batch: Batch) -> None:
        """One by one. What the store refuses although it takes others is given up: the fault is
        its own."""
        doubtful: list[tuple[Read, StoreError]] = []
        store_works = bool(batch.acked)
        failures = 0
        for message in messages:
            if failures == STORE_TRIES:
                self._release(message, batch)
                continue
            found = await self._take_alone(message, batch)
            if found is None:
                store_works, failures = True, 0
            else:
                doubtful.append(found)
                failures += 1
        for one, first in doubtful:
            # Once more, now that the store has been seen to work: it may have come back since.
            again = await self._take_alone(one.message, batch) if store_works else (one, first)
            if again is None:
                continue
            error = again[1]
            if store_works and not isinstance(error, Overloaded):
                detail = (
                    f"delivered {one.message.deliveries} times, and the store, which took other"
                    f" messages, did not take this one: {error}"
                )
                await self._bury(one.message, batch, ATTEMPTS_USED_UP, detail)
            else:
                self._hold_up(error, batch)
                self._release(one.message, batch)

    async def _take_alone(
        self, message: StreamMessage, batch: Batch
    ) -> tuple[Read, StoreError] | None:
        """What the store said when it did not take it; None once the message is settled."""
        with self._noted(message) as ended:
            if ended >= PROCESSES_ENDED:
                detail = f"{ended} processes in a row ended while they took this message"
                await self._bury(message, batch, ATTEMPTS_USED_UP, detail)
                return None
            one = await self._read(message, batch)
            if one is not None:
                try:
                    await self._accept([one], batch)
                except StoreError as error:
                    return one, error
            return None

    @contextmanager
    def _noted(self, message: StreamMessage) -> Iterator[int]:
        """How many processes in a row ended while they took the message; this one may be next."""
        ended = 0
        try:
            ended = self._suspects.enter(message.message_id)
        except OSError as error:
            self._log.warning("suspect_not_noted", error=str(error))
        try:
            yield ended
        finally:
            try:
                self._suspects.leave()
            except OSError as error:
                self._log.warning("suspect_not_noted", error=str(error))

    # --- endings ----------------------------------------------------------------------------------

    async def _fail(self, message: StreamMessage, batch: Batch, error: Exception) -> None:
        self._log.error(
            "message_crashed",
            message_id=message.message_id,
            deliveries=message.deliveries,
            exc_info=error,
        )
        if message.deliveries < self._options.max_deliveries:
            self._release(message, batch)
            return
        detail = (
            f"delivered {message.deliveries} times, the last of which ended with"
            f" {type(error).__name__}: {error}"
        )
        await self._bury(message, batch, ATTEMPTS_USED_UP, detail)

    async def _bury(self, message: StreamMessage, batch: Batch, reason: str, detail: str) -> None:
        letter = dead_letter(
            message, self._options, reason=reason, detail=detail, at=self._clock.now()
        )
        try:
            await self._bury_letter(letter)
        except StoreError as error:
            self._hold_up(error, batch)
            self._release(message, batch)
            return
        except Exception:  # noqa: BLE001 - logged with its traceback; it must not stop the others
            self._log.exception("bury_crashed", message_id=message.message_id)
            self._release(message, batch)
            return
        self._log.warning(
            "message_buried", message_id=message.message_id, reason=reason, detail=detail
        )
        self._metrics.message(reason)
        batch.acked.append(message)

    def _hold_up(self, error: StoreError, batch: Batch) -> None:
        if batch.held_up:
            return
        self._log.warning("stream_held_up", error=str(error))
        wait_s = self._store_backoff.next_s()
        batch.wait_s = error.retry_after_s if isinstance(error, Overloaded) else wait_s
        batch.held_up = str(error) or type(error).__name__

    def _release(self, message: StreamMessage, batch: Batch) -> None:
        self._metrics.message(RELEASED)
        batch.released.append(message)

    async def _settle(self, batch: Batch) -> None:
        try:
            if batch.acked:
                await self._stream.ack(batch.acked)
            if batch.released:
                delay_s = 0.0 if self._stopping.is_set() else batch.wait_s or RETRY_DELAY_S
                await self._stream.release(batch.released, delay_s=delay_s)
        except TROUBLE as error:
            # They come again when their leases end, and what is durable already changes nothing.
            self._log.warning("stream_settle_failed", error=str(error))
