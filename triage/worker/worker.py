"""From a delivery to a stored decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from triage.engine.engine import Decided, Engine, as_resolved
from triage.engine.snapshot import Snapshot, SnapshotHolder
from triage.errors import StoreError
from triage.model.alert import Alert, AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import Decision, decision_document
from triage.ports import (
    AlertLog,
    AlertStatus,
    Clock,
    CommitStatus,
    DecisionLog,
    Delivery,
    Message,
    Queue,
    StoredAlert,
)
from triage.telemetry.decision_metrics import DecisionMetrics
from triage.worker.backoff import TROUBLE, Backoff, pause
from triage.worker.lanes import Lanes, Slot
from triage.worker.sweeper import Sweeper
from triage.worker.tries import TriesByAlert
from triage.worker.turns import Turns

RECEIVE_WAIT_S = 1.0
RETRY_DELAY_S = 1.0  # before the second attempt; doubled with each that failed
LONGEST_RETRY_DELAY_S = 10.0
ATTEMPTS_USED_UP = "attempts_used_up"
SUSPICIOUS = 2  # attempts that a process did not live to see the end of, as far as is known here
SUSPECTS = 8  # of those that are just suspicious, decided at a time; with more attempts it is alone
GATHER_S = 0.1  # seconds: suspects received together are begun within it


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """An alert whose attempts end without a decision `max_attempts` times is dead-lettered.
    Leases are renewed three times within `lease_s`, oftener while that fails. What nobody holds
    is published again every `sweep_s`. `sinks` are told of every decision."""

    max_attempts: int = 5
    lease_s: float = 30.0
    sweep_s: float = 10.0
    sinks: tuple[str, ...] = ()


class Watcher(Protocol):
    """Told of every decision that this worker was the first to store, once it is durable."""

    def offer(self, alert: Alert, decided: Decided, snapshot: Snapshot, /) -> None:
        """Returns at once, raises nothing. The sources of `snapshot` may be closed later."""


class Worker:
    """`run` takes deliveries until `stop`; then it ends when those under way are settled.

    Acks come after the durable commit. A StoreError gives the delivery back; so does a fault of
    this project, which the attempts then bound. While the queue is in trouble nothing is received,
    and what is under way goes on. Cancelling `run` cancels what is under way and gives its
    deliveries back.
    """

    def __init__(
        self,
        *,
        queue: Queue,
        alerts: AlertLog,
        decisions: DecisionLog,
        engine: Engine,
        snapshots: SnapshotHolder,
        lanes: Lanes,
        clock: Clock,
        metrics: DecisionMetrics,
        options: WorkerOptions,
        on_commit: Callable[[], None],
        on_sweep: Callable[[int], None] = lambda _: None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        """`on_sweep` is told how many alerts the sweeper published."""
        self._queue = queue
        self._alerts = alerts
        self._decisions = decisions
        self._engine = engine
        self._snapshots = snapshots
        self._lanes = lanes
        self._clock = clock
        self._metrics = metrics
        self._options = options
        self._on_commit = on_commit
        self._watchers = watchers
        self._stopping = asyncio.Event()
        self._held: dict[str, Delivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tries = TriesByAlert()
        self._suspects = Turns(SUSPECTS, GATHER_S)
        self._backoff = Backoff()
        self._sweeper = Sweeper(
            queue=queue, alerts=alerts, sweep_s=options.sweep_s, on_sweep=on_sweep
        )
        self._log = structlog.get_logger("triage.worker")

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    def stop(self) -> None:
        """Take no more deliveries."""
        self._stopping.set()

    async def run(self) -> None:
        renewing = asyncio.create_task(self._renew_leases())
        sweeping = asyncio.create_task(self._sweeper.run())
        receiving = asyncio.create_task(self._receive())
        sides = {renewing, sweeping, receiving}
        try:
            # Whichever ends first is either receiving, told to stop, or a side task that died:
            # a worker that no longer renews or sweeps must not limp on.
            done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in (*sides, *self._tasks):
                task.cancel()
            await asyncio.gather(*sides, *self._tasks, return_exceptions=True)

    async def _receive(self) -> None:
        while not self._stopping.is_set():
            free = await self._free_slots()
            if not free:
                return
            received = await self._receive_some(free)
            if received is None:
                await pause(self._backoff.next_s(), self._stopping)
                continue
            if self._stopping.is_set():
                # Not cancelled instead: a receive cut off after it claimed would keep its
                # deliveries from everyone until their leases end.
                await self._give_back(received, 0.0)
                return
            for delivery in received:
                self._start(delivery)

    async def _receive_some(self, free: int) -> list[Delivery] | None:
        """None when the queue is in trouble."""
        try:
            received = await self._queue.receive(limit=free, wait_s=RECEIVE_WAIT_S)
        except TROUBLE as error:
            self._log.warning("receive_failed", error=str(error))
            received = None
        if self._queue.forgot():
            self._sweeper.start_over()
        if received is not None and self._backoff.is_waiting:
            self._backoff.reset()
            self._sweeper.hurry()
        return received

    async def _free_slots(self) -> int:
        """How many deliveries may be received; 0 once told to stop."""
        if self._lanes.free > 0:
            return self._lanes.free
        freed = asyncio.ensure_future(self._lanes.wait_for_free())
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({freed, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return 0 if self._stopping.is_set() else freed.result()
        finally:
            freed.cancel()
            stopped.cancel()

    def _start(self, delivery: Delivery) -> None:
        task = asyncio.create_task(self._work(delivery, self._lanes.take()))
        self._held[delivery.token] = delivery
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, delivery: Delivery, slot: Slot) -> None:
        try:
            delay_s = await self._attempt(delivery, slot)
            if delay_s is not None:
                await self._give_back([delivery], delay_s)
        except asyncio.CancelledError:
            await self._give_back([delivery], 0.0)
            raise
        finally:
            slot.release()
            self._held.pop(delivery.token, None)

    async def _give_back(self, deliveries: Sequence[Delivery], delay_s: float) -> None:
        try:
            await self._queue.settle(returned=deliveries, delay_s=delay_s)
        except TROUBLE as error:
            # Their leases end by themselves, and the sweeper finds what no queue holds.
            self._log.warning("give_back_failed", deliveries=len(deliveries), error=str(error))

    async def _ack(self, delivery: Delivery) -> None:
        try:
            await self._queue.settle(acked=[delivery])
        except TROUBLE as error:
            # It comes again when its lease ends, finds the alert decided, and is acked then.
            self._log.warning("ack_failed", alert_id=delivery.alert_id, error=str(error))

    async def _attempt(self, delivery: Delivery, slot: Slot) -> float | None:
        """None once the delivery is settled, else in how many seconds to try again."""
        alert_id = delivery.alert_id
        attempts = 0
        try:
            stored = await self._alerts.begin_attempt(alert_id)
            if stored is None:
                self._log.warning("unknown_alert", alert_id=alert_id)
            if stored is None or stored.status is not AlertStatus.PENDING:
                self._tries.forget(alert_id)
                await self._ack(delivery)
                return None
            attempts = stored.attempts
            if attempts - self._tries.excused(alert_id) >= self._options.max_attempts:
                await self._dead_letter(delivery, stored)
            elif (unseen := self._tries.unseen(alert_id, attempts)) >= SUSPICIOUS:
                await self._decide_suspect(delivery, slot, unseen)
            else:
                await self._decide(delivery, stored, slot)
        except TROUBLE as error:
            self._log.warning("attempt_failed", alert_id=alert_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - logged with its traceback, bounded by attempts
            # A fault of this project. The alert is given back, and its attempts are counted, so
            # it ends as a dead letter with this line in the log instead of taking the daemon.
            self._log.exception("attempt_crashed", alert_id=alert_id)
            self._tries.fail(alert_id, error)
        else:
            return None
        # Longer with every attempt: replicas excuse only their own, and a store that takes small
        # writes but no decisions must not use the others' up within seconds.
        return min(LONGEST_RETRY_DELAY_S, RETRY_DELAY_S * 2.0 ** min(attempts, 30))

    async def _decide_suspect(self, delivery: Delivery, slot: Slot, unseen: int) -> None:
        """Few other suspects are worked on meanwhile, or none. An alert that ends processes takes
        whatever is in hand with it, again and again: so only the culprit goes on using up
        attempts, and those that used up fewer are decided before it. Not all alone from the start:
        a process that somebody else ends twice makes suspects of all it had in hand."""
        await self._alerts.release_attempt(delivery.alert_id)
        weight = 1 if unseen == SUSPICIOUS else SUSPECTS
        async with self._suspects.turn(unseen, weight):
            stored = await self._alerts.begin_attempt(delivery.alert_id)
            if stored is None or stored.status is not AlertStatus.PENDING:
                await self._ack(delivery)
                return
            await self._decide(delivery, stored, slot)

    async def _decide(self, delivery: Delivery, stored: StoredAlert, slot: Slot) -> None:
        snapshot = self._snapshots.pin()
        try:
            decided = await self._engine.decide(
                stored.alert, snapshot, lane=slot, attempt=stored.attempts + 1
            )
            await self._store(delivery, stored, decided, snapshot)
        finally:
            # Last, because the sources that nobody else holds are closed now, at their leisure.
            await self._snapshots.release(snapshot)

    async def _store(
        self, delivery: Delivery, stored: StoredAlert, decided: Decided, snapshot: Snapshot
    ) -> None:
        storing = self._clock.monotonic()
        try:
            decision = await self._commit(decided)
        except StoreError:
            self._tries.excuse(delivery.alert_id)
            raise
        self._tries.forget(delivery.alert_id)
        store_s = self._clock.monotonic() - storing
        if decision is not None:
            self._tell(stored.alert, decision, store_s)
        await self._ack(delivery)
        if decision is not None:
            self._offer(stored.alert, decided, decision, snapshot)

    def _offer(
        self, alert: Alert, decided: Decided, decision: Decision, snapshot: Snapshot
    ) -> None:
        """`decision` is what was stored in the end."""
        if not self._watchers:
            return
        if decision is not decided.decision:
            decided = replace(decided, decision=decision)
        for watcher in self._watchers:
            watcher.offer(alert, decided, snapshot)

    async def _commit(self, decided: Decided) -> Decision | None:
        """The decision as stored, None when another attempt was first."""
        decision = decided.decision
        status = await self._decisions.commit(
            decision, decided.evidence, self._messages(decision), decided.gaps
        )
        if status is CommitStatus.RESOLVED_MEANWHILE:
            decision = as_resolved(decision)
            status = await self._decisions.commit(
                decision, decided.evidence, self._messages(decision), decided.gaps
            )
        if status is not CommitStatus.COMMITTED:
            return None
        self._on_commit()
        return decision

    def _messages(self, decision: Decision) -> Sequence[Message]:
        if not self._options.sinks:
            return ()
        body = canonical_json(decision_document(decision))
        key = message_key(decision.alert_id)
        return [Message(sink=sink, key=key, body=body) for sink in self._options.sinks]

    async def _dead_letter(self, delivery: Delivery, stored: StoredAlert) -> None:
        detail = self._tries.explain(delivery.alert_id, stored.attempts)
        if await self._alerts.dead_letter(delivery.alert_id, ATTEMPTS_USED_UP, detail):
            self._log.error("dead_lettered", alert_id=delivery.alert_id, detail=detail)
        self._tries.forget(delivery.alert_id)
        await self._ack(delivery)

    def _tell(self, alert: Alert, decision: Decision, store_s: float) -> None:
        total_s = max(0.0, (self._clock.now() - alert.accepted_at).total_seconds())
        metrics = self._metrics
        metrics.decided(decision.outcome, degraded=decision.degraded, seconds=total_s)
        metrics.queue_wait.observe(decision.stages_ms["queue_wait"] / 1000)
        metrics.store.observe(store_s)
        if decision.nodes:
            metrics.sources.observe(decision.stages_ms["sources"] / 1000)
            metrics.evaluate.observe(decision.stages_ms["evaluate"] / 1000)
        self._log.info(
            "decided",
            alert_id=alert.alert_id,
            alarm=alert.alarm,
            site=decision.site,
            entity=alert.entity,
            outcome=decision.outcome.value,
            reason=decision.reason,
            degraded=decision.degraded,
            root_causes=[cause.node for cause in decision.root_causes],
            actions=[action.action for action in decision.actions],
            sop_version=decision.pinned.sop_version,
            total_ms=round(total_s * 1000, 3),
        )

    async def _renew_leases(self) -> None:
        every_s = self._options.lease_s / 3
        wait_s = every_s
        while True:
            await asyncio.sleep(wait_s)
            held = list(self._held.values())
            # At the same time: a broker that hangs must not cost the store's lease as well.
            renewed = await asyncio.gather(self._extend(held), self._hold(held)) if held else ()
            wait_s = every_s if all(renewed) else every_s / 4

    async def _extend(self, held: Sequence[Delivery]) -> bool:
        try:
            await self._queue.extend(held)
        except TROUBLE as error:
            # Losing a lease costs a second attempt, never a second decision.
            self._log.warning("lease_renewal_failed", error=str(error))
            return False
        return True

    async def _hold(self, held: Sequence[Delivery]) -> bool:
        try:
            await self._alerts.hold([delivery.alert_id for delivery in held])
        except TROUBLE as error:
            # The sweeper then publishes them although they are worked on: likewise.
            self._log.warning("hold_failed", error=str(error))
            return False
        return True


def message_key(alert_id: AlertId) -> str:
    """The idempotency key of a decision's message."""
    return f"{alert_id}:decision"
