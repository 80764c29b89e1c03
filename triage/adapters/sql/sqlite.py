"""SQLite files, each query in one go in a thread of its own connection.

Through aiosqlite and SQLAlchemy's engine a query took fourteen trips between two threads and 2 ms
of work, most of what an alert cost that asks six of them; this way it takes one trip and a tenth.

Read only three times over: the file is opened `mode=ro`, `query_only` is on, and an authorizer
refuses everything but reading, so that no ATTACH or PRAGMA outlives its query.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from triage.adapters.sql.backend import BATCH, NO_TABLE, PREPARED
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import TextClause
    from sqlalchemy.engine import URL

    from triage.adapters.sql.backend import Ask, Stop
    from triage.adapters.sql.collect import Collector

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


_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    " AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
)


@dataclass(slots=True)
class _Open:
    """A thread's connection, and which file it is of."""

    connection: sqlite3.Connection
    file: tuple[int, int] | None


class SqliteBackend:
    """At most `pool_size` queries run at once, each in a thread that keeps its connection.

    Raises ConfigError for a URL that names no file, or has options.
    """

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
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="sql-reader")
        self._jobs: set[Future[None]] = set()
        self._own = threading.local()
        self._all: set[sqlite3.Connection] = set()
        self._text = lru_cache(PREPARED)(_text)

    async def read(
        self, statement: TextClause, params: Mapping[str, Any], stop: Stop, into: Collector
    ) -> None:
        job = self._threads.submit(self._read, self._text(statement), params, stop, into)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        try:
            await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            stop.at = 0  # the thread is not ours to cancel: the query ends itself
            raise

    async def tables(self, ask: Ask) -> dict[str, tuple[Column, ...]]:
        # One at a time: joined with pragma_table_info they would have to declare a virtual table,
        # which the authorizer refuses, and one view of a table that is gone would spoil all.
        found: dict[str, tuple[Column, ...]] = {}
        for row in await ask(_TABLES):
            quoted = '"' + row["name"].replace('"', '""').replace(":", "\\:") + '"'
            try:
                columns = await ask(f"PRAGMA table_info({quoted})")
            except ToolFailed as failed:
                if failed.failure is not ToolFailure.QUERY_REJECTED:
                    raise
                continue
            found[row["name"]] = tuple(Column(one["name"], one["type"]) for one in columns)
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False)
        # Also those whose ask was cancelled: they use the connections until they have stopped.
        running = [asyncio.wrap_future(job) for job in tuple(self._jobs)]
        if running:
            await asyncio.wait(running)
        while self._all:
            self._all.pop().close()

    def _read(self, text: str, params: Mapping[str, Any], stop: Stop, into: Collector) -> None:
        if stop.due:
            raise SourceFailed(SourceFailure.TIMEOUT, "no connection was free in time")
        connection = self._connection()
        # Called between steps of the query: the only place where a runaway one can be ended
        # without losing the connection.
        connection.set_progress_handler(lambda: stop.due, _STEPS)
        try:
            cursor = connection.execute(text, params)
            try:
                if cursor.description is None:
                    raise into.rejected(NO_TABLE)
                into.columns([column[0] for column in cursor.description])
                while batch := cursor.fetchmany(BATCH):
                    into.batch(batch)
            finally:
                cursor.close()
        except sqlite3.Error as error:
            if _code(error) in _BROKEN:
                self._drop()
            raise

    def _connection(self) -> sqlite3.Connection:
        """This thread's. A file that was replaced under its name would be read stale for ever."""
        own: _Open | None = getattr(self._own, "open", None)
        file = _identity(self._path)
        if own is not None and own.file == file:
            return own.connection
        self._drop()
        # Raises OSError for a file that cannot be opened; SQLite says little of why.
        os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=ro",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,  # closed by whoever closes the source
            cached_statements=PREPARED,
        )
        self._all.add(connection)
        self._own.open = _Open(connection, file)
        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(_authorize)
        return connection

    def _drop(self) -> None:
        own: _Open | None = getattr(self._own, "open", None)
        if own is not None:
            self._own.open = None
            self._all.discard(own.connection)
            own.connection.close()

    def failure(self, error: Exception) -> ToolFailed | SourceFailed:
        message, code = str(error), _code(error)
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


def _text(statement: TextClause) -> str:
    return str(statement.compile(dialect=SQLiteDialect_pysqlite(paramstyle="named")))


def _code(error: Exception) -> int:
    """SQLite's primary result code, 0 for an error of the driver's own: the rest of the extended
    one only refines it."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _authorize(action: int, first: str | None, second: str | None, *_rest: str | None) -> int:
    if action in _READING and second != "load_extension":
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS:
        # Of these only read_uncommitted could be set, and then it has a value.
        return sqlite3.SQLITE_OK if first != "read_uncommitted" or second is None else _DENY
    return _DENY


_DENY = sqlite3.SQLITE_DENY


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as fast as Path.stat, once an ask
    except OSError:
        return None
    return status.st_dev, status.st_ino
