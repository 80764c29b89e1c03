"""The servers behind the replicas: a broker, PostgreSQL, and how they are killed."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from bench.real_servers.postgres import PostgresServer, postgres_binaries
from bench.servers import HOST, binary, free_port

CONNECTIONS = 200  # of replicas that were killed some last until the server notices
SERVER_S = 60.0


class KillablePostgres(PostgresServer):
    """Synchronous, as a store is to be, and with room for the connections of the dead."""

    def start(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": str(self.home),
            "max_connections": str(CONNECTIONS),
            "timezone": "America/New_York",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        ends = time.monotonic() + SERVER_S
        while True:
            try:
                self._control("start", "-l", str(self.home / "log"), "-o", options)
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


@contextlib.contextmanager
def killable_postgres() -> Iterator[KillablePostgres]:
    """Raises MissingServer without PostgreSQL."""
    binaries = postgres_binaries()
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(home, account.pw_uid, account.pw_gid)
        server = KillablePostgres(binaries, home, free_port())
        server.create()
        server.start()
        try:
            yield server
        finally:
            if server.running:
                with contextlib.suppress(RuntimeError):  # it was down already
                    server.stop("immediate")
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Broker(Protocol):
    """What this needs of RedisServer and NatsServer."""

    port: int

    def start(self) -> object: ...

    def kill(self) -> None: ...

    def lose_files(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def make_broker(name: str, folder: Path) -> Broker:
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
