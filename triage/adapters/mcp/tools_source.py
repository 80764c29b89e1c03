"""A source whose answers are those of an MCP server's tools, whatever leads to the server."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Answer, Call, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from triage.adapters.mcp.calls import Caller
    from triage.adapters.mcp.session import Link
    from triage.ports import SourceTool

_DETAIL = 500  # characters of a server's message that are worth storing with a decision
_CLOSING_S = 6.0


class ToolsSource(ABC):
    """Answers `Call`, and tells which tools may be called.

    Only a tool that the server marks `readOnlyHint`, or that `allow_tools` names, is called.
    Arguments are checked against the tool's schema before anything is sent, results against its
    output schema. What an answer looks like is said in `triage.adapters.mcp.answers.body_of`; it
    has at most `max_bytes` of canonical JSON. `secrets` appear in no error.

    A server that cannot be reached, or dies, is connected to in the background, after waits that
    `backoff` gives; meanwhile asks fail at once. An ask may be cancelled at any await, and ends
    within its limit, without harm to others of the same session.
    """

    def __init__(
        self,
        name: str,
        *,
        allow_tools: frozenset[str],
        max_bytes: int,
        connect_timeout_s: float,
        backoff: Callable[[int], float] | None,
        secrets: Sequence[str],
    ) -> None:
        self._name = name
        self._allow_tools = allow_tools
        self._max_bytes = max_bytes
        self._connect_timeout_s = connect_timeout_s
        self._backoff = backoff
        self._secrets = tuple(secrets)
        self._caller: Caller | None = None
        self._running: set[asyncio.Task[Answer]] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @abstractmethod
    def _connect(self) -> Callable[[], Link]:
        """How a session gets its connections. Raises ConfigError."""

    async def open(self) -> None:
        """Starts to connect and returns. Raises ConfigError for settings that cannot work."""
        connect = self._connect()
        # The import costs some 40 MB, which a daemon without MCP servers need not pay.
        from triage.adapters.mcp.calls import Caller
        from triage.adapters.mcp.session import Session, jittered

        session = Session(
            connect,
            connect_timeout_s=self._connect_timeout_s,
            backoff=self._backoff or jittered,
            clean=self._clean,
        )
        self._caller = Caller(session, allow_tools=self._allow_tools, max_bytes=self._max_bytes)
        session.start(self._name)

    async def settled(self) -> None:
        """Returns once the first attempt to connect has ended, well or not."""
        await self._opened().session.tried()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        if not isinstance(query, Call):
            raise self._told(
                ToolFailed(
                    ToolFailure.QUERY_REJECTED,
                    f"it answers call(…) only, not {type(query).__name__.lower()}",
                )
            )
        until = asyncio.get_running_loop().time() + timeout_s
        # A task of its own: the library tells the server of a cancelled call, for up to five
        # seconds when a stuck child reads nothing, and the ask must not wait for that.
        task = asyncio.create_task(
            self._opened().call(query, until=until), name=f"mcp:{self._name}:call"
        )
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise self._told(_late(timeout_s))
        try:
            return task.result()
        except asyncio.CancelledError:
            # Only `close` cancels a task whose ask still waits.
            told: ToolFailed | SourceFailed = self._told(
                SourceFailed(SourceFailure.CONNECT, "it was closed")
            )
        except (ToolFailed, SourceFailed) as failed:
            told = self._told(failed)
        # Outside the handlers: a chain would show the texts that were cleaned.
        raise told

    async def tools(self, *, timeout_s: float) -> Sequence[SourceTool]:
        """Those that may be called, by name; it waits while an attempt to connect is under way.
        Raises SourceFailed."""
        caller = self._opened()
        try:
            async with asyncio.timeout(timeout_s):
                return await caller.tools()
        except TimeoutError:
            told: ToolFailed | SourceFailed = self._told(_late(timeout_s))
        except SourceFailed as failed:
            told = self._told(failed)
        raise told

    async def probe(self, timeout_s: float) -> str:
        """The server's name and version, once connected. Raises SourceFailed."""
        caller = self._opened()
        try:
            async with asyncio.timeout(timeout_s):
                return self._clean((await caller.session.live()).server)
        except TimeoutError:
            told: ToolFailed | SourceFailed = self._told(_late(timeout_s))
        except SourceFailed as failed:
            told = self._told(failed)
        raise told

    async def close(self) -> None:
        caller, self._caller = self._caller, None
        if caller is not None:
            await caller.session.close()
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=_CLOSING_S)

    def _opened(self) -> Caller:
        if self._caller is None:
            raise self._told(SourceFailed(SourceFailure.CONNECT, "it is not open"))
        return self._caller

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        self._running.discard(task)
        # A call that was given up has nobody to tell how it ended.
        if not task.cancelled():
            task.exception()

    def _told(self, failed: ToolFailed | SourceFailed) -> ToolFailed | SourceFailed:
        detail = self._clean(f"source {self._name!r}: {failed.detail}")
        if isinstance(failed, ToolFailed):
            return ToolFailed(failed.failure, detail)
        return SourceFailed(failed.failure, detail)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text if len(text) <= _DETAIL else text[: _DETAIL - 1] + "…"


def _late(timeout_s: float) -> SourceFailed:
    return SourceFailed(SourceFailure.TIMEOUT, f"no answer in {timeout_s:g} s")
