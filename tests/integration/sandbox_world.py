"""A sandbox with small limits, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.ports import HostFunction, SandboxRun, SandboxSession

LONG_S = 60.0  # for what must end by another limit: no assertion depends on how soon
SHORT_S = 0.3  # for what only the outer limit ends

LIMITS = SandboxLimits(
    memory_bytes=32 << 20,
    feed_s=0.5,
    suspensions=200,
    printed_bytes=1_000,
    result_bytes=10_000,
    workers=1,
)

PRELUDE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Reading:
    value: float

def mean(readings):
    return sum(each.value for each in readings) / len(readings)

def anything(value):
    return value

def site_name():
    return site["name"]
"""

STUBS = """
from typing import Any
site: dict[str, str]
class Reading:
    value: float
    def __init__(self, value: float) -> None: ...
def mean(readings: list[Reading]) -> float: ...
def anything(value: object) -> Any: ...
def site_name() -> str: ...
async def ask(selector: Any = "", window: Any = 0) -> dict[str, Any]: ...
async def submit(*, verdict: str) -> dict[str, Any]: ...
"""

INPUTS = {"site": {"name": "north"}}


class Host:
    """Host functions that answer with what they were asked, and remember it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.submitted: list[str] = []

    async def ask(self, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments)
        return {"ok": True, "data": arguments, "error": ""}

    async def submit(self, *, verdict: str) -> dict[str, Any]:
        self.submitted.append(verdict)
        return {"ok": True, "data": None, "error": ""}

    @property
    def functions(self) -> dict[str, HostFunction]:
        return {"ask": self.ask, "submit": self.submit}


class Hanging:
    """A host function that never returns; `began` is set when it is called."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, **_arguments: Any) -> Any:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@asynccontextmanager
async def opened(
    limits: SandboxLimits = LIMITS, *, wait_s: float = LONG_S
) -> AsyncIterator[MontySandbox]:
    sandbox = MontySandbox(limits, wait_s=wait_s)
    await sandbox.open()
    try:
        assert sandbox.trouble == ""
        yield sandbox
    finally:
        await sandbox.close()


def session_of(
    sandbox: MontySandbox, functions: Mapping[str, HostFunction] | None = None
) -> AbstractAsyncContextManager[SandboxSession]:
    return sandbox.session(
        prelude=PRELUDE,
        stubs=STUBS,
        functions=Host().functions if functions is None else functions,
        inputs=INPUTS,
    )


async def run_once(
    sandbox: MontySandbox,
    code: str,
    functions: Mapping[str, HostFunction] | None = None,
    *,
    timeout_s: float = LONG_S,
) -> SandboxRun:
    async with session_of(sandbox, functions) as session:
        return await session.run(code, timeout_s=timeout_s)


async def serves(sandbox: MontySandbox) -> None:
    """Fails unless an ordinary session works."""
    host = Host()
    code = """
reading = mean([Reading(1.0), Reading(3.0)])
answer = await ask(selector="up")
await submit(verdict="true")
print(site_name(), reading, answer["ok"], 'left' in locals())
"""
    assert await run_once(sandbox, code, host.functions) == SandboxRun("north 2.0 True False\n")
    assert host.submitted == ["true"]
    assert sandbox.worker_pids == frozenset()
