"""`triage serve`: the one place that opens every resource and starts every task."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from triage import __version__
from triage.adapters.store import Store
from triage.app.current import Current, Files
from triage.app.data_folder import data_folder
from triage.app.deliveries import Deliveries, Taking, make_queue, make_stream
from triage.app.exits import Exit
from triage.app.fallback import agent
from triage.app.retention import retain
from triage.app.served import application
from triage.app.server import Server, bind, make_server, url_of
from triage.app.settings import Settings
from triage.app.sinks import make_sinks
from triage.app.sources import SourcePool
from triage.app.watchers import Side, watchers
from triage.clock import SystemClock
from triage.engine.engine import Engine, EngineOptions
from triage.errors import ConfigError
from triage.library import quarantine
from triage.library.ahead import Ahead
from triage.ports import Clock, Fallback, Queue
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import LaneUse
from triage.worker.lanes import Lanes
from triage.worker.outbox import OutboxSender
from triage.worker.watchdog import Blocked, ToolMark, Watchdog, blocked_last_time
from triage.worker.worker import Worker, WorkerOptions

HTTP_CLOSE_S = 1.0  # seconds


class Daemon:
    """One run of the daemon. `run` returns the exit code; only ConfigError is raised, before
    anything was accepted."""

    def __init__(
        self,
        *,
        config: Path,
        override: Mapping[str, str],
        settings: Settings,
        clock: Clock,
        ahead: Ahead | None = None,
    ) -> None:
        self._ahead = ahead
        self._settings = settings
        self._clock = clock
        self._data = data_folder(settings)
        self._files = Files(
            config=config,
            quarantine=self._data.quarantine,
            linted=self._data.linted,
            override=override,
        )
        self._log = structlog.get_logger("triage.daemon")
        self._stop = asyncio.Event()
        self._draining = False
        self._metrics = Metrics.register(version=__version__, monotonic=clock.monotonic)
        self._lanes = Lanes(fast=settings.engine.fast_slots, slow=settings.engine.slow_slots)
        self._mark = ToolMark(self._data.tool_mark)
        self._senders: list[OutboxSender] = []
        self._sides: Mapping[str, Side] = {}

    async def run(self) -> Exit:
        began = time.monotonic()
        settings = self._settings
        async with AsyncExitStack() as stack:
            if self._ahead is not None:
                stack.callback(self._ahead.close)
            listener = bind(settings.http)
            stack.callback(listener.close)
            stack.enter_context(self._data.held())
            store = await self._open_store()
            stack.push_async_callback(store.close)
            queue = make_queue(settings.queue, lease_s=settings.engine.lease_s, clock=self._clock)
            if queue is not None:
                stack.push_async_callback(queue.close)
            queue = queue or store.queue
            self._accuse_last_time()
            self._mark.open()
            stack.callback(self._mark.close)
            helper = await stack.enter_async_context(
                agent(
                    settings.fallback,
                    library=settings.sop.library,
                    secrets=settings.secrets(),
                    metrics=self._metrics.fallback,
                    clock=self._clock,
                )
            )
            pool = SourcePool(self._clock, self._metrics.sources, fallback=settings.fallback)
            current = Current(
                files=self._files,
                settings=settings,
                pool=pool,
                metrics=self._metrics,
            )
            await current.start(self._ahead)
            self._ahead = None
            stack.push_async_callback(current.close)
            self._metrics.runtime.lanes.watch(self._lane_use)
            deliveries = self._deliveries(store, queue, current, stack)
            self._sides = watchers(
                settings,
                store=store,
                current=current,
                metrics=self._metrics,
                clock=self._clock,
                is_draining=lambda: self._draining,
                marker=self._mark,
                is_busy=lambda: self._lanes.fast_in_use > 0 or store.is_writing,
            )
            worker = self._worker(store, queue, current, helper.fallback)
            self._senders = self._make_senders(store, stack)
            served = application(
                settings=settings,
                store=store,
                deliveries=deliveries,
                current=current,
                agent=helper,
                metrics=self._metrics,
                clock=self._clock,
                is_draining=lambda: self._draining,
            )
            server = make_server(served, settings.http)
            self._watch_signals(current)
            tasks = {
                "worker": asyncio.create_task(self._work(worker, pool)),
                "watchdog": asyncio.create_task(self._watchdog().run()),
                "retention": asyncio.create_task(
                    retain(store.retention, settings.store, self._clock)
                ),
                "http": asyncio.create_task(server.serve(sockets=[listener])),
                **{name: asyncio.create_task(side.run()) for name, side in self._sides.items()},
                **{
                    f"sink {index}": asyncio.create_task(sender.run())
                    for index, sender in enumerate(self._senders)
                },
                **{
                    f"stream {consumer.name}": asyncio.create_task(consumer.run())
                    for consumer in deliveries.consumers
                },
            }
            self._log.info(
                "listening",
                url=url_of(listener, settings.http),
                version=__version__,
                store=store.label,
                queue=queue.label,
                sop=current.snapshots.current.pinned.sop,
                nodes=len(current.snapshots.current.sop.nodes),
                started_in_s=round(time.monotonic() - began, 3),
            )
            try:
                return await self._until_stopped(deliveries, worker, server, tasks)
            finally:
                for task in tasks.values():
                    task.cancel()
                await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _work(self, worker: Worker, pool: SourcePool) -> None:
        """Alerts are accepted meanwhile; a stop need not wait for a server that is starting."""
        settled = asyncio.create_task(pool.settled())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({settled, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
            stopping.cancel()
        await worker.run()

    async def _until_stopped(
        self,
        deliveries: Deliveries,
        worker: Worker,
        server: Server,
        tasks: Mapping[str, asyncio.Task[None]],
    ) -> Exit:
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({stopping, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        dead = [name for name, task in tasks.items() if task.done()]
        for name in dead:
            # A daemon that goes on without one of its tasks accepts alerts it will never send.
            self._log.critical("task_died", task=name, exc_info=tasks[name].exception())
        self._draining = True
        self._log.info("draining", under_way=worker.under_way)
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._settings.http.drain_s
        for consumer in deliveries.consumers:
            consumer.stop()
        finished = await self._drain(worker, tasks, ends)
        server.should_exit = True
        for side in self._sides.values():
            side.stop()
        closing = {tasks[name] for name in ("http", *self._sides) if name not in dead}
        if closing:
            # Whoever is still being answered gets this long even when alerts took all there was.
            left = max(HTTP_CLOSE_S, ends - loop.time())
            await asyncio.wait(closing, timeout=left)
        if dead:
            return Exit.INTERNAL
        if not finished:
            self._log.warning("drain_limit_reached", under_way=worker.under_way)
            return Exit.UNFINISHED
        self._log.info("stopped")
        return Exit.OK

    async def _drain(
        self, worker: Worker, tasks: Mapping[str, asyncio.Task[None]], ends: float
    ) -> bool:
        """Whether the worker finished what it had, and the sinks their sends, by `ends`, a time
        of the loop's clock."""
        loop = asyncio.get_running_loop()
        worker.stop()
        # A stream that its broker keeps waiting has nothing in hand that would not come again.
        taking = {task for name, task in tasks.items() if name.startswith("stream ")}
        await asyncio.wait({tasks["worker"], *taking}, timeout=max(0.0, ends - loop.time()))
        # Not whether its task has ended: it may only be waiting for a delivery that never came.
        finished = worker.under_way == 0
        for sender in self._senders:
            sender.stop()
        sending = {task for name, task in tasks.items() if name.startswith("sink ")}
        if sending:
            _, late = await asyncio.wait(sending, timeout=max(0.0, ends - loop.time()))
            finished = finished and not late
        return finished

    async def _open_store(self) -> Store:
        settings = self._settings
        return await Store.open(
            settings.store.address,
            clock=self._clock,
            max_pending=settings.store.max_pending,
            lease_s=settings.engine.lease_s,
            sweep_s=settings.engine.sweep_s,
            coalesce_s=settings.engine.coalesce_s,
            embedded_queue=settings.queue.is_embedded,
        )

    def _deliveries(
        self, store: Store, queue: Queue, current: Current, stack: AsyncExitStack
    ) -> Deliveries:
        settings = self._settings
        taking = Taking(
            alerts=store.alerts,
            queue=queue,
            dead_letters=store.dead_letters,
            field_map=current.field_map,
            data=self._data,
            clock=self._clock,
            metrics=self._metrics,
            max_body_bytes=settings.http.max_body_bytes,
        )
        consumers = []
        for name, section in settings.streams.items():
            stream = make_stream(name, section, self._clock)
            stack.push_async_callback(stream.close)
            consumers.append(taking.consumer(name, section, stream))
        return Deliveries(queue=queue, consumers=consumers, metrics=self._metrics)

    def _worker(
        self, store: Store, queue: Queue, current: Current, fallback: Fallback | None
    ) -> Worker:
        engine_section = self._settings.engine
        engine = Engine(
            options=EngineOptions(
                deadline_s=engine_section.deadline_s,
                fallback_deadline_s=engine_section.fallback_deadline_s,
                prefetch=engine_section.prefetch,
            ),
            clock=self._clock,
            marker=self._mark,
            metrics=self._metrics.nodes,
            fallback=fallback,
        )
        return Worker(
            queue=queue,
            alerts=store.alerts,
            decisions=store.decisions,
            engine=engine,
            snapshots=current.snapshots,
            lanes=self._lanes,
            clock=self._clock,
            metrics=self._metrics.decisions,
            options=WorkerOptions(
                max_attempts=engine_section.max_attempts,
                lease_s=engine_section.lease_s,
                sweep_s=engine_section.sweep_s,
                sinks=tuple(self._settings.sinks),
            ),
            on_commit=self._wake_senders,
            on_sweep=self._metrics.deliveries.swept.inc,
            watchers=tuple(self._sides.values()),
        )

    def _make_senders(self, store: Store, stack: AsyncExitStack) -> list[OutboxSender]:
        senders = []
        for sink, options in make_sinks(self._settings.sinks, self._clock):
            stack.push_async_callback(sink.close)
            senders.append(
                OutboxSender(
                    sink=sink,
                    outbox=store.outbox,
                    clock=self._clock,
                    metrics=self._metrics.sinks.cell(sink.name),
                    options=options,
                )
            )
        return senders

    def _wake_senders(self) -> None:
        for sender in self._senders:
            sender.wake()

    def _lane_use(self) -> Mapping[str, LaneUse]:
        lanes = self._lanes
        return {
            "fast": LaneUse(slots=lanes.fast, in_use=lanes.fast_in_use),
            "slow": LaneUse(slots=lanes.slow, in_use=lanes.slow_in_use),
        }

    def _watch_signals(self, current: Current) -> None:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()

        def stop() -> None:
            if self._stop.is_set():
                self._log.warning("second_signal", exit_code=int(Exit.UNFINISHED))
                os._exit(Exit.UNFINISHED)
            self._stop.set()

        async def reload() -> None:
            try:
                await current.reload()
            except ConfigError:
                return  # told in the log and in the metrics, and the old one is kept

        def start_reload() -> None:
            task = loop.create_task(reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, stop)
        loop.add_signal_handler(signal.SIGHUP, start_reload)

    def _watchdog(self) -> Watchdog:
        return Watchdog(
            limit_s=self._settings.engine.watchdog_s,
            mark=self._mark,
            dump=self._data.blocked,
            on_blocked=self._on_blocked,
            lag=self._metrics.runtime.loop_lag,
        )

    def _accuse_last_time(self) -> None:
        blocked = blocked_last_time(self._data.blocked, self._data.tool_mark)
        if blocked is not None:
            self._on_blocked(blocked)

    def _on_blocked(self, blocked: Blocked) -> None:
        """May run in the watchdog's thread."""
        self._log.critical(
            "event_loop_blocked",
            node=blocked.node,
            tool_sha256=blocked.tool_sha256,
            stack=blocked.stack,
        )
        if blocked.tool_sha256:
            quarantine.add(self._data.quarantine, blocked.tool_sha256, "it blocked the event loop")


async def serve(
    config: Path, override: Mapping[str, str], settings: Settings, ahead: Ahead | None = None
) -> Exit:
    """Raises ConfigError when it cannot start. `ahead` was begun for the settings' library."""
    return await Daemon(
        config=config, override=override, settings=settings, clock=SystemClock(), ahead=ahead
    ).run()
