"""The sandbox: a pool of worker processes, and the sessions they serve."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pydantic_monty as pm

from triage.adapters.sandbox.limits import SandboxLimits
from triage.adapters.sandbox.session import MontySession
from triage.adapters.sandbox.worker import Worker
from triage.errors import SandboxFailed

if TYPE_CHECKING:
    from pathlib import Path

    from triage.ports import HostFunction, SandboxSession

_log = logging.getLogger(__name__)

_TURN_SPARE_S = 5.0  # past `feed_s`, for type checking and the way there and back
_CHECKOUT_S = 5.0  # to start a process: nobody waits here for one that is taken
_NOT_OPEN = "the sandbox is not open"
_CLOSED = "the sandbox is closed"

CANNOT_START = (OSError, RuntimeError, ValueError, TimeoutError, pm.MontyError)
"""What the library raises when a worker process is not to be had."""


class MontySandbox:
    """Runs code in processes of pydantic-monty, an interpreter that has no files, processes,
    network or imports but its own. A worker sees none of our environment variables.

    `binary` is the worker program, by default the one that was installed with the library.
    `wait_s` is how long a session waits for a worker when all are taken.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        binary: Path | None = None,
        wait_s: float = 10.0,
    ) -> None:
        self._limits = limits or SandboxLimits()
        self._binary = binary
        self._wait_s = wait_s
        self._slots = asyncio.Semaphore(self._limits.workers)
        self._pool: pm.Monty | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._live: set[Worker] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._trouble = _NOT_OPEN

    async def open(self) -> None:
        """Starts the workers and tries one. Never raises for workers that cannot start: `trouble`
        says why."""
        self._threads = ThreadPoolExecutor(self._limits.workers + 1, thread_name_prefix="sandbox")
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._start)
        except CANNOT_START as error:
            self._trouble = f"the sandbox cannot start: {str(error) or type(error).__name__}"
            return
        self._trouble = ""
        try:
            async with self.session(prelude="", stubs="", functions={}, inputs={}) as session:
                run = await session.run("1 + 1", timeout_s=_TURN_SPARE_S + self._limits.feed_s)
        except SandboxFailed as error:
            self._trouble = f"the sandbox cannot start: {error}"
        else:
            if run.error is not None:
                self._trouble = f"the sandbox cannot run anything: {run.error.text}"

    def _start(self) -> None:
        self._pool = pm.Monty(
            binary_path=self._binary,
            min_processes=self._limits.workers,
            max_processes=self._limits.workers,
            checkout_timeout=_CHECKOUT_S,
            request_timeout=self._limits.feed_s + _TURN_SPARE_S,
            max_checkouts_per_worker=self._limits.checkouts_a_worker,
        )
        self._pool.__enter__()

    @property
    def trouble(self) -> str:
        return self._trouble

    @property
    def worker_pids(self) -> frozenset[int]:
        """Of the processes that serve a session now: for tests and for whoever looks for them."""
        return frozenset(worker.pid for worker in self._live if worker.pid)

    @asynccontextmanager
    async def session(
        self,
        *,
        prelude: str,
        stubs: str,
        functions: Mapping[str, HostFunction],
        inputs: Mapping[str, Any],
    ) -> AsyncIterator[SandboxSession]:
        """Holds one of `workers` from entering to leaving."""
        if self._trouble:
            raise SandboxFailed(self._trouble)
        await self._take_slot()
        try:
            session = MontySession(
                self._worker,
                prelude=prelude,
                stubs=stubs,
                functions=functions,
                inputs=inputs,
                limits=self._limits,
                running=self._running,
            )
            try:
                await session.begin()
                yield session
            finally:
                await session.end()
        finally:
            self._slots.release()

    async def _take_slot(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise SandboxFailed(
                f"all {self._limits.workers} workers of the sandbox were taken "
                f"for {self._wait_s:.3g} s"
            ) from None

    async def _worker(self, stubs: str) -> Worker:
        if self._trouble or self._pool is None or self._threads is None:
            raise SandboxFailed(self._trouble or _NOT_OPEN)
        worker = Worker(
            self._pool.checkout(
                limits=pm.ResourceLimits(
                    max_feed_duration_secs=self._limits.feed_s,
                    max_memory=self._limits.memory_bytes,
                    max_recursion_depth=self._limits.recursion,
                    # An awaited call takes two: asking, and waiting for the answer.
                    max_suspensions=2 * self._limits.suspensions,
                ),
                type_check=True,
                type_check_stubs=stubs,
                type_check_format="concise",
                # The same code with the same data gives the same answer, and at once.
                os_policy=pm.OSPolicy(sleep="zero", random_start=pm.RandomSeed(seed=0)),
            ),
            self._threads,
            ended=self._live.discard,
        )
        self._live.add(worker)
        started = False
        try:
            await worker.start(self._limits)
            started = True
        except CANNOT_START as error:
            raise SandboxFailed(f"no worker of the sandbox could be started: {error}") from error
        finally:
            if not started:
                await worker.end(spoiled=True)
        return worker

    async def close(self) -> None:
        """Kills what still runs. Sessions that are still open say that the sandbox is closed."""
        self._trouble = _CLOSED
        threads, pool = self._threads, self._pool
        self._threads = self._pool = None
        if threads is None:
            return
        for worker in tuple(self._live):
            worker.kill()
        for worker in tuple(self._live):
            await worker.end(spoiled=True)
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(
                threads, pool.__exit__, None, None, None
            )
        # Its threads are idle: this waits for none.
        threads.shutdown()
