"""The MCP source: what it is given, and what it tells."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Answer, Call, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from triage.adapters.mcp.calls import Caller

_DETAIL = 500  # characters of a server's message that are worth storing with a decision
_CLOSING_S = 6.0
_SHORTEST_SECRET = 4  # shorter values would blot out ordinary words


class McpSource:
    """Answers `Call` from an MCP server, a child process (`command`) or one at a `url`.

    Only a tool that the server marks `readOnlyHint`, or that `allow_tools` names, is called: the
    hint is the server's word, so name tools only of servers you trust. Arguments are checked
    against the tool's schema before anything is sent. What an answer looks like is said in
    `triage.adapters.mcp.answers.answer_of`; it has at most `max_bytes` of canonical JSON.

    `env` is added to a minimal environment, not to ours. Values of `env` and `headers`, and
    credentials in `url`, appear in no repr and no error. A secret belongs there and not into
    `args`, which every user of the machine can read, nor into the URL's query.

    A server that cannot be reached, or dies, is connected to in the background, after waits that
    `backoff` gives; meanwhile asks fail at once. An ask may be cancelled at any await, and
    ends within its limit, without harm to others of the same session.
    """

    def __init__(
        self,
        name: str,
        *,
        command: str = "",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        allow_tools: frozenset[str] = frozenset(),
        max_bytes: int = 1024 * 1024,
        connect_timeout_s: float = 10.0,
        backoff: Callable[[int], float] | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._args = tuple(args)
        self._env = dict(env or {})
        self._cwd = cwd
        self._url = url
        self._headers = dict(headers or {})
        self._allow_tools = allow_tools
        self._max_bytes = max_bytes
        self._connect_timeout_s = connect_timeout_s
        self._backoff = backoff
        self._secrets = _secrets(url, (*self._env.values(), *self._headers.values()))
        self._caller: Caller | None = None
        self._running: set[asyncio.Task[Answer]] = set()

    def __repr__(self) -> str:
        return f"McpSource({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        """Starts to connect and returns. Raises ConfigError for settings that cannot work."""
        if bool(self._command) == bool(self._url):
            raise self._misconfigured("give either a command or a url")
        if self._url and not self._url.startswith(("http://", "https://")):
            raise self._misconfigured("its url must begin with http:// or https://")
        if self._command and shutil.which(self._command, path=self._env.get("PATH")) is None:
            raise self._misconfigured(
                f"there is no program {self._command!r}: install it or give its full path"
            )
        # The import costs some 40 MB, which a daemon without MCP servers need not pay.
        from triage.adapters.mcp.calls import Caller
        from triage.adapters.mcp.links import HttpLink, StdioLink
        from triage.adapters.mcp.session import Session, jittered

        connect = (
            HttpLink(
                url=self._url,
                headers=self._headers,
                connect_timeout_s=self._connect_timeout_s,
                max_bytes=self._max_bytes,
            )
            if self._url
            else StdioLink(
                command=(self._command, *self._args),
                env=self._env,
                cwd=self._cwd,
                max_bytes=self._max_bytes,
            )
        )
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
                    f"it answers call(…) only, not {type(query).__name__}",
                )
            )
        # A task of its own: the library tells the server of a cancelled call, for up to five
        # seconds when a stuck child reads nothing, and the ask must not wait for that.
        task = asyncio.create_task(self._opened().call(query), name=f"mcp:{self._name}:call")
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

    def _misconfigured(self, problem: str) -> ConfigError:
        return ConfigError(self._clean(f"source {self._name!r}: {problem}"))

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text if len(text) <= _DETAIL else text[: _DETAIL - 1] + "…"


def _late(timeout_s: float) -> SourceFailed:
    return SourceFailed(SourceFailure.TIMEOUT, f"no answer in {timeout_s:g} s")


def _secrets(url: str, values: Sequence[str]) -> tuple[str, ...]:
    found = {value for value in values if len(value) >= _SHORTEST_SECRET}
    # "Bearer abc": a server may repeat the token alone.
    found |= {
        word for value in found for word in value.split() if len(word) >= 2 * _SHORTEST_SECRET
    }
    authority = url.partition("//")[2].partition("/")[0]
    user, at, _ = authority.rpartition("@")
    if at:
        found |= {user, user.partition(":")[2]} - {""}
    return tuple(sorted(found, key=len, reverse=True))
