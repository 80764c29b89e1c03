"""PostgreSQL through asyncpg.

Read only three times over: the session's default, each transaction's mode, and no transaction is
ever committed. What no mode prevents (functions that signal other backends, advisory locks) is
the role's business: give the source one that may only SELECT.
"""

from __future__ import annotations

import time
from datetime import datetime
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.ext.asyncio import create_async_engine

from triage.adapters.sql.backend import BATCH, CONNECT_TIMEOUT_S, Stop
from triage.adapters.sql.values import json_value
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import TextClause
    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from triage.adapters.sql.backend import Ask
    from triage.adapters.sql.collect import Collector

_URL_OPTIONS = ("application_name", "host", "options", "port", "sslmode")

_COLUMNS = """
    SELECT CAST(table_schema AS text) AS schema, CAST(table_name AS text) AS name,
           CAST(column_name AS text) AS column, CAST(data_type AS text) AS type
    FROM information_schema.columns
    WHERE table_schema = ANY (current_schemas(false))
    ORDER BY array_position(current_schemas(false), CAST(table_schema AS name)),
             table_name, ordinal_position
"""

_TEXT_TYPES = ("timestamptz", "timestamp", "date", "time", "timetz", "interval")


class PostgresBackend:
    """Raises ConfigError when asyncpg is missing or the URL has an option it cannot honour."""

    version_sql = "SELECT 'PostgreSQL ' || current_setting('server_version') AS version"

    def __init__(self, url: URL, *, pool_size: int) -> None:
        try:
            import asyncpg  # type: ignore[import-untyped]
        except ImportError:
            raise ConfigError(
                "a postgresql:// source needs the asyncpg driver: pip install 'triage[postgres]'"
            ) from None
        # A cursor's later batches, and what `_limit` does, come past SQLAlchemy's wrapping.
        self.errors: tuple[type[Exception], ...] = (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
        )
        options = dict(url.query)
        unknown = sorted(set(options) - set(_URL_OPTIONS))
        if unknown:
            raise ConfigError(
                f"unknown option {unknown[0]!r} in the database URL: use {', '.join(_URL_OPTIONS)}"
            )
        settings = {
            "application_name": str(options.pop("application_name", "triage")),
            "default_transaction_read_only": "on",
            "timezone": "UTC",
            "datestyle": "ISO",
            "intervalstyle": "iso_8601",
        }
        connect_args: dict[str, Any] = {"timeout": CONNECT_TIMEOUT_S, "server_settings": settings}
        if "sslmode" in options:
            connect_args["ssl"] = options.pop("sslmode")
        if "options" in options:
            settings["options"] = str(options.pop("options"))
        self.engine: AsyncEngine = create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=options),
            connect_args=connect_args,
            pool_size=pool_size,
            max_overflow=0,
            # The ask has the only limit, so that waiting and running share one.
            pool_timeout=None,
        )
        self.errors += (self.engine.dialect.loaded_dbapi.Error,)
        event.listen(self.engine.sync_engine, "connect", _prepare)
        event.listen(self.engine.sync_engine, "checkout", _refuse_closed)

    async def read(
        self, statement: TextClause, params: Mapping[str, Any], stop: Stop, into: Collector
    ) -> None:
        async with self.engine.connect() as connection:
            await self._limit(connection, stop)
            async with connection.stream(
                statement, params, execution_options={"yield_per": BATCH}
            ) as result:
                into.columns(list(result.keys()))
                async for batch in result.partitions(BATCH):
                    into.batch(batch)

    async def tables(self, ask: Ask) -> dict[str, tuple[Column, ...]]:
        found: dict[str, list[Column]] = {}
        schemas: dict[str, str] = {}
        for row in await ask(_COLUMNS):
            # Of two tables with one name, the name alone means the one earlier in the path.
            if schemas.setdefault(row["name"], row["schema"]) == row["schema"]:
                found.setdefault(row["name"], []).append(Column(row["column"], row["type"]))
        return {name: tuple(columns) for name, columns in found.items()}

    async def close(self) -> None:
        await self.engine.dispose()

    async def _limit(self, connection: AsyncConnection, stop: Stop) -> None:
        """Make the server end the next query when `stop` is due."""
        left_ms = int((stop.at - time.monotonic()) * 1000)
        # Not prepared: every limit is another text, and would push queries out of the cache.
        # Opening the transaction first makes SET LOCAL end with it.
        raw = await connection.get_raw_connection()
        await connection.run_sync(_begin)
        driver: Any = raw.driver_connection
        await driver.execute(f"SET LOCAL statement_timeout = {max(left_ms, 1)}")

    def failure(self, error: Exception) -> ToolFailed | SourceFailed:
        # asyncpg's own errors reach us unwrapped from `_limit`, wrapped from everywhere else.
        cause = error.orig if isinstance(error, DBAPIError) else error
        message = str(cause).split("[SQL:", 1)[0].strip()
        # The adapter prefixes the class, which says nothing a person could use.
        message = message.split(">: ", 1)[-1]
        state = getattr(cause, "sqlstate", None) or ""
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return SourceFailed(SourceFailure.CONNECT, message or "the connection was lost")
        if not state:
            return _stateless(cause, message)
        if state == "57014":
            return SourceFailed(SourceFailure.TIMEOUT, message)
        if state[:2] in {"08", "28", "3D"} or state in {"53300", "57P01", "57P02", "57P03"}:
            return SourceFailed(SourceFailure.CONNECT, message)
        if state[:2] in _QUERY_CLASSES:
            return ToolFailed(ToolFailure.QUERY_REJECTED, f"{message} (SQLSTATE {state})")
        return SourceFailed(SourceFailure.SERVER_ERROR, f"{message} (SQLSTATE {state})")


