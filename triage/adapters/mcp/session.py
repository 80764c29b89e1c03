"""One task owns a server's session: it opens, serves, reopens and closes it.

The library's scopes must be left by the task that entered them, so nobody else connects or
closes anything. Callers use the session that the owner has published, and tell it what they saw.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from mcp.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Implementation,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)

from triage import __version__
from triage.adapters.mcp.exchange import Exchange, current_exchange
from triage.errors import SourceFailed, SourceFailure

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage
    from mcp.server import Server

_log = logging.getLogger(__name__)

_PAGES = 100  # of the tool list; a server that never ends it is broken
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_STEADY_S = 60.0  # a session that lived this long was no failed attempt

Backoff = Callable[[int], float]
"""Seconds to wait after the n-th failed attempt in a row, n from 1."""


def jittered(attempt: int) -> float:
    """Doubles from half a second to half a minute; half of it is chance, so that clients of a
    server that came back do not all arrive at once."""
    longest = min(_FIRST_WAIT_S * 2.0 ** min(attempt - 1, 16), _LONGEST_WAIT_S)
    return longest * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One connection to be made: `lost` is set when the transport ended, `why` says what the
    transport knows about it. A server in this process is its own transport. Results of one that
    `is_ours` need not be held against the schemas they are made from."""

    transport: AbstractAsyncContextManager[TransportStreams] | Server[Any]
    lost: anyio.Event
    why: Callable[[], str]
    is_ours: bool = False


@dataclass(slots=True, kw_only=True)
class Live:
    """A session in use. `tools` is replaced whole when the server's list changes."""

    client: Client
    server: str
    tools: Mapping[str, Tool]
    lost: anyio.Event
    is_ours: bool = False


class Session:
    """`start` returns at once. Raises nothing by itself: what went wrong is told to `live`."""

    def __init__(
        self,
        connect: Callable[[], Link],
        *,
        connect_timeout_s: float,
        backoff: Backoff,
        clean: Callable[[str], str],
    ) -> None:
        self._connect = connect
        self._connect_timeout_s = connect_timeout_s
        self._backoff = backoff
        self._clean = clean
        self._live: Live | None = None
        self._waiting = False
        self._problem = ""
        self._changed = asyncio.Event()
        self._tried = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        self._task = asyncio.create_task(self._own(), name=f"mcp:{name}")

    async def live(self) -> Live:
        """The session, waiting while an attempt to connect is under way.

        Raises SourceFailed when the last attempt failed and the next is not due yet: a dead
        server must not cost every ask its whole time.
        """
        while True:
            # A session that somebody saw end is not handed out while its owner has yet to notice.
            if self._live is not None and not self._live.lost.is_set():
                return self._live
            if self._waiting:
                raise SourceFailed(SourceFailure.CONNECT, self._problem)
            await self._changed.wait()

    async def tried(self) -> None:
        """Returns once the first attempt to connect has ended, well or not."""
        await self._tried.wait()

    async def close(self) -> None:
        if self._task is None:
            return
        # Not task.cancel(): it would break through the shield that ends the child process.
        self._scope.cancel()
        await asyncio.wait({self._task})

    def _announce(self, live: Live | None, *, waiting: bool = False) -> None:
        self._live, self._waiting = live, waiting
        if live is not None or waiting:
            self._tried.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _own(self) -> None:
        failed = 0
        with self._scope:
            while True:
                began = anyio.current_time()
                self._announce(None)
                connected, problem = await self._serve()
                self._problem = self._clean(problem or "the connection ended")
                if connected and anyio.current_time() - began > _STEADY_S:
                    failed = 0
                if connected and failed == 0:
                    # Most often the server restarted, and is there already.
                    _log.warning("MCP session lost: %s", self._problem)
                    failed = 1
                    continue
                failed += 1
                self._announce(None, waiting=True)
                await anyio.sleep(self._backoff(failed))
        self._problem = "the source was closed"
        self._announce(None, waiting=True)

    async def _serve(self) -> tuple[bool, str]:
        """One session from its opening to its end; whether there was one, and why it ended."""
        exchange = Exchange()
        current_exchange.set(exchange)
        link = self._connect()
        stale = _Stale()
        connected = False
        problem = ""
        try:
            with anyio.CancelScope() as scope:
                scope.deadline = anyio.current_time() + self._connect_timeout_s
                async with Client(
                    link.transport,
                    cache=None,
                    read_timeout_seconds=self._connect_timeout_s,
                    message_handler=stale.notice,
                    client_info=Implementation(name="triage", version=__version__),
                ) as client:
                    live = Live(
                        client=client,
                        server=_server_name(client),
                        tools=await _list_tools(client),
                        lost=link.lost,
                        is_ours=link.is_ours,
                    )
                    scope.deadline = math.inf
                    connected = True
                    self._announce(live)
                    try:
                        await _keep(live, stale)
                    finally:
                        # Before the transport is wound up, which may take a while.
                        self._announce(None)
            if scope.cancelled_caught:
                problem = f"no session within {self._connect_timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - a server or the library may do anything: the owner lives on and says so
            problem = _first_line(error)
        return connected, link.why() or exchange.problem or problem


class _Stale:
    """Set when the tool list may have changed."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    async def notice(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.event.set()

    async def next(self) -> None:
        await self.event.wait()
        self.event = anyio.Event()


async def _keep(live: Live, stale: _Stale) -> None:
    """Until the session is lost: list the tools again whenever they may have changed."""

    async def refresh() -> None:
        while True:
            await stale.next()
            try:
                live.tools = await _list_tools(live.client)
            except (MCPError, ValueError):
                live.lost.set()

    async with anyio.create_task_group() as group:
        group.start_soon(refresh)
        group.start_soon(_subscribe, live, stale)
        await live.lost.wait()
        group.cancel_scope.cancel()


async def _subscribe(live: Live, stale: _Stale) -> None:
    """Since protocol 2026-07-28 a client asks for the notice of changed tools; before, and from
    servers that give none, nothing is to be done."""
    current_exchange.set(None)
    while True:
        try:
            async with live.client.listen(tools_list_changed=True) as events:
                # What changed since the first listing was told to nobody.
                stale.event.set()
                async for _ in events:
                    stale.event.set()
        except (ListenNotSupportedError, MCPError, TimeoutError):
            return
        except SubscriptionLost:
            pass
        # The stream ended, by a proxy's idle limit or with the server: listing tells which.
        stale.event.set()
        await anyio.sleep(_FIRST_WAIT_S)


async def _list_tools(client: Client) -> Mapping[str, Tool]:
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools.update((tool.name, tool) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ValueError(f"the server's tool list has more than {_PAGES} pages")


def _server_name(client: Client) -> str:
    info = client.server_info
    return f"{info.name} {info.version}".strip() if info is not None else "an unnamed MCP server"


def _first_line(error: BaseException) -> str:
    """The innermost cause: the library's task groups wrap it once a level."""
    inner: Any = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    lines = str(inner).splitlines()
    return lines[0] if lines else type(inner).__name__
