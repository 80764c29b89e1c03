"""The servers behind the replicas: a broker, PostgreSQL, and how they are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.brokers import BrokerServer
from bench.real_servers.postgres import PostgresServer, postgres_binaries
from bench.servers import binary

CONNECTIONS = 200  # of replicas that were killed some last until the server notices
SERVER_S = 60.0


class KillablePostgres(PostgresServer):
    """Synchronous, as a store is to be, and with room for the connections of the dead."""

    settings = {"max_connections": str(CONNECTIONS)}  # noqa: RUF012 - never written to
    is_killed = True

    def start(self) -> None:
        ends = time.monotonic() + SERVER_S
        while True:
            try:
                super().start()
            except RuntimeError:
                # The shared memory of a killed postmaster lasts as long as its last backend.
                if time.monotonic() > ends:
                    raise
                time.sleep(0.2)
            else:
                return

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """SIGKILL of the postmaster: its backends notice, and end."""
        os.kill(self.pid, signal.SIGKILL)


def make_broker(name: str, folder: Path) -> BrokerServer:
    """`redis` or `nats`, not started yet. Raises MissingServer."""
    if name == "redis":
        from bench.redis_server import RedisServer

        return RedisServer(folder)
    from bench.nats_server import NatsServer

    return NatsServer(folder)


def versions(queue: str, store: str) -> dict[str, str]:
    """What the servers call themselves."""
    asked: dict[str, list[str]] = {}
    if queue == "redis":
        asked["redis"] = [binary("redis-server"), "--version"]
    if queue == "nats":
        asked["nats"] = [binary("nats-server"), "--version"]
    if store == "postgres":
        asked["postgres"] = [str(postgres_binaries() / "postgres"), "--version"]
    return {name: _number(argv) for name, argv in asked.items()}


def _number(argv: list[str]) -> str:
    done: Any = subprocess.run(argv, check=False, capture_output=True, text=True)
    found = re.search(r"[0-9]+(\.[0-9]+)+", done.stdout + done.stderr)
    return found[0] if found else ""
