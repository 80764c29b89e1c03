"""A private PostgreSQL cluster for a benchmark or a test: trust on loopback, a free port.

`pg_ctl -w` waits for readiness and for the end by itself, bounded by `-t`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from bench.servers import HOST, binary, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WAIT_S = 60

P = TypeVar("P", bound="PostgresServer")


class PostgresServer:
    """`url` is for the superuser `postgres`; the server listens on 127.0.0.1 only."""

    settings: ClassVar[Mapping[str, str]] = {"fsync": "off", "max_connections": "20"}
    is_killed: ClassVar[bool] = False
    """It may be down at the end already, its backends still there."""

    def __init__(self, binaries: Path, home: Path, port: int) -> None:
        self.port = port
        self.home = home
        self._binaries = binaries
        self._data = home / "data"
        # initdb and postgres refuse to run as root.
        self._prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def create(self) -> None:
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip

    def start(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": str(self.home),
            # Not the machine's: what came out right by that accident would prove nothing.
            "timezone": "America/New_York",
            **self.settings,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._control("start", "-l", str(self.home / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """`fast` tells sessions, `immediate` is a crash."""
        self._control("stop", "-m", mode)

    @property
    def running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def execute(self, sql: str) -> str:
        """As superuser, by psql; what it printed, unaligned."""
        return self._run(
            "psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-c", sql
        )

    def _control(self, verb: str, *options: str) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", str(WAIT_S), *options, verb)

    def _run(self, program: str, *arguments: str) -> str:
        # Output to a file: the server inherits it, and a pipe would stay open with it.
        with (self.home / f"{program}.out").open("w+b") as out:
            done = subprocess.run(
                [*self._prefix, str(self._binaries / program), *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.home,
                timeout=2 * WAIT_S,
                check=False,
            )
            out.seek(0)
            text = out.read().decode(errors="replace").strip()
        if done.returncode:
            raise RuntimeError(f"{program} failed: {text}")
        return text


def postgres_binaries() -> Path:
    """The folder of the newest that is installed. Raises MissingServer."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    return Path(binary("initdb", package="postgresql")).resolve().parent


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Raises MissingServer without PostgreSQL."""
    with running_cluster(PostgresServer) as server:
        yield server


@contextmanager
def running_cluster(kind: type[P]) -> Iterator[P]:
    """A new one, gone at the end. Raises MissingServer without PostgreSQL."""
    binaries = postgres_binaries()
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(home, account.pw_uid, account.pw_gid)
        server = kind(binaries, home, free_port())
        server.create()
        server.start()
        try:
            yield server
        finally:
            if server.running:
                with suppress(*((RuntimeError,) if kind.is_killed else ())):
                    server.stop("immediate")
    finally:
        shutil.rmtree(home, ignore_errors=kind.is_killed)
