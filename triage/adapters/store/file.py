"""The SQLite file: where it is, who may read it, and that one daemon at a time writes it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from triage.adapters.store.database import Fault, Session
from triage.adapters.store.transaction import Compiler, Transaction
from triage.errors import ConfigError

BUSY_TIMEOUT_S = 5.0
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024  # the WAL is cut back to this when it starts anew
CACHE_KIB = 8 * 1024  # a connection: the upper levels of a million decisions' indexes, read once
AUTOCHECKPOINT_PAGES = 8_000  # 32 MiB: a backstop, the checkpointer is there first


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """See `Database`. One process serves from it; readers, and short changes by the command line,
    go beside."""

    path: Path

    shared: ClassVar[bool] = False
    batch_limit: ClassVar[int] = 256  # bounds how long the first of them waits
    checkpoint_every_s: ClassVar[float | None] = 1.0

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
                "store is neither a path nor a URL: write sqlite:///path/to/triage.db"
                " or postgresql://user@host/database"
            ) from None
        if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            raise ConfigError(
                f"store {url.render_as_string()} is neither an SQLite file nor on PostgreSQL: "
                "write sqlite:///path/to/triage.db or postgresql://user@host/database"
            )
        return cls(path=Path(url.database))

    @property
    def label(self) -> str:
        return str(self.path)

    def compiler(self) -> Compiler:
        return Compiler(SQLiteDialect_pysqlite(paramstyle="named"))

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

    @contextmanager
    def serving(self) -> Iterator[None]:
        lock = FileLock(self.path)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def dialer(self, compiler: Compiler, *, writes: bool) -> FileDialer:
        return FileDialer(self, compiler, read_only=not writes)

    def fault_of(self, error: BaseException) -> Fault:
        """Disk full, I/O, a lock, corruption: the whole batch is lost."""
        if not isinstance(error, sqlite3.Error):
            return Fault.FOREIGN
        if (
            not isinstance(error, sqlite3.DatabaseError)
            or isinstance(
                error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError
            )
            or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
        ):
            return Fault.REFUSED
        return Fault.LOST

    def told(self, error: BaseException) -> str:
        return str(error)

    def checkpoint(self) -> None:
        try:
            connection = self.connect(read_only=False)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error:
            return  # a full disk: the writer meets it too, and reports it

    def weaknesses(self, _transaction: Transaction) -> list[str]:
        return []

    def tables(self) -> tuple[set[str], str | None] | None:
        if not self.path.exists():
            return None
        try:
            connection = self.connect(read_only=True)
            try:
                found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                names = {row[0] for row in found}
                if "alembic_version" not in names:
                    return names, None
                row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise ConfigError(f"store {self.path} cannot be read: {error}") from error
        return names, None if row is None else str(row[0])

    def change(self, change: Callable[[Connection], None]) -> None:
        from sqlalchemy import create_engine, event
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.pool import NullPool

        self.create()
        engine = create_engine(
            "sqlite://", creator=lambda: self.connect(read_only=False), poolclass=NullPool
        )

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            # The driver would begin only at the first change and leave DDL outside.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        try:
            with engine.begin() as connection:
                change(connection)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise ConfigError(f"store {self.path} cannot be changed: {error}") from error
        finally:
            engine.dispose()


@dataclass(slots=True, eq=False)
class FileDialer:
    """A file is there or is not: nothing to wait for."""

    file: StoreFile
    compiler: Compiler
    read_only: bool

    def __call__(self, *, first: bool = False) -> Session:  # noqa: ARG002
        return FileSession(self.file.connect(read_only=self.read_only), self.compiler)

    def close(self) -> None:
        return


class FileSession:
    """See `Session`."""

    __slots__ = ("_compiler", "_connection", "_cursor", "_is_marked", "_synchronous")

    def __init__(self, connection: sqlite3.Connection, compiler: Compiler) -> None:
        self._connection = connection
        self._compiler = compiler
        self._cursor = connection.cursor()
        self._synchronous = ""
        self._is_marked = False

    def begin(self, *, durable: bool, several: bool) -> Transaction:  # noqa: ARG002
        synchronous = "FULL" if durable else "NORMAL"
        if synchronous != self._synchronous:
            self._cursor.execute(f"PRAGMA synchronous={synchronous}")
            self._synchronous = synchronous
        self._cursor.execute("BEGIN IMMEDIATE")
        self._is_marked = False
        return Transaction(self._cursor, self._compiler)

    def begin_reading(self, *, patience_s: float | None) -> Transaction:  # noqa: ARG002
        self._cursor.execute("BEGIN")
        return Transaction(self._cursor, self._compiler)

    def next_operation(self, _transaction: Transaction) -> None:
        if self._is_marked:
            self._cursor.execute("RELEASE one")
        self._cursor.execute("SAVEPOINT one")
        self._is_marked = True

    def undo_operation(self, _transaction: Transaction) -> None:
        self._cursor.execute("ROLLBACK TO one")

    def commit(self, _transaction: Transaction) -> None:
        self._cursor.execute("COMMIT")

    def end_reading(self) -> None:
        self._cursor.execute("ROLLBACK")

    def rollback(self) -> None:
        self._cursor.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()  # rolls back what is open


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
