"""The SQLite file: where it is, who may read it, and that one daemon at a time writes it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from triage.errors import ConfigError

BUSY_TIMEOUT_S = 5.0
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024  # the WAL is cut back to this when it starts anew
CACHE_KIB = 8 * 1024  # a connection: the upper levels of a million decisions' indexes, read once
AUTOCHECKPOINT_PAGES = 8_000  # 32 MiB: a backstop, the checkpointer is there first


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    path: Path

    @classmethod
    def at(cls, location: str | Path) -> Self:
        """From a path or a `sqlite:///…` URL. Raises ConfigError for anything else."""
        if isinstance(location, Path):
            return cls(path=location)
        if "://" not in location and location:
            return cls(path=Path(location))
        try:
            url = make_url(location)
        except ArgumentError:
            raise ConfigError(
                f"store {location!r} is neither a path nor a URL: write sqlite:///path/to/triage.db"
            ) from None
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            raise ConfigError(
                f"store {url.render_as_string()} is not an SQLite file: "
                "write sqlite:///path/to/triage.db"
            )
        return cls(path=Path(url.database))

    def create(self) -> None:
        """Make directory and file, readable by their owner only; existing ones stay as they are.

        SQLite gives its journal files the mode of the database.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise ConfigError(f"store {self.path}: cannot be created: {error.strerror}") from error

    def connect(self, *, read_only: bool) -> sqlite3.Connection:
        """A connection in autocommit mode: transactions are begun by hand. It may be closed by
        another thread than its own. Raises sqlite3.Error."""
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            if read_only:
                # Not mode=ro: that cannot open a database whose daemon died and left a journal.
                connection.execute("PRAGMA query_only=ON")
            else:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(f"PRAGMA journal_size_limit={JOURNAL_LIMIT_BYTES}")
                connection.execute(f"PRAGMA wal_autocheckpoint={AUTOCHECKPOINT_PAGES}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection


class FileLock:
    """Held while serving. The kernel lets go of it when the process dies, however it dies."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises ConfigError naming the process that holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise ConfigError(
                f"store {self._database} is in use by process {holder}: "
                "stop it, or give this one a file of its own"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
