"""One run of code in a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pydantic_monty as pm

from triage.adapters.sandbox.printed import Printed
from triage.adapters.sandbox.values import TooLarge, argument, returned

if TYPE_CHECKING:
    from triage.adapters.sandbox.limits import SandboxLimits
    from triage.adapters.sandbox.worker import Worker
    from triage.ports import HostFunction

_log = logging.getLogger(__name__)

_AT_ONCE = 16  # host functions under way for one run; the rest wait
_REFUSALS = 20  # calls with arguments that are not JSON; nobody needs so many to learn it
_TOTAL = 4  # times what one call may be given, for all calls of a run together
_GRACE_S = 0.25  # for a cancelled host function to end

Parameters = Callable[[str], list[str]]
"""The names of a host function's parameters, in order."""

_NOTHING: pm.ExternalResult = {"return_value": None}

_Request = Callable[[], pm.SyncSnapshot]
_Settled = pm.ExternalReturnValue | pm.ExternalExceptionData


class _Call(NamedTuple):
    id: int
    name: str
    arguments: Mapping[str, Any]


class Run:
    """Drives one feed to its end and calls the host functions that its code asks for.

    Everything of the library's, and the decoding of what the code sends, happens in the worker's
    thread; only host functions run on the loop. A call that the code did not await is made all
    the same, and waited for.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        functions: Mapping[str, HostFunction],
        parameters: Parameters,
        limits: SandboxLimits,
        running: set[asyncio.Task[Any]],
    ) -> None:
        """`running` keeps the host functions that are under way, for their owner to see."""
        self.stopped_because = ""
        """Of which limit of ours it died; empty when it was none."""
        self.printed = Printed(limits.printed_bytes, flooded=self._flooded)
        self._left_bytes = _TOTAL * limits.result_bytes
        self._refused = 0
        self._worker = worker
        self._functions = functions
        self._parameters = parameters
        self._limits = limits
        self._running = running
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._new: list[_Call] = []
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._names: dict[int, str] = {}

    async def feed(self, code: str, inputs: Mapping[str, Any], *, typed: bool) -> None:
        """Raises pm.MontyError. Cancelled, it leaves the worker dead or in the middle of the
        code: end it. Host functions are cancelled at the end, and given a moment for it."""
        request: _Request = partial(
            self._worker.session.feed_start,
            # The value of a last expression would cross to us, however large; a line between,
            # so that a backslash at the end of the code continues onto nothing.
            f"{code}\n\npass",
            inputs=dict(inputs) or None,
            print_callback=self.printed.take,
            skip_type_check=not typed,
        )
        try:
            while blocked := await self._worker.ask(partial(self._advance, request)):
                self._begin()
                done = await self._some_of(blocked.pending_call_ids)
                request = partial(self._resume, blocked, done)
            self._begin()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
                self._complain(self._tasks)
        finally:
            await self._stop()

    def _advance(self, request: _Request) -> pm.FutureSnapshot | None:
        """In the worker's thread. Until the code waits for calls, or ends (None)."""
        snapshot = request()
        while True:
            match snapshot:
                case pm.MontyComplete():
                    return None
                case pm.FutureSnapshot():
                    return snapshot
                case pm.NameLookupSnapshot():
                    snapshot = self._look_up(snapshot)
                case pm.FunctionSnapshot(is_os_function=True):
                    snapshot = snapshot.resume_not_handled()
                case pm.FunctionSnapshot():
                    snapshot = snapshot.resume(self._called(snapshot))

    def _look_up(self, snapshot: pm.NameLookupSnapshot) -> pm.SyncSnapshot:
        name = snapshot.variable_name
        if name not in self._functions or snapshot.object_id is not None:
            return snapshot.resume()

        def stand_in() -> None:
            """Never called: only its name crosses."""

        stand_in.__name__ = name
        return snapshot.resume(value=stand_in)

    def _called(self, snapshot: pm.FunctionSnapshot) -> pm.ExternalResult:
        name = snapshot.function_name
        if name not in self._functions:
            return {"exc_type": "NameError", "message": f"name {name!r} is not defined"}
        try:
            arguments = self._arguments(name, snapshot.args, snapshot.kwargs)
        except TooLarge as error:
            self._stop_because(f"{name}() was given too much: {error}")
            return _NOTHING
        except TypeError as error:
            return self._refuse("TypeError", f"{name}(): {error}")
        except ValueError as error:
            return self._refuse("ValueError", f"{name}(): {error}")
        self._new.append(_Call(snapshot.call_id, name, arguments))
        return {"future": ...}

    def _refuse(self, kind: Literal["TypeError", "ValueError"], message: str) -> pm.ExternalResult:
        self._refused += 1
        if self._refused > _REFUSALS:
            self._stop_because(f"it made more than {_REFUSALS} calls that were refused; {message}")
        return {"exc_type": kind, "message": message}

    def _flooded(self) -> None:
        self._stop_because(
            f"it printed far more than the {self._limits.printed_bytes:,} bytes that are kept: "
            "print only what the answer needs"
        )

    def _stop_because(self, limit: str) -> None:
        """Not by an exception, which code could catch and go on: to decode what a call is given
        holds the GIL, up to a quarter of a second for all that a worker's memory can hold."""
        self.stopped_because = limit
        self._worker.kill()

    def _arguments(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        given = dict(kwargs)
        if args:
            names = self._parameters(name)
            if len(args) > len(names):
                raise TypeError("give its arguments by name, NAME=VALUE")
            for position, value in zip(names, args, strict=False):
                if position in given:
                    raise TypeError(f"{position} was given twice")
                given[position] = value
        left = self._limits.result_bytes
        copied = {}
        for position, value in given.items():
            copied[position], size = argument(position, value, most_bytes=left)
            left -= size
        self._left_bytes -= self._limits.result_bytes - left
        if self._left_bytes < 0:
            raise TooLarge(
                f"all calls together get {_TOTAL * self._limits.result_bytes:,} bytes at most"
            )
        return copied

    def _begin(self) -> None:
        for call in self._new:
            task = asyncio.create_task(self._bounded(call), name=f"sandbox:{call.name}")
            # One that does not end when cancelled outlives this run: the loop holds it weakly.
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._names[call.id] = call.name
            self._tasks[call.id] = task
        self._new.clear()

    async def _bounded(self, call: _Call) -> Any:
        async with self._slots:
            return await self._functions[call.name](**call.arguments)

    async def _some_of(self, pending: Iterable[int]) -> dict[int, asyncio.Task[Any]]:
        """Those that are done, at least one; they are forgotten here."""
        waiting = {identity: self._tasks[identity] for identity in pending}
        await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
        done = {identity: task for identity, task in waiting.items() if task.done()}
        for identity in done:
            del self._tasks[identity]
        return done

    def _resume(
        self, blocked: pm.FutureSnapshot, done: Mapping[int, asyncio.Task[Any]]
    ) -> pm.SyncSnapshot:
        """In the worker's thread."""
        settled: dict[int, pm.ExternalSettledResult] = {
            identity: self._settled(self._names[identity], task) for identity, task in done.items()
        }
        return blocked.resume(settled)

    def _settled(self, name: str, task: asyncio.Task[Any]) -> _Settled:
        failed: _Settled = {"exc_type": "RuntimeError", "message": f"{name}() failed"}
        if task.cancelled():
            return failed
        if task.exception() is not None:
            self._complain({0: task})
            return failed
        try:
            return {"return_value": returned(task.result(), most_bytes=self._limits.result_bytes)}
        except TooLarge as error:
            return {"exc_type": "ValueError", "message": f"{name}(): {error}"}
        except TypeError:
            _log.exception("a host function of the sandbox gave what is not JSON")
            return failed

    def _complain(self, tasks: Mapping[int, asyncio.Task[Any]]) -> None:
        """A host function promises not to raise. Its words may hold secrets: they are for our log,
        never for the code."""
        for task in tasks.values():
            if not task.cancelled() and (error := task.exception()):
                _log.error("a host function raised: %s", task.get_name(), exc_info=error)

    async def _stop(self) -> None:
        tasks = set(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        ended, late = await asyncio.wait(tasks, timeout=_GRACE_S)
        for task in ended:
            if not task.cancelled():
                task.exception()
        for task in late:
            _log.error("a host function did not end when cancelled: %s", task.get_name())
