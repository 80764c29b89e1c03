"""A private Redis server on loopback, for benchmarks and tests: a free port, its files in a folder
of its own, every write on disk before it is answered unless its flags say otherwise."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.servers import HOST, Server, binary, wait_until

PROBE_S = 1.0


class RedisServer(Server):
    """The port and the files stay the same over restarts. `flags` come after the ones given here,
    and so win: `("--appendonly", "no")`. Raises MissingServer."""

    name = "redis"

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("redis-server")
        self._flags = list(flags)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def argv(self) -> list[str]:
        return [
            self._binary,
            *("--bind", HOST, "--port", str(self.port)),
            *("--dir", str(self.data), "--daemonize", "no"),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *self._flags,
        ]

    def start(self) -> Self:
        """Returns when it answers PING. Raises RuntimeError with the end of its log."""
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        try:
            wait_until(self.answers, what=self.name, process=self.process)
        except RuntimeError as error:
            self.kill()
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{error}\n{tail}") from None
        return self

    def answers(self) -> bool:
        """Whether it takes commands: one that still loads its files does not. A server that wants
        a password says so only then."""
        try:
            with socket.create_connection((HOST, self.port), PROBE_S) as link:
                link.settimeout(PROBE_S)
                link.sendall(b"*1\r\n$4\r\nPING\r\n")
                return link.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def restart(self) -> None:
        """SIGKILL, and ready again when this returns."""
        self.kill()
        self.start()

    def lose_files(self) -> None:
        """As a new disk would. The server must not run."""
        if self.process is not None:
            raise RuntimeError("stop the server first: it holds its files open")
        shutil.rmtree(self.data, ignore_errors=True)

    def pause(self) -> None:
        """SIGSTOP: it takes connections still, by the kernel's grace, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None:
            raise RuntimeError("the server does not run")
        self.process.send_signal(number)
