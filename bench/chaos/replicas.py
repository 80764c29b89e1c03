"""Replicas under a supervisor, which starts again what ended, as systemd or Kubernetes would."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.served import ServedTriage

RESTART_S = 1.0  # before what ended by itself is started again
POLL_S = 0.03
DRAIN_S = 60.0
SHOWN = 500  # characters
_BAD = re.compile(r'"level":"(error|critical)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A daemon that ended without being told to. `at` is seconds of `time.time`, `said` the last
    that was wrong by its log."""

    replica: int
    at: float
    code: int
    said: str


@dataclass(slots=True, kw_only=True)
class Times:
    """What was done to a replica, in seconds of `time.time`."""

    started: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    stopped: list[tuple[float, float]] = field(default_factory=list)


class Replica(ServedTriage):
    """One daemon, its port and its folder the same over all restarts. `supervise` runs it."""

    def __init__(
        self, number: int, folder: Path, config: Path, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder, config, settings)
        self.number = number
        self.name = f"replica-{number}"
        self.times = Times()
        self.exits: list[Exit] = []
        self.is_stopped = False
        self._back_after_s: float | None = None
        self._ending = False
        self._log_began = 0

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> subprocess.Popen[bytes]:
        self._log_began = self.log.stat().st_size if self.log.exists() else 0
        process = super().spawn()
        self.times.started.append(time.time())
        return process

    async def supervise(self) -> None:
        """Until `terminate` or cancelled; the process is then the caller's to end."""
        while not self._ending:
            code = await _end_of(self.spawn())
            pause, self._back_after_s = self._back_after_s, None
            if self._is_ending():
                return
            if pause is None:
                self.exits.append(
                    Exit(replica=self.number, at=time.time(), code=code, said=self.last_words())
                )
                pause = RESTART_S
            await asyncio.sleep(pause)

    def kill_for(self, pause_s: float) -> bool:
        """SIGKILL; the supervisor starts it after `pause_s`. False when it does not run."""
        if not self.is_alive or self._back_after_s is not None:
            return False
        assert self.process is not None
        self._back_after_s = pause_s
        self.times.killed.append(time.time())
        self.process.kill()
        return True

    async def stop_for(self, seconds: float) -> bool:
        """SIGSTOP, and SIGCONT after so long, unless it was killed meanwhile."""
        if not self.is_alive or self.is_stopped or self._back_after_s is not None:
            return False
        process = self.process
        assert process is not None
        began = time.time()
        process.send_signal(signal.SIGSTOP)
        self.is_stopped = True
        try:
            await asyncio.sleep(seconds)
        finally:
            self.is_stopped = False
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
            self.times.stopped.append((began, time.time()))
        return True

    async def terminate(self) -> int:
        """SIGTERM, and the exit code: 0 when nothing was left undone. Killed when it does not end
        in DRAIN_S."""
        self._ending = True
        process = self.process
        if process is None:
            return 0
        if process.poll() is None:
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await _end_of(process)
        self.kill()
        return process.returncode

    def _is_ending(self) -> bool:
        return self._ending

    def last_words(self) -> str:
        """What this run of it said last that is bad, or is no line of the log at all."""
        with self.log.open("rb") as log:
            log.seek(self._log_began)
            lines = log.read().decode(errors="replace").splitlines()
        bad = [one for one in lines if not one.startswith("{") or _BAD.search(one)]
        return bad[-1][:SHOWN] if bad else ""


async def _end_of(process: subprocess.Popen[bytes]) -> int:
    """The exit code. Polled: a thread that waits would keep a run that is cancelled from ending."""
    while (code := process.poll()) is None:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(POLL_S)
    return code


@contextlib.contextmanager
def surely_ended(replicas: list[Replica]) -> Iterator[None]:
    """Whatever happens inside, none of them is left: by process id."""
    try:
        yield
    finally:
        for replica in replicas:
            replica.kill()
