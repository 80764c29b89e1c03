"""A private NATS server with JetStream on loopback, for benchmarks and tests: a free port, its
files in a folder of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.brokers import BrokerServer
from bench.servers import HOST, binary, free_port


class NatsServer(BrokerServer):
    """`extra` is more of its configuration file: an authorization block, say. With `monitored` it
    answers HTTP on `monitoring_url`. Raises MissingServer."""

    name = "nats"
    greetings = (b"INFO ",)
    """It greets a client once JetStream has read its files."""

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
    def config(self) -> str:
        lines = [f"listen: {HOST}:{self.port}"]
        if self._jetstream:
            lines.append(f'jetstream {{ store_dir: "{self.data}" }}')
        if self._monitoring_port:
            lines.append(f"http: {HOST}:{self._monitoring_port}")
        return "\n".join([*lines, self._extra, ""])

    def argv(self) -> list[str]:
        return [self._binary, "--config", str(self.folder / "nats.conf")]

    def spawn(self) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "nats.conf").write_text(self.config)
        return super().spawn()

    def stop(self) -> None:
        """SIGTERM: it writes what it has in memory. Gone when this returns."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
