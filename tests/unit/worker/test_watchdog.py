"""A blocked loop is noticed, its tool named, and the process ended; a slow one is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import wait_until
from tests.unit.evaluation.world import tool
from triage.worker.watchdog import (
    EXIT_BLOCKED,
    Blocked,
    ToolMark,
    Watchdog,
    blocked_last_time,
)

SHA = "0123456789abcdef" * 4


class Bench:
    def __init__(self, folder: Path, *, limit_s: float = 0.3) -> None:
        self.mark = ToolMark(folder / "running-tool")
        self.accused: list[Blocked] = []
        self.codes: list[int] = []
        self.lags: list[float] = []
        self.beaten = asyncio.Event()
        """Set when five beats have come."""
        self.ended = threading.Event()
        self.watchdog = Watchdog(
            limit_s=limit_s,
            mark=self.mark,
            dump=folder / "blocked.txt",
            on_blocked=self.accused.append,
            lag=self._lag,
            end=self._end,
        )

    def _lag(self, seconds: float) -> None:
        self.lags.append(seconds)
        if len(self.lags) == 5:
            self.beaten.set()

    def _end(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()


def block(ended: threading.Event) -> None:
    """As `while True: pass` in a tool would, until the watchdog has spoken."""
    assert ended.wait(30), "the watchdog did not notice"


async def test_a_blocked_loop_is_reported_with_the_tool_that_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.mark.open()
    beating = asyncio.create_task(bench.watchdog.run())
    await asyncio.sleep(0)
    culprit = tool("bad")
    bench.mark.enter(culprit)
    block(bench.ended)
    bench.mark.leave()
    beating.cancel()
    await asyncio.wait([beating])
    bench.mark.close()
    assert bench.codes == [EXIT_BLOCKED]
    (blocked,) = bench.accused
    assert (blocked.node, blocked.tool_sha256) == ("bad", culprit.sha256)
    assert "in block" in blocked.stack


async def test_without_a_tool_nobody_is_accused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    beating = asyncio.create_task(bench.watchdog.run())
    await asyncio.sleep(0)
    bench.mark.enter(tool("innocent"))
    bench.mark.leave()
    block(bench.ended)
    beating.cancel()
    await asyncio.wait([beating])
    (blocked,) = bench.accused
    assert (blocked.node, blocked.tool_sha256) == ("", "")
    assert bench.codes == [EXIT_BLOCKED]


async def test_the_process_ends_even_when_the_report_fails(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def report(_: Blocked) -> None:
        raise OSError("disk full")

    died: list[BaseException | None] = []
    hook, threading.excepthook = threading.excepthook, lambda about: died.append(about.exc_value)
    try:
        watchdog = Watchdog(
            limit_s=0.3,
            mark=bench.mark,
            dump=tmp_path / "blocked.txt",
            on_blocked=report,
            lag=bench.lags.append,
            end=bench._end,  # noqa: SLF001 - its own
        )
        beating = asyncio.create_task(watchdog.run())
        await asyncio.sleep(0)
        block(bench.ended)
        wait_until(lambda: bool(died), what="the watchdog's thread")
    finally:
        threading.excepthook = hook
    beating.cancel()
    await asyncio.wait([beating])
    assert bench.codes == [EXIT_BLOCKED]
    assert isinstance(died[0], OSError)


async def test_a_loop_that_turns_is_left_alone_and_its_lag_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limit_s=20)
    beating = asyncio.create_task(bench.watchdog.run())
    async with asyncio.timeout(30):
        await bench.beaten.wait()
    beating.cancel()
    await asyncio.wait([beating])
    assert bench.accused == []
    assert bench.codes == []
    assert all(lag >= 0 for lag in bench.lags)
    assert not (tmp_path / "blocked.txt").exists()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL


# --- the mark -------------------------------------------------------------------------------------


def test_the_mark_is_in_the_file_while_the_tool_runs_and_gone_after(tmp_path: Path) -> None:
    path = tmp_path / "running-tool"
    mark = ToolMark(path)
    mark.open()
    assert path.read_bytes().strip(b"\0") == b""
    one = tool("a")
    mark.enter(one)
    assert path.read_bytes() == one.sha256.encode()
    assert mark.running is one
    mark.leave()
    assert path.read_bytes().strip(b"\0") == b""
    mark.close()
    assert not path.exists()


def test_a_mark_that_was_never_opened_only_remembers(tmp_path: Path) -> None:
    mark = ToolMark(tmp_path / "running-tool")
    mark.enter(tool("a"))
    assert mark.running is not None
    mark.leave()
    mark.close()
    assert not (tmp_path / "running-tool").exists()


# --- the last time --------------------------------------------------------------------------------


@pytest.fixture
def left(tmp_path: Path) -> Callable[..., Blocked | None]:
    """What is read from a dump and a mark with these contents, None for no file."""
    dump, mark = tmp_path / "blocked.txt", tmp_path / "running-tool"

    def read(stack: bytes | None, tool: bytes | None) -> Blocked | None:
        for path, body in ((dump, stack), (mark, tool)):
            if body is not None:
                path.write_bytes(body)
        found = blocked_last_time(dump, mark)
        assert not dump.exists()
        assert stack is None or not mark.exists()
        return found

    return read


def test_a_dump_accuses_the_tool_of_the_mark(left: Callable[..., Blocked | None]) -> None:
    found = left(b'Thread 0x1\n  File "v1.py", line 3\n', SHA.encode())
    assert found == Blocked(tool_sha256=SHA, node="", stack='Thread 0x1\n  File "v1.py", line 3\n')


@pytest.mark.parametrize("tool", [SHA.encode(), bytes(64), None], ids=["tool", "none", "no mark"])
@pytest.mark.parametrize("stack", [b"", b" \n", None], ids=["empty", "blank", "no dump"])
def test_a_process_that_was_killed_accuses_nobody(
    left: Callable[..., Blocked | None], stack: bytes | None, tool: bytes | None
) -> None:
    assert left(stack, tool) is None


@pytest.mark.parametrize("tool", [bytes(64), b"", None], ids=["no tool", "empty", "no mark"])
def test_a_dump_without_a_tool_names_none(
    left: Callable[..., Blocked | None], tool: bytes | None
) -> None:
    found = left(b"Thread 0x1\n", tool)
    assert found is not None
    assert found.tool_sha256 == ""


def test_a_mark_of_rubbish_is_no_crash(left: Callable[..., Blocked | None]) -> None:
    found = left(b"Thread \xff\n", b"\xff\xfe" * 32)
    assert found is not None
    assert found.stack.startswith("Thread ")


# --- on a process of its own ----------------------------------------------------------------------

PROGRAM = """
import asyncio, re, sys
from pathlib import Path
from tests.unit.evaluation.world import tool
from triage.worker.watchdog import ToolMark, Watchdog

