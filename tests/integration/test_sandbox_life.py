"""The sandbox: how it starts, shares its workers out, and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.sandbox_world import (
    INPUTS,
    LIMITS,
    LONG_S,
    Hanging,
    opened,
    run_once,
    serves,
    session_of,
)
from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.errors import SandboxFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.both_loops


@pytest.fixture
async def sandbox() -> AsyncIterator[MontySandbox]:
    async with opened() as made:
        yield made


async def test_a_session_waits_for_a_worker_and_then_gives_up() -> None:
    async with opened(wait_s=0.01) as sandbox, session_of(sandbox):
        with pytest.raises(SandboxFailed, match="all 1 workers of the sandbox were taken"):
            await run_once(sandbox, "1")


async def test_a_session_gets_the_worker_of_one_that_leaves(sandbox: MontySandbox) -> None:
    async with session_of(sandbox):
        waiting = asyncio.create_task(serves(sandbox))
    await waiting


async def test_workers_are_replaced_after_so_many_sessions() -> None:
    limits = SandboxLimits(workers=1, checkouts_a_worker=2)
    pids: list[int] = []
    async with opened(limits) as sandbox:  # trying it was the first of the two
        for _ in range(5):
            async with session_of(sandbox):
                pids += sandbox.worker_pids
    assert pids[1] == pids[2] != pids[0]
    assert pids[3] == pids[4] != pids[2]


@pytest.mark.parametrize(
    ("prelude", "inputs", "problem"),
    [
        ("def broken(:", INPUTS, "the prelude of the sandbox failed: line 1"),
        ("1 / 0", INPUTS, "the prelude of the sandbox failed: .*"),
        ("", {"site": object()}, "inputs of the sandbox must be JSON types"),
    ],
)
async def test_a_faulty_prelude_or_input_is_no_fault_of_the_code(
    sandbox: MontySandbox, prelude: str, inputs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SandboxFailed, match=problem):
        async with sandbox.session(prelude=prelude, stubs="", functions={}, inputs=inputs):
            pass
    await serves(sandbox)


@pytest.mark.parametrize("binary", ["/no/such/program", "/bin/true"])
async def test_workers_that_cannot_start_are_told_not_raised(binary: str) -> None:
    sandbox = MontySandbox(LIMITS, binary=Path(binary))
    await sandbox.open()
    assert sandbox.trouble.startswith("the sandbox cannot start: ")
    with pytest.raises(SandboxFailed, match="the sandbox cannot start: "):
        await run_once(sandbox, "1")
    await sandbox.close()


async def test_a_worker_that_cannot_be_replaced_fails_the_session(tmp_path: Path) -> None:
    program = tmp_path / "worker"
    program.symlink_to(Path(sys.executable).parent / "monty")
    sandbox = MontySandbox(LIMITS, binary=program)
    await sandbox.open()
    assert sandbox.trouble == ""
    program.unlink()
    async with session_of(sandbox) as session:
        (pid,) = sandbox.worker_pids
        os.kill(pid, signal.SIGKILL)
        run = await session.run("1", timeout_s=LONG_S)
        assert run.error is not None
        assert run.error.kind == "crash"
        with pytest.raises(SandboxFailed, match="no worker of the sandbox could be started"):
            await session.run("1", timeout_s=LONG_S)
    program.symlink_to(Path(sys.executable).parent / "monty")
    await serves(sandbox)
    await sandbox.close()


async def test_closing_ends_what_runs() -> None:
    hanging = Hanging()
    async with opened() as sandbox:
        run = asyncio.create_task(run_once(sandbox, "await ask()", {"ask": hanging}))
        await hanging.began.wait()
        (pid,) = sandbox.worker_pids
        await sandbox.close()
        assert sandbox.trouble == "the sandbox is closed"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with pytest.raises(SandboxFailed, match="closed"):
            await run_once(sandbox, "1")
        await sandbox.close()


async def test_closing_ends_code_that_executes() -> None:
    began = asyncio.Event()

    async def ask(**_arguments: Any) -> None:
        began.set()

    limits = SandboxLimits(workers=1, feed_s=LONG_S)
    async with opened(limits) as sandbox:
        code = "await ask()\nwhile True:\n    pass"
        run = asyncio.create_task(run_once(sandbox, code, {"ask": ask}))
        await began.wait()
        await sandbox.close()
        try:
            ended = await run
        except SandboxFailed:  # it was about to go on
            return
    assert ended.error is not None
    assert ended.error.kind == "crash"


async def test_closing_what_was_never_opened() -> None:
    await MontySandbox().close()


PROGRAM = """
import asyncio, sys
from triage.adapters.sandbox import MontySandbox, SandboxLimits

async def answer(**arguments):
    return {"ok": True}

async def main():
    sandbox = MontySandbox(SandboxLimits(workers=1, feed_s=0.5))
    await sandbox.open()
    stubs = "async def ask() -> dict[str, object]: ..."
    async with sandbox.session(
        prelude="", stubs=stubs, functions={"ask": answer}, inputs={}
    ) as session:
        print((await session.run(sys.argv[2], timeout_s=60)).error)
        if "unclosed" in sys.argv:
            return
    await sandbox.close()

if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("ending", ["closed", "unclosed"])
@pytest.mark.parametrize(("loop", "times"), [("asyncio", 10), ("uvloop", 3)])
def test_a_program_that_ran_code_ends_well(loop: str, times: int, ending: str) -> None:
    """Time and again: an interpreter that is woken by a thread while it ends aborts now and then
    only (one time in eight, with the library's own asyncio front, and never on uvloop)."""
    for _ in range(times):
        ended = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", PROGRAM, loop, "for i in range(5):\n    await ask()", ending],
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "None\n", "")


def said_of(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text(encoding="utf-8")


async def test_a_worker_has_no_environment_and_no_files_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIAGE_TEST_SECRET", "hunter2")
    async with opened() as sandbox, session_of(sandbox):
        (pid,) = sandbox.worker_pids
        environment, limits = said_of(pid, "environ"), said_of(pid, "limits")
    assert environment.strip("\0") == ""
    assert "Max file size             0" in limits
    assert "Max core file size        0" in limits