_QUERY_CLASSES = frozenset(
    # feature, cardinality, data, integrity, read-only and other transaction state, routine,
    # syntax or access, too complex, object state but for locks, PL/pgSQL
    ("0A", "20", "21", "22", "23", "25", "26", "2B", "2F", "34", "38", "39", "42", "44", "54", "P0")
)


def _stateless(cause: BaseException | None, message: str) -> ToolFailed | SourceFailed:
    """Errors the client library raised by itself."""
    import asyncpg

    origin = getattr(cause, "__cause__", None) or cause
    if isinstance(origin, asyncpg.exceptions.DataError):
        return ToolFailed(ToolFailure.QUERY_REJECTED, f"{message}: CAST(:name AS …) the parameter")
    if isinstance(origin, asyncpg.exceptions.InvalidCachedStatementError) or (
        type(cause).__name__ == "InvalidCachedStatementError"
    ):
        return SourceFailed(SourceFailure.SERVER_ERROR, "the table changed while it was read")
    if isinstance(origin, asyncpg.exceptions.UnsupportedClientFeatureError):
        return ToolFailed(ToolFailure.QUERY_REJECTED, message)
    return SourceFailed(SourceFailure.CONNECT, message)


def _begin(connection: Any) -> None:
    """Start the transaction now: the adapter would do it with the first prepared statement."""
    adapted = connection.connection.dbapi_connection
    adapted.run_async(_start(adapted))


def _start(adapted: Any) -> Any:
    async def start(_driver: Any) -> None:
        await adapted._start_transaction()  # noqa: SLF001 - no public way to begin without a query

    return start


def _prepare(adapted: Any, _record: Any) -> None:
    adapted.readonly = True
    adapted.run_async(_set_codecs)


async def _set_codecs(driver: Any) -> None:
    """Dates and times as text both ways. asyncpg would demand datetime objects, which a query's
    parameters cannot be; so the server parses ISO strings, and we read back what it prints."""
    for name in _TEXT_TYPES:
        await driver.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=str,
            decoder=_TEXT_DECODERS.get(name, str),
            format="text",
        )


def _timestamp(text: str) -> str:
    """As ISO 8601. "infinity" and years that Python has not stay as PostgreSQL prints them."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return str(json_value(moment))


def _time(text: str) -> str:
    try:
        return time_of_day.fromisoformat(text).isoformat()
    except ValueError:
        return text


_TEXT_DECODERS = {
    "timestamptz": _timestamp,
    "timestamp": _timestamp,
    "time": _time,
    "timetz": _time,
}


def _refuse_closed(adapted: Any, _record: Any, _proxy: Any) -> None:
    """After a server restart every pooled connection is dead; asyncpg knows without asking."""
    if adapted.driver_connection.is_closed():
        raise InvalidatePoolError("the server closed the connection")
