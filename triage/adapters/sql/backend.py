"""What the two databases do differently, and how a URL picks one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    from triage.errors import SourceFailed, ToolFailed

CONNECT_TIMEOUT_S = 10.0
"""For one attempt; an ask that waits for it has its own, shorter limit."""


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
    """One kind of database. `engine` hands out read-only connections."""

    @property
    def engine(self) -> AsyncEngine: ...

    @property
    def version_sql(self) -> str: ...

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the driver raises that SQLAlchemy does not wrap, for `failure` to judge."""

    async def limit(self, connection: AsyncConnection, stop: Stop) -> None:
        """Make the database itself end the next query when `stop` is due."""

    def failure(self, error: Exception) -> ToolFailed | SourceFailed:
        """Who is at fault for what the driver raised. The text may hold credentials still."""
