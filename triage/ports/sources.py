"""The clock, and the backends that answer queries."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, runtime_checkable

from triage.model.catalogue import Catalogue
from triage.model.query import Answer, Query


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall clock, aware UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""


class Source(Protocol):
    """One backend that answers queries.

    `ask` may be called concurrently. It raises ToolFailed when the query itself is at fault
    (4xx, unknown column, wrong query type, answer over the size limit) and SourceFailed when the
    backend is; an empty result is an answer. It stops by itself within `timeout_s`, and may be
    cancelled at any await. It never retries: the caller does.

    `open` returns when the source can be asked or has started to connect in the background: a
    dead backend must not keep the daemon from starting. Raises ConfigError for what only a
    person can mend. `close` ends every task and connection; it may be called without `open`.
    """

    @property
    def name(self) -> str: ...

    async def open(self) -> None: ...

    async def ask(self, query: Query, *, timeout_s: float) -> Answer: ...

    async def close(self) -> None: ...


@runtime_checkable
class Connecting(Protocol):
    """What a source also is when its `open` only begins to connect."""

    async def settled(self) -> None:
        """Returns once the first attempt to connect has ended, well or not. May be cancelled."""


@runtime_checkable
class Catalogued(Protocol):
    """What a source also is that can tell what it has: for people and models, never for a tool,
    which is to know what it asks for."""

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        """All of it, as it is now. One without metrics is no metrics source, one without tables
        holds none. Raises SourceFailed and ToolFailed as `ask` does, the latter also when there is
        more than an answer may hold; may be called concurrently, and cancelled."""
