"""`triage serve`: the one place that opens every resource and starts every task."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from triage import __version__
from triage.adapters.store import Store
from triage.app.current import Current, Files
from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.fallback import Agent, agent
from triage.app.http.access import Gate, RequestLimit, token
from triage.app.http.application import http_application
from triage.app.http.decisions import ReadServices
from triage.app.http.gaps import GapServices
from triage.app.http.intake import IntakeServices
from triage.app.http.operations import OperationServices
from triage.app.readiness import Readiness
from triage.app.server import Server, bind, make_server, url_of
from triage.app.settings import Settings
from triage.app.sinks import make_sinks
from triage.app.sns import SnsGuard, fetch_from_aws
from triage.app.sources import SourcePool
from triage.clock import SystemClock
from triage.engine.engine import Engine, EngineOptions
from triage.errors import ConfigError, StoreError
from triage.library import quarantine
from triage.library.ahead import Ahead
from triage.ports import Clock, Fallback
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import LaneUse
from triage.worker.lanes import Lanes
from triage.worker.outbox import OutboxSender
from triage.worker.watchdog import Blocked, ToolMark, Watchdog, blocked_last_time
from triage.worker.worker import Worker, WorkerOptions

RETENTION_S = 600.0
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
        self._store: Store | None = None
        self._senders: list[OutboxSender] = []

    async def run(self) -> Exit:
        began = time.monotonic()
        settings = self._settings
        async with AsyncExitStack() as stack:
            if self._ahead is not None:
                stack.callback(self._ahead.close)
            listener = bind(settings.http)
            stack.callback(listener.close)
            store = self._store = await Store.open(
                settings.store.url,
                clock=self._clock,
                max_pending=settings.store.max_pending,
                lease_s=settings.engine.lease_s,
            )
            stack.push_async_callback(store.close)
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
            worker = self._worker(store, current, helper.fallback)
            self._senders = self._make_senders(store, stack)
            server = make_server(self._application(store, current, helper), settings.http)
            self._watch_signals(current)
            tasks = {
                "worker": asyncio.create_task(self._work(worker, pool)),
                "watchdog": asyncio.create_task(self._watchdog().run()),
                "retention": asyncio.create_task(self._retain(store)),
                "http": asyncio.create_task(server.serve(sockets=[listener])),
                **{
                    f"sink {index}": asyncio.create_task(sender.run())
                    for index, sender in enumerate(self._senders)
                },
            }
            self._log.info(
                "listening",
                url=url_of(listener, settings.http),
                version=__version__,
                sop=current.snapshots.current.pinned.sop,
                nodes=len(current.snapshots.current.sop.nodes),
                started_in_s=round(time.monotonic() - began, 3),
            )
            try:
                return await self._until_stopped(worker, server, tasks)
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
        self, worker: Worker, server: Server, tasks: Mapping[str, asyncio.Task[None]]
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
        finished = await self._drain(worker, tasks, ends)
        server.should_exit = True
        if "http" not in dead:
            # Whoever is still being answered gets this long even when alerts took all there was.
            left = max(HTTP_CLOSE_S, ends - loop.time())
            await asyncio.wait({tasks["http"]}, timeout=left)
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
        await asyncio.wait({tasks["worker"]}, timeout=max(0.0, ends - loop.time()))
        # Not whether its task has ended: it may only be waiting for a delivery that never came.
        finished = worker.under_way == 0
        for sender in self._senders:
            sender.stop()
        sending = {task for name, task in tasks.items() if name.startswith("sink ")}
        if sending:
            _, late = await asyncio.wait(sending, timeout=max(0.0, ends - loop.time()))
            finished = finished and not late
        return finished

    def _worker(self, store: Store, current: Current, fallback: Fallback | None) -> Worker:
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
            queue=store.queue,
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
                sinks=tuple(self._settings.sinks),
            ),
            on_commit=self._wake_senders,
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

    def _application(self, store: Store, current: Current, agent: Agent) -> Any:
        readiness = Readiness(
            store=store, current=current, agent=agent, is_draining=lambda: self._draining
        )
        settings = self._settings
        http = settings.http
        gate = Gate([token(t.name, t.token, t.scopes) for t in http.tokens])
        sns = settings.intake.sns
        guard = SnsGuard(
            verify=sns.verify_signatures,
            topic_arns=frozenset(sns.topic_arns),
            fetch=fetch_from_aws,
        )
        return http_application(
            IntakeServices(
                alerts=store.alerts,
                queue=store.queue,
                clock=self._clock,
                gate=gate,
                limit=RequestLimit(http.max_concurrent_requests),
                max_body_bytes=http.max_body_bytes,
                metrics=self._metrics.intake,
                field_map=current.field_map,
                verify=guard.verify,
                confirm=guard.confirm,
                is_draining=lambda: self._draining,
            ),
            ReadServices(decisions=store.decisions, ledger=store.ledger, gate=gate),
            OperationServices(
                gate=gate,
                metrics=self._metrics,
                ledger=store.ledger,
                gaps=store.gaps,
                clock=self._clock,
                readiness=readiness.document,
                reload=current.reload,
            ),
            GapServices(gaps=store.gaps, gate=gate, clock=self._clock),
        )

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

    async def _retain(self, store: Store) -> None:
        section = self._settings.store
        while True:
            try:
                purged = await store.decisions.purge_evidence(
                    older_than=self._clock.now() - timedelta(days=section.evidence_days),
                    max_bytes=section.evidence_max_bytes,
                )
                if purged:
                    self._log.info("evidence_purged", bodies=purged)
            except StoreError as error:
                self._log.warning("retention_failed", error=str(error))
            await asyncio.sleep(RETENTION_S)

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
