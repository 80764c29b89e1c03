"""What the two databases do differently, and how a URL picks one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sqlalchemy import TextClause

    from triage.adapters.sql.collect import Collector
    from triage.errors import SourceFailed, ToolFailed
    from triage.model.catalogue import Column

    Ask = Callable[[str], Awaitable[tuple[dict[str, Any], ...]]]
    """From a query's text to its rows, within the bounds of an answer."""

CONNECT_TIMEOUT_S = 10.0
"""For one attempt; an ask that waits for it has its own, shorter limit."""

BATCH = 200
"""Rows held beyond the limit at most, and one trip to a server."""

PREPARED = 256
"""Statements kept parsed; a library has fewer queries."""

NO_TABLE = "the statement returned no table: this source only reads"


@dataclass(slots=True)
class Stop:
    """Tells a running query to end. Read by the thread that runs an SQLite query.

    `at` is a `time.monotonic()` second; setting it to 0 ends the query now.
    """

    at: float

    @property
    def due(self) -> bool:
        return time.monotonic() >= self.at


class Backend(Protocol):
    """One kind of database, asked through connections that can only read."""

    @property
    def version_sql(self) -> str: ...

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What `read` raises that SQLAlchemy does not wrap, for `failure` to judge."""

    async def read(
        self, statement: TextClause, params: Mapping[str, Any], stop: Stop, into: Collector
    ) -> None:
        """Run one query into `into`. The database itself ends it when `stop` is due. Cancelled,
        it returns at once or when the connection is whole again."""

    async def tables(self, ask: Ask) -> dict[str, tuple[Column, ...]]:
        """Those that a query finds by their name alone, with their columns in order. Raises what
        `ask` does."""

    def failure(self, error: Exception) -> ToolFailed | SourceFailed:
        """Who is at fault for what the driver raised. The text may hold credentials still."""

    async def close(self) -> None:
        """End every connection and thread."""
