"""What the private brokers have in common: files that can be lost, and ways to be in trouble."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path

from bench.servers import HOST, Server, wait_until

PROBE_S = 1.0


class BrokerServer(Server):
    """The port and the files stay the same over restarts. A subclass says what it asks of a new
    connection to learn whether the server works, and which answers begin how when it does."""

    probe = b""
    greetings: tuple[bytes, ...] = ()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def spawn(self) -> subprocess.Popen[bytes]:
        self.data.mkdir(parents=True, exist_ok=True)
        return super().spawn()

    def is_ready(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), PROBE_S) as link:
                link.settimeout(PROBE_S)
                link.sendall(self.probe)
                return link.recv(64).startswith(self.greetings)
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
