"""The MCP source: a server of somebody else's, as a child process or over HTTP."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from triage.adapters.mcp.tools_source import ToolsSource
from triage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from triage.adapters.mcp.session import Link

_SHORTEST_SECRET = 4  # shorter values would blot out ordinary words


class McpSource(ToolsSource):
    """Answers `Call` from an MCP server, a child process (`command`) or one at a `url`.

    The read-only hint is the server's word, so name tools in `allow_tools` only of servers you
    trust.

    `env` is added to a minimal environment, not to ours. Values of `env` and `headers`, and
    credentials in `url`, appear in no repr and no error. A secret belongs there and not into
    `args`, which every user of the machine can read, nor into the URL's query.
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
        self._command = command
        self._args = tuple(args)
        self._env = dict(env or {})
        self._cwd = cwd
        self._url = url
        self._headers = dict(headers or {})
        super().__init__(
            name,
            allow_tools=allow_tools,
            max_bytes=max_bytes,
            connect_timeout_s=connect_timeout_s,
            backoff=backoff,
            secrets=_secrets(url, (*self._env.values(), *self._headers.values())),
        )

    def _connect(self) -> Callable[[], Link]:
        if bool(self._command) == bool(self._url):
            raise self._misconfigured("give either a command or a url")
        if self._url and not self._url.startswith(("http://", "https://")):
            raise self._misconfigured("its url must begin with http:// or https://")
        if self._command and shutil.which(self._command, path=self._env.get("PATH")) is None:
            raise self._misconfigured(
                f"there is no program {self._command!r}: install it or give its full path"
            )
        from triage.adapters.mcp.links import HttpLink, StdioLink

        if self._url:
            return HttpLink(
                url=self._url,
                headers=self._headers,
                connect_timeout_s=self._connect_timeout_s,
                max_bytes=self._max_bytes,
            )
        return StdioLink(
            command=(self._command, *self._args),
            env=self._env,
            cwd=self._cwd,
            max_bytes=self._max_bytes,
        )

    def _misconfigured(self, problem: str) -> ConfigError:
        return ConfigError(self._clean(f"source {self._name!r}: {problem}"))


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
