"""A session: runs that share the names their code defines."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import pydantic_monty as pm

from triage.adapters.sandbox import wording
from triage.adapters.sandbox.run import Run
from triage.adapters.sandbox.values import clean, clean_text
from triage.errors import SandboxFailed
from triage.ports import SandboxError, SandboxRun

if TYPE_CHECKING:
    from triage.adapters.sandbox.limits import SandboxLimits
    from triage.adapters.sandbox.worker import Worker
    from triage.ports import HostFunction

SPOILING = frozenset({"limit", "crash"})


class MontySession:
    """One run at a time. The type checker knows what `stubs` declare and what earlier runs
    defined, nothing of the prelude's text: checking that again each time would cost more than
    the run."""

    def __init__(
        self,
        worker: Callable[[str], Awaitable[Worker]],
        *,
        prelude: str,
        stubs: str,
        functions: Mapping[str, HostFunction],
        inputs: Mapping[str, Any],
        limits: SandboxLimits,
        running: set[asyncio.Task[Any]],
    ) -> None:
        """`worker` gives a fresh one whose type checker has the stubs."""
        self._new_worker = worker
        self._prelude = prelude
        self._stubs = stubs
        self._functions = dict(functions)
        self._inputs = {name: clean(value) for name, value in inputs.items()}
        self._limits = limits
        self._running = running
        self._worker: Worker | None = None
        self._declared: dict[str, list[str]] | None = None

    async def begin(self) -> None:
        """Raises SandboxFailed. Cancelled, `end` is still to be called."""
        self._worker = await self._new_worker(self._stubs)
        run = self._run_in(self._worker)
        try:
            await run.feed(self._prelude, self._inputs, typed=False)
        except pm.MontyConversionError as error:
            raise SandboxFailed(f"inputs of the sandbox must be JSON types: {error}") from error
        except pm.MontyError as error:
            told = wording.error_of(error, self._prelude, self._limits)
            raise SandboxFailed(f"the prelude of the sandbox failed: {told.text}") from error

    async def run(self, code: str, *, timeout_s: float) -> SandboxRun:
        code = clean_text(code)
        printed = ""
        limit = asyncio.timeout(timeout_s)
        ended = False
        try:
            async with limit:
                if self._worker is None or self._worker.is_ended:
                    await self.begin()
                assert self._worker is not None
                run = self._run_in(self._worker)
                try:
                    error = await self._error_of(run, code)
                finally:
                    printed = run.printed.text
                ended = error is None or error.kind not in SPOILING
        except TimeoutError:
            if not limit.expired():
                raise
            error = SandboxError("limit", wording.too_long(timeout_s))
        finally:
            if not ended:
                await self.end(spoiled=True)
        return SandboxRun(printed, error)

    async def _error_of(self, run: Run, code: str) -> SandboxError | None:
        error = None
        try:
            await run.feed(code, {}, typed=True)
        except pm.MontyError as raised:
            error = wording.error_of(raised, code, self._limits)
        # Asked even after a good end, which may have been on its way when the worker was killed.
        if run.stopped_because:
            return SandboxError("limit", wording.stopped(run.stopped_because))
        return error

    def _run_in(self, worker: Worker) -> Run:
        return Run(
            worker,
            functions=self._functions,
            parameters=self._parameters,
            limits=self._limits,
            running=self._running,
        )

    def _parameters(self, function: str) -> list[str]:
        if self._declared is None:
            self._declared = _positions(self._stubs)
        return self._declared.get(function, [])

    async def end(self, *, spoiled: bool = False) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end(spoiled=spoiled)


def _positions(stubs: str) -> dict[str, list[str]]:
    """Which parameters of each function may be given without their names."""
    return {
        node.name: [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        for node in ast.parse(stubs).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