async def main():
    folder = Path(sys.argv[1])
    mark = ToolMark(folder / "running-tool")
    mark.open()
    watchdog = Watchdog(limit_s=0.3, mark=mark, dump=folder / "blocked.txt",
                        on_blocked=lambda blocked: print(blocked.tool_sha256, flush=True),
                        lag=lambda _: None)
    beating = asyncio.create_task(watchdog.run())
    await asyncio.sleep(0)
    print("ready", flush=True)
    if sys.argv[2] != "idle":
        mark.enter(tool("bad"))
    if sys.argv[2] == "loop":
        while True: pass
    if sys.argv[2] == "regex":
        re.match("(a+)+$", "a" * 60 + "b")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print("done", flush=True)

asyncio.run(main())
"""


def started(folder: Path, what: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(  # noqa: S603 - the argv is made here
        [sys.executable, "-c", PROGRAM, str(folder), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_loop_without_an_end_ends_the_process(tmp_path: Path) -> None:
    process = started(tmp_path, "loop")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_BLOCKED
    assert out == f"{tool('bad').sha256}\n"
    assert blocked_last_time(tmp_path / "blocked.txt", tmp_path / "running-tool") is None


def test_a_regular_expression_that_holds_the_interpreter_lock_does_too(tmp_path: Path) -> None:
    process = started(tmp_path, "regex")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGPROF
    assert out == "", "the thread had no chance"
    found = blocked_last_time(tmp_path / "blocked.txt", tmp_path / "running-tool")
    assert found is not None
    assert found.tool_sha256 == tool("bad").sha256
    assert "re/__init__.py" in found.stack


def test_a_process_that_was_stopped_for_longer_than_any_limit_goes_on(tmp_path: Path) -> None:
    """A suspended container or a debugger is no blocked loop."""
    process = started(tmp_path, "idle")
    os.kill(process.pid, signal.SIGSTOP)
    status = Path(f"/proc/{process.pid}/status")
    wait_until(lambda: "State:\tT" in status.read_text(), what="the stop")
    begun = os.times().elapsed
    wait_until(lambda: os.times().elapsed - begun > 1.5, what="five limits")
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(input="", timeout=60)
    assert (process.returncode, out) == (0, "done\n"), err
