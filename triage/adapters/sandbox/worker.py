"""One worker process, for one session."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic_monty as pm

from triage.errors import SandboxFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from triage.adapters.sandbox.limits import SandboxLimits

T = TypeVar("T")

LEAST_PRIORITY = 19
_SPARE_BYTES = 512 << 20  # the program itself, and the type checker before it is stopped


class Worker:
    """The library's session blocks, so it is spoken to from a thread, one request at a time.

    Not its asyncio front, although that is at hand: it wakes the loop from threads of its own,
    which nothing waits for. One that is on its way back from that while the interpreter ends
    asks for the GIL, is ended by it, and takes the process with it ("Aborted"): 8 of 60
    programs that did nothing but close their pool and return.
    """

    def __init__(
        self, session: pm.MontySession, threads: Executor, *, ended: Callable[[Worker], None]
    ) -> None:
        self.session = session
        self.pid = 0
        self.is_ended = False
        self._threads = threads
        self._tell_ended = ended
        self._busy: asyncio.Future[Any] | None = None
        self._process: int | None = None

    async def start(self, limits: SandboxLimits) -> None:
        """Takes a process of the pool. Raises as the pool does."""
        await self.ask(self.session.__enter__)
        self.pid = self.session.worker_pid or 0
        if self.pid:
            _confine(self.pid, limits)
            if hasattr(os, "pidfd_open"):
                self._process = os.pidfd_open(self.pid)

    async def ask(self, request: Callable[[], T]) -> T:
        """Cancelled, it kills the process, so that the thread comes back, and waits for that.
        Raises SandboxFailed when the process was given back, by whoever closes the sandbox."""
        if self.is_ended:
            raise SandboxFailed("the sandbox was closed meanwhile")
        future = asyncio.get_running_loop().run_in_executor(self._threads, request)
        self._busy = future
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.kill()
            await _over(future)
            raise

    def kill(self) -> None:
        """From any thread. A handle of the process, where there are such: its number may be
        another's by now."""
        with suppress(ProcessLookupError):
            if self._process is not None:
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            elif self.pid:
                os.kill(self.pid, signal.SIGKILL)

    async def end(self, *, spoiled: bool = False) -> None:
        """Gives the process back to the pool, which replaces one that is dead. Once; later calls
        do nothing."""
        if self.is_ended:
            return
        self.is_ended = True
        if spoiled or (self._busy is not None and not self._busy.done()):
            self.kill()
        if self._busy is not None:
            await _over(self._busy)
        leaving = asyncio.get_running_loop().run_in_executor(self._threads, self._leave)
        await _over(leaving)
        if self._process is not None:
            os.close(self._process)
            self._process = None
        self.pid = 0
        self._tell_ended(self)
        leaving.result()

    def _leave(self) -> None:
        with suppress(pm.MontyError):  # it is dead, which is what was wanted
            self.session.__exit__(None, None, None)


async def _over(future: asyncio.Future[T]) -> None:
    """Waits for a thread that is about to end, through cancellations, which are passed on."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            cancelled = True
    if not future.cancelled():
        future.exception()
    if cancelled:
        raise asyncio.CancelledError


def _confine(pid: int, limits: SandboxLimits) -> None:
    """Besides the interpreter's own limits, the kernel's: it writes no files, leaves no core, and
    cannot grow past what its own allocator should have refused."""
    if limits.nice:
        _lower(pid, limits.nice)
    if not hasattr(resource, "prlimit"):
        return
    most = limits.memory_bytes * 2 + _SPARE_BYTES
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))


def _lower(pid: int, nice: int) -> None:
    """Each of its threads: on Linux a priority is a thread's, and the code does not run in the
    first. Those that are begun later have that of the one that begins them."""
    with suppress(OSError):  # it has ended, or the system has no such thing: no limit is lost
        priority = min(LEAST_PRIORITY, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        os.setpriority(os.PRIO_PROCESS, pid, priority)
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names, not paths
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), priority)
