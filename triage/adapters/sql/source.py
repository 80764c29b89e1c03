"""The SQL source: one pool, one statement an ask, bounded rows, bytes and time."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, quote_plus

from triage.adapters.sql.backend import NO_TABLE, PREPARED, Backend, Stop
from triage.adapters.sql.collect import Collector
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Catalogue
from triage.model.query import Answer, Query, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import TextClause
    from sqlalchemy.engine import URL

_DETAIL = 500  # characters of a database's message that are worth storing with a decision
_CLOSING_S = 5.0

# The database ends a query a little before we do: its answer then arrives in time and the
# connection survives, instead of being cancelled and opened anew.
_DATABASE_SHARE = 0.95


class Secret(Protocol):
    """A value that hides itself, such as pydantic's SecretStr."""

    def get_secret_value(self) -> str: ...


class SqlSource:
    """Answers `Rows` from an SQLite file or a PostgreSQL database, read only.

    `url` is `sqlite:///path` or `postgresql://user:password@host/db`; its credentials appear in
    no repr and no error. An answer has at most `max_rows` rows and `max_bytes` of canonical
    JSON; the excess is refused while it streams in, so only one batch of it is ever held. Rows
    keep the database's order: a query whose result must be the same twice says ORDER BY.

    Parameters are `:name` and each must be used; `\\:` is a literal colon before a letter.
    Against PostgreSQL a date or time parameter is an ISO 8601 string, typed by its use or by
    `CAST(:at AS timestamptz)`. How values come back is in `triage.adapters.sql.values`.

    An ask may be cancelled at any await: the query is ended in the database and its connection
    given back or dropped in the background.
    """

    def __init__(
        self,
        name: str,
        url: str | Secret,
        *,
        max_rows: int = 10_000,
        max_bytes: int = 1024 * 1024,
        pool_size: int = 5,
    ) -> None:
        self._name = name
        self._url = url
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._pool_size = pool_size
        self._backend: Backend | None = None
        self._parse: Callable[[str], tuple[TextClause, frozenset[str]]] | None = None
        self._driver_errors: tuple[type[Exception], ...] = ()
        self._no_table: type[Exception] | tuple[()] = ()
        self._secrets: tuple[str, ...] = ()
        self._running: set[asyncio.Task[tuple[dict[str, Any], ...]]] = set()

    def __repr__(self) -> str:
        return f"SqlSource({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        """Connects to nothing yet. Raises ConfigError for a URL that no database can have."""
        # The import costs some 20 MB, which a daemon without tables need not pay.
        from sqlalchemy.exc import (
            ResourceClosedError,
            SQLAlchemyError,
        )

        url = self._parsed_url()
        self._secrets = _secrets(url)
        try:
            self._backend = _backend(url, self._pool_size)
        except ConfigError as error:
            raise ConfigError(self._clean(f"source {self._name!r}: {error}")) from None
        self._parse = lru_cache(PREPARED)(_parse)
        self._driver_errors = (SQLAlchemyError, *self._backend.errors, *_PLAIN_ERRORS)
        self._no_table = ResourceClosedError

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        backend, parse = self._backend, self._parse
        if not isinstance(query, Rows):
            raise self._rejected(f"it answers rows(…) only, not {type(query).__name__}")
        if backend is None or parse is None:
            raise SourceFailed(SourceFailure.CONNECT, f"source {self._name!r} is not open")
        params = dict(query.params)
        statement, wanted = parse(query.sql)
        if wanted != params.keys():
            raise self._rejected(_parameter_fault(wanted, params.keys()))
        stop = Stop(time.monotonic() + timeout_s * _DATABASE_SHARE)
        # A task of its own: ending a query that a dead server holds can outlast the ask's limit,
        # and must then go on without the caller.
        task = asyncio.create_task(
            self._run(backend, statement, params, stop), name=f"sql:{self._name}"
        )
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        finally:
            if not task.done():
                stop.at = 0
                task.cancel()
        if not task.done():
            raise SourceFailed(
                SourceFailure.TIMEOUT, f"source {self._name!r} did not answer in {timeout_s:g} s"
            )
        return self._outcome(backend, task)

    async def probe(self, timeout_s: float) -> str:
        """The database and its version, such as "PostgreSQL 15.6". Raises SourceFailed."""
        if self._backend is None:
            raise SourceFailed(SourceFailure.CONNECT, f"source {self._name!r} is not open")
        rows = await self.ask(Rows(self._name, self._backend.version_sql), timeout_s=timeout_s)
        return str(rows[0]["version"])

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        """The tables and views that a query finds by their name alone, as far as the role may
        read them. Raises ToolFailed for more than an answer may hold."""
        backend = self._backend
        if backend is None:
            raise SourceFailed(SourceFailure.CONNECT, f"source {self._name!r} is not open")
        until = time.monotonic() + timeout_s

        async def ask(sql: str) -> tuple[dict[str, Any], ...]:
            left_s = max(0.0, until - time.monotonic())
            found: tuple[dict[str, Any], ...] = await self.ask(
                Rows(self._name, sql), timeout_s=left_s
            )
            return found

        try:
            return Catalogue(tables=await backend.tables(ask))
        except ToolFailed as failed:
            if failed.failure is not ToolFailure.ANSWER_TOO_LARGE:
                raise
        raise ToolFailed(
            ToolFailure.ANSWER_TOO_LARGE,
            f"source {self._name!r} has more tables and columns than an answer may hold",
        )

    async def close(self) -> None:
        backend, self._backend = self._backend, None
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=_CLOSING_S)
        if backend is not None:
            await backend.close()

    async def _run(
        self, backend: Backend, statement: TextClause, params: dict[str, Any], stop: Stop
    ) -> tuple[dict[str, Any], ...]:
        into = Collector(
            name=self._name,
            max_rows=self._max_rows,
            max_bytes=self._max_bytes,
            rejected=self._rejected,
        )
        await backend.read(statement, params, stop, into)
        return tuple(into.rows)

    def _outcome(self, backend: Backend, task: asyncio.Task[tuple[dict[str, Any], ...]]) -> Answer:
        try:
            return task.result()
        except asyncio.CancelledError:
            # Only `close` cancels a task whose ask still waits.
            raise SourceFailed(SourceFailure.CONNECT, f"source {self._name!r} was closed") from None
        except self._driver_errors as error:
            failed = self._judge(backend, error)
        # Outside the handler: the driver's error repeats the parameters, and a chain would show it.
        raise failed

    def _judge(self, backend: Backend, error: Exception) -> ToolFailed | SourceFailed:
        if isinstance(error, self._no_table):
            return self._rejected(NO_TABLE)
        match error:
            case OverflowError() | UnicodeError():
                return self._rejected(f"a parameter cannot be sent: {error}")
            case sqlite3.Warning():
                return self._rejected(str(error))
            case OSError():
                # TimeoutError is one: the driver raises it when connecting took too long.
                kind, detail = SourceFailure.CONNECT, str(error) or "no connection in time"
                failed: ToolFailed | SourceFailed = SourceFailed(kind, detail)
            case _:
                failed = backend.failure(error)
        detail = self._clean(f"source {self._name!r}: {failed.detail}")
        if isinstance(failed, ToolFailed):
            return ToolFailed(failed.failure, detail)
        return SourceFailed(failed.failure, detail)

    def _ended(self, task: asyncio.Task[tuple[dict[str, Any], ...]]) -> None:
        self._running.discard(task)
        # A query that was given up has nobody to tell how it ended.
        if not task.cancelled():
            task.exception()

    def _parsed_url(self) -> URL:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        text = self._url if isinstance(self._url, str) else self._url.get_secret_value()
        try:
            return make_url(text)
        except (ArgumentError, ValueError):
            raise ConfigError(
                f"source {self._name!r}: not a database URL: write sqlite:///path or "
                "postgresql://user:password@host:port/database"
            ) from None

    def _rejected(self, detail: str) -> ToolFailed:
        return ToolFailed(
            ToolFailure.QUERY_REJECTED, self._clean(f"source {self._name!r}: {detail}")
        )

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text if len(text) <= _DETAIL else text[: _DETAIL - 1] + "…"


_CAST_PARAMETER = re.compile(r"(?<![:\w\\]):([A-Za-z_]\w*)(?=::)")

# Not DBAPI errors, so SQLAlchemy lets them through as they are.
_PLAIN_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    OverflowError,
    UnicodeError,
    sqlite3.Warning,
)


def _backend(url: URL, pool_size: int) -> Backend:
    match url.drivername:
        case "sqlite" | "sqlite+aiosqlite":
            from triage.adapters.sql.sqlite import SqliteBackend

            return SqliteBackend(url, pool_size=pool_size)
        case "postgresql" | "postgres" | "postgresql+asyncpg":
            from triage.adapters.sql.postgres import PostgresBackend

            return PostgresBackend(url, pool_size=pool_size)
        case other:
            raise ConfigError(f"{other!r} is no database it knows: use sqlite or postgresql")


def _parse(sql: str) -> tuple[TextClause, frozenset[str]]:
    from sqlalchemy import text

    # Its pattern takes ":at::type" for no parameter at all.
    statement = text(_CAST_PARAMETER.sub(r":\1 ", sql))
    return statement, frozenset(statement.compile().params)


def _parameter_fault(wanted: frozenset[str], given: Any) -> str:
    missing, extra = sorted(wanted - given), sorted(given - wanted)
    if missing:
        return f"no value for :{missing[0]}: pass it, or write \\:{missing[0]} for a literal colon"
    return f"the query has no :{extra[0]}: use every parameter, or leave it out"


def _secrets(url: URL) -> tuple[str, ...]:
    found = [str(url.password)] if url.password else []
    found += [quote(secret, safe="") for secret in found] + [quote_plus(s) for s in found]
    # Longest first: a quoted form may contain the plain one.
    return tuple(sorted(set(found), key=len, reverse=True))
