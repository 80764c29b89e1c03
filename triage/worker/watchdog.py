"""Notices a blocked event loop, names the tool that blocks it, and ends the process.

Two tiers. A thread sees that the loop has missed its beats, writes down the culprit and exits. A
tool that holds the interpreter lock (a runaway regular expression does) stops that thread too, so
every beat also winds up a timer of the kernel that counts the process's CPU time: when it runs
down, `faulthandler`'s signal handler, which needs no lock, dumps the stacks to a file and the
signal ends the process. The file, and the mark of the tool that was running, are read at the next
start. CPU time, because whoever holds the lock burns it, and a process that was stopped does not.
"""

from __future__ import annotations

import asyncio
import faulthandler
import mmap
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import structlog

from triage.library.catalogue import Tool

CHECK_S = 0.1  # seconds between two looks at the loop
EXIT_BLOCKED = 70  # sysexits: EX_SOFTWARE
LAST_RESORT = 3.0  # times the limit, in CPU time of all threads, until the thread is given up on
_MARK_BYTES = 64  # a SHA-256 in hex


class ToolMark:
    """Which tool's code is running now, readable after the process is gone.

    Implements `judge.Marker`. A write is a copy of 64 bytes into a shared page: the kernel keeps
    it when the process is killed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._page: mmap.mmap | None = None
        self.running: Tool | None = None

    def open(self) -> None:
        self._file = self._path.open("w+b")
        self._file.write(bytes(_MARK_BYTES))
        self._file.flush()
        self._page = mmap.mmap(self._file.fileno(), _MARK_BYTES)

    def enter(self, tool: Tool) -> None:
        self.running = tool
        if self._page is not None:
            self._page[:] = tool.sha256.encode()

    def leave(self) -> None:
        self.running = None
        if self._page is not None:
            self._page[:] = _NOTHING

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)


_NOTHING = bytes(_MARK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """`tool_sha256` and `node` are empty when no tool was running. `stack` is the loop's."""

    tool_sha256: str
    node: str
    stack: str


class Watchdog:
    """`limit_s` is how long the loop may miss its beats.

    `on_blocked` runs in the watchdog's thread while the loop is blocked: it must be synchronous,
    and quick. `end` ends the process; it is not expected to return.
    """

    def __init__(
        self,
        *,
        limit_s: float,
        mark: ToolMark,
        dump: Path,
        on_blocked: Callable[[Blocked], None],
        lag: Callable[[float], None],
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._limit_s = limit_s
        self._mark = mark
        self._dump = dump
        self._on_blocked = on_blocked
        self._lag = lag
        self._end = end
        self._beats = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._dump_file: IO[bytes] | None = None
        self._loop_thread = 0

    async def run(self) -> None:
        """Beat until cancelled. Call it from the loop that is watched."""
        self._dump_file = self._dump.open("wb")
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()
        # Chained to what a process does by itself on this signal, which is to end.
        faulthandler.register(signal.SIGPROF, file=self._dump_file, chain=True)
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._beats += 1
                signal.setitimer(signal.ITIMER_PROF, self._limit_s * LAST_RESORT)
                due = loop.time() + CHECK_S
                await asyncio.sleep(CHECK_S)
                self._lag(max(0.0, loop.time() - due))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.unregister(signal.SIGPROF)
            self._stopped.set()
            self._dump_file.close()
            self._dump.unlink(missing_ok=True)

    def _watch(self) -> None:
        seen, missed_s = self._beats, 0.0
        while not self._stopped.wait(CHECK_S):
            if self._beats != seen:
                seen, missed_s = self._beats, 0.0
                continue
            # Its own waits are counted, not a clock: after a suspended laptop or a SIGSTOP the
            # clock would have jumped past the limit with nothing blocked.
            missed_s += CHECK_S
            if missed_s >= self._limit_s:
                self._report()
                return

    def _report(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - its one way in
        tool = self._mark.running
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        try:
            self._on_blocked(
                Blocked(
                    tool_sha256=tool.sha256 if tool else "",
                    node=tool.node if tool else "",
                    stack=stack,
                )
            )
        finally:
            self._end(EXIT_BLOCKED)


def blocked_last_time(dump: Path, mark: Path) -> Blocked | None:
    """What the last resort left behind when it ended the previous process, None if it did not.

    Removes what it read. A killed process leaves an empty dump and accuses nobody.
    """
    try:
        stack = dump.read_text(errors="replace")
    except FileNotFoundError:
        return None
    sha256 = ""
    if stack.strip():
        try:
            sha256 = mark.read_bytes().strip(b"\0").decode("ascii", "replace")
        except FileNotFoundError:
            structlog.get_logger("triage.watchdog").warning("tool_mark_missing", file=str(mark))
    dump.unlink(missing_ok=True)
    mark.unlink(missing_ok=True)
    return Blocked(tool_sha256=sha256, node="", stack=stack) if stack.strip() else None
