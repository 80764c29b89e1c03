"""A private NATS server with JetStream on loopback, for benchmarks and tests: a free port, its
files in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from bench.servers import HOST, Server, binary, free_port, wait_until

PROBE_S = 1.0


class NatsServer(Server):
    """The ports and the files stay the same over restarts. `extra` is more of its configuration
    file: an authorization block, say. With `monitored` it answers HTTP on `monitoring_url`.
    Raises MissingServer."""

    name = "nats"

    def __init__(
        self, folder: Path, *, extra: str = "", jetstream: bool = True, monitored: bool = False
    ) -> None:
        super().__init__(folder)
        self._binary = binary("nats-server")
        self._monitoring_port = free_port() if monitored else 0
        self._extra = extra
        self._jetstream = jetstream

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def monitoring_url(self) -> str:
        return f"http://{HOST}:{self._monitoring_port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> str:
        lines = [f"listen: {HOST}:{self.port}"]
        if self._jetstream:
            lines.append(f'jetstream {{ store_dir: "{self.data}" }}')
        if self._monitoring_port:
            lines.append(f"http: {HOST}:{self._monitoring_port}")
        return "\n".join([*lines, self._extra, ""])

    def argv(self) -> list[str]:
        return [self._binary, "--config", str(self.folder / "nats.conf")]

    def start(self) -> Self:
        """Returns when it greets clients. Raises RuntimeError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "nats.conf").write_text(self.config)
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
        """Whether it greets a client; it does so once JetStream has read its files."""
        try:
            with socket.create_connection((HOST, self.port), PROBE_S) as link:
                link.settimeout(PROBE_S)
                return link.recv(64).startswith(b"INFO ")
        except OSError:
            return False

    def restart(self) -> None:
        """SIGKILL, and ready again when this returns."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """SIGTERM: it writes what it has in memory. Gone when this returns."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def lose_files(self) -> None:
        """As a new disk would. The server must not run."""
        if self.process is not None:
            raise RuntimeError("stop the server first: it holds its files open")
        shutil.rmtree(self.data, ignore_errors=True)

    def pause(self) -> None:
        """SIGSTOP: it takes connections still, by the kernel's grace, and answers nothing. Every
        thread has stopped when this returns."""
        process = self._signal(signal.SIGSTOP)
        wait_until(lambda: _is_stopped(process.pid), what=f"{self.name} to stop")

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError("the server does not run")
        self.process.send_signal(number)
        return self.process


def _is_stopped(pid: int) -> bool:
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
