"""Publishes again what nobody holds: a queue that lost its memory loses no alert."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import structlog

from triage.model.alert import AlertId, Severity
from triage.ports import AlertLog, Queue
from triage.worker.backoff import TROUBLE, Backoff, pause

SWEEP_LIMIT = 1_000  # alerts published in one go
JITTER = 0.2  # of the interval, either way: replicas that started together must not sweep together


class Sweeper:
    """`run` sweeps every `sweep_s` until cancelled. `on_sweep` is told how many alerts each
    publish was of."""

    def __init__(
        self,
        *,
        queue: Queue,
        alerts: AlertLog,
        sweep_s: float,
        on_sweep: Callable[[int], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._queue = queue
        self._alerts = alerts
        self._sweep_s = sweep_s
        self._on_sweep = on_sweep
        self._jitter = jitter
        self._backoff = Backoff(last_s=max(0.2, min(5.0, sweep_s)), jitter=jitter)
        self._woken = asyncio.Event()
        self._forgotten = False
        self._late: Sequence[tuple[AlertId, Severity]] = ()
        """Handed out by the store and not published yet: the store has put them off, by as long
        as they have waited, and an outage must not be paid for twice."""
        self._log = structlog.get_logger("triage.sweeper")

    def hurry(self) -> None:
        """Sweep now: the queue works again."""
        self._woken.set()

    def start_over(self) -> None:
        """The queue lost its memory: publish everything that is pending, now."""
        self._forgotten = True
        self._woken.set()

    async def run(self) -> None:
        while True:
            self._woken.clear()
            if await self._sweep():
                self._backoff.reset()
                wait_s = self._sweep_s * (1 - JITTER + 2 * JITTER * self._jitter())
            else:
                wait_s = self._backoff.next_s()
            await pause(wait_s, self._woken)

    async def _sweep(self) -> bool:
        """Whether it came to its end."""
        try:
            await self._remind()
            if self._late:
                await self._publish(self._late)
            while True:
                due = await self._alerts.to_wake(limit=SWEEP_LIMIT)
                if due:
                    await self._publish(due)
                if len(due) < SWEEP_LIMIT:
                    return True
        except TROUBLE as error:
            self._log.warning("sweep_failed", error=str(error))
            return False

    async def _remind(self) -> None:
        again = self._queue.forgot() or self._forgotten
        if not again:
            return
        # Before the call, not after it: `start_over` may come while it is under way.
        self._forgotten = False
        try:
            await self._alerts.wake_all()
        except TROUBLE:
            self._forgotten = True
            raise
        self._log.warning("queue_lost_its_memory", queue=self._queue.label)

    async def _publish(self, alerts: Sequence[tuple[AlertId, Severity]]) -> None:
        self._late = alerts
        await self._queue.publish(alerts)
        self._late = ()
        self._on_sweep(len(alerts))
        self._log.info("swept", alerts=len(alerts))
