"""SQLite files through aiosqlite.

Read only three times over: the file is opened `mode=ro`, `query_only` is on, and an authorizer
refuses everything but reading, so that no ATTACH or PRAGMA outlives its query in the pool.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import create_async_engine

from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from triage.adapters.sql.backend import Stop

_BUSY_S = 0.25  # a writer's commit takes milliseconds; longer is an outage, not a wait

# Virtual-machine steps between two looks at the clock: some 50 µs of work.
_STEPS = 10_000

_READING = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)
_PRAGMAS = frozenset(
    (
        "database_list",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "read_uncommitted",
        "table_info",
        "table_list",
        "table_xinfo",
    )
)


class SqliteBackend:
    """Raises ConfigError for a URL that names no file, or has options."""

    version_sql = "SELECT 'SQLite ' || sqlite_version() AS version"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, url: URL, *, pool_size: int) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise ConfigError(
                "an SQLite source reads a file: write sqlite:///relative.db or sqlite:////absolute.db"
            )
        if url.query or url.host:
            raise ConfigError("an SQLite URL takes a path only: write sqlite:////absolute.db")
        self._path = Path(url.database).absolute()
        self.engine: AsyncEngine = create_async_engine(
            URL.create(
                "sqlite+aiosqlite",
                database=f"file:{quote(str(self._path))}?mode=ro",
                query={"uri": "true"},
            ),
            connect_args={"timeout": _BUSY_S},
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=None,
        )
        event.listen(self.engine.sync_engine, "do_connect", self._refuse_unreadable)
        event.listen(self.engine.sync_engine, "connect", self._prepare)
        event.listen(self.engine.sync_engine, "checkout", self._refuse_replaced)

    async def limit(self, connection: AsyncConnection, stop: Stop) -> None:
        connection.info["watch"].stop = stop

    def failure(self, error: Exception) -> ToolFailed | SourceFailed:
        cause = error.orig if isinstance(error, DBAPIError) else error
        message = str(cause)
        # The low byte is the primary code; the rest only refines it.
        code = (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            return SourceFailed(SourceFailure.TIMEOUT, "the query was stopped at its time limit")
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
            return SourceFailed(SourceFailure.CONNECT, f"{message}: {self._path}")
        if code in _BROKEN:
            return SourceFailed(SourceFailure.SERVER_ERROR, message)
        # For CREATE the code is the general one, and only the text tells.
        if code == sqlite3.SQLITE_AUTH or message == "not authorized":
            message = f"{message}: this source only reads"
        return ToolFailed(ToolFailure.QUERY_REJECTED, message)

    def _refuse_unreadable(self, *_arguments: Any) -> None:
        """Raises OSError for a file that cannot be opened, before aiosqlite tries: its thread
        outlives a failed connect, and speaks to the event loop when that may be closed."""
        os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))

    def _prepare(self, adapted: Any, record: Any) -> None:
        watch = _Watch()
        record.info["watch"] = watch
        record.info["file"] = _identity(self._path)
        adapted.run_async(watch.attach)

    def _refuse_replaced(self, _adapted: Any, record: Any, _proxy: Any) -> None:
        """A file that was replaced under its name would be read stale for ever."""
        if record.info["file"] != _identity(self._path):
            raise InvalidatePoolError("the database file was replaced")


_BROKEN = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    )
)


class _Watch:
    """One connection's progress handler. Runs in the connection's thread, between steps of the
    query: that is the only place a runaway query can be ended without losing the connection."""

    __slots__ = ("stop",)

    def __init__(self) -> None:
        self.stop: Stop | None = None

    async def attach(self, driver: Any) -> None:
        await driver.execute("PRAGMA query_only = ON")
        await driver.set_authorizer(_authorize)
        await driver.set_progress_handler(self.end, _STEPS)

    def end(self) -> bool:
        return self.stop is not None and self.stop.due


def _authorize(action: int, first: str | None, second: str | None, *_rest: str | None) -> int:
    if action in _READING and second != "load_extension":
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS:
        # Of these only read_uncommitted could be set, and then it has a value.
        return sqlite3.SQLITE_OK if first != "read_uncommitted" or second is None else _DENY
    # The pool resets a connection with it; alone it changes nothing.
    if action == sqlite3.SQLITE_TRANSACTION and first == "ROLLBACK":
        return sqlite3.SQLITE_OK
    return _DENY


_DENY = sqlite3.SQLITE_DENY


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as fast as Path.stat, once an ask
    except OSError:
        return None
    return status.st_dev, status.st_ino
