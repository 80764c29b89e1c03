"""Answers `Samples` and `Aggregate` queries with instant queries over a range selector.

Never `query_range`: it repeats a sample for up to five minutes at every step, and so hides the
very gaps a tool must see.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from triage.adapters.prometheus.answers import (
    quoted,
    read_matrix,
    read_names,
    read_reply,
    read_vector,
)
from triage.adapters.prometheus.http import BadReply, Connections, Reply, TooLarge
from triage.adapters.prometheus.metadata import described
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Catalogue
from triage.model.query import Aggregate, Answer, Query, Samples

MAX_BYTES = 1_048_576  # bytes of one reply's body
MAX_CONNECTIONS = 10
LONGEST_GET = 4_000  # bytes of query string; proxies cut off URLs at 8 KiB
RECHECK_S = 300.0  # seconds; behind a load balancer an upgraded server goes unnoticed
SHORTEST_AGGREGATE_MS = 2  # so that a window closed on the left can leave out its left edge

_NOT_THERE = frozenset(
    {
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)
"""What a server, or a proxy that lets queries pass, says of a part of the API that it has not: no
outage, which a breaker would count against queries that work."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`')
_SELECTOR = re.compile(r"\s*[\w:]*\s*(?:\{[^(){}\[\]#\"'`]*\}\s*)?")


class PrometheusSource:
    """One server that speaks the Prometheus query API, asked over kept HTTP/1.1 connections.

    `url` is the server's root with its path prefix, if it has one. `headers` go with every
    request (a tenant, say). Either `token` (bearer) or `username` and `password`. `ca_file` is a
    PEM bundle to trust instead of the system's; `insecure` trusts anybody. Redirects are not
    followed, and proxies named in the environment are not used.

    Raises ConfigError for arguments that contradict each other.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        token: str = "",
        username: str = "",
        password: str = "",
        ca_file: str = "",
        insecure: bool = False,
        max_bytes: int = MAX_BYTES,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._name = name
        self._scheme, self._host, self._port, self._prefix, authority = _split(name, url)
        self._where = f"{name} ({self._scheme}://{authority}{self._prefix})"
        sent = {"Host": authority, "Accept-Encoding": "identity", "User-Agent": "triage"}
        sent |= headers or {}
        if token and (username or password):
            raise ConfigError(f"source {name}: set either a token or a username, not both")
        if token:
            sent["Authorization"] = f"Bearer {token}"
        elif username or password:
            pair = b64encode(f"{username}:{password}".encode()).decode()
            sent["Authorization"] = f"Basic {pair}"
        if any(not f"{key}{value}".isprintable() for key, value in sent.items()):
            raise ConfigError(
                f"source {name}: a header, token or password holds a line break or control"
                " character; is there one at the end of the secret's file?"
            )
        self._headers = list(sent.items())
        self._ca_file = ca_file
        self._insecure = insecure
        self._max_bytes = max_bytes
        self._max_connections = max_connections
        self._connections: Connections | None = None
        self._edge = asyncio.Lock()
        self._edge_known: tuple[int, float, bool] | None = None
        """Epoch and loop time of the last look, and whether windows include their left edge."""

    def __repr__(self) -> str:
        return f"PrometheusSource({self._where})"

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        """Connects at the first query. Raises ConfigError for a `ca_file` that cannot be used."""
        if self._connections is None:
            self._connections = Connections(
                host=self._host,
                port=self._port,
                tls=self._tls() if self._scheme == "https" else None,
                headers=self._headers,
                max_connections=self._max_connections,
                max_bytes=self._max_bytes,
            )

    async def close(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.close()

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        if not isinstance(query, Samples | Aggregate):
            raise ToolFailed(
                ToolFailure.QUERY_REJECTED,
                f"{self._name} is a metrics source: it takes samples and aggregate queries,"
                f" not {type(query).__name__.lower()}",
            )
        start_ms, end_ms = self._window(query)
        selector = _checked(query.selector)
        async with _Budget(self._where, timeout_s, self._connections):
            if isinstance(query, Samples):
                expression = f"{selector}\n[{end_ms - start_ms}ms]"
                data = await self._query(expression, end_ms, timeout_s)
                return read_matrix(self._where, data, start_ms)
            return read_vector(
                self._where, await self._aggregate(query, selector, start_ms, end_ms, timeout_s)
            )

    async def probe(self, *, timeout_s: float) -> str:
        """The server's version, after it has answered a query; "unknown" from a server that
        tells none. Raises SourceFailed, or ToolFailed from a server that rejects a plain query."""
        async with _Budget(self._where, timeout_s, self._connections):
            await self._look_at_edge(timeout_s)
            reply = await self._request("/api/v1/status/buildinfo", "")
            if reply.status == HTTPStatus.NOT_FOUND:
                return "unknown"
            return str(read_reply(self._where, reply).get("version", "unknown"))

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        """Every metric that the server has stored, without labels: it tells those of one metric
        at a time only. Help, kind and unit come from targets that are scraped now."""
        async with _Budget(self._where, timeout_s, self._connections):
            reply = await self._request("/api/v1/label/__name__/values", "")
            if reply.status in _NOT_THERE:
                raise ToolFailed(
                    ToolFailure.QUERY_REJECTED,
                    f"{self._where}: HTTP {reply.status}, it does not tell which metrics it has",
                )
            names = read_names(self._where, reply)
            return Catalogue(metrics=described(names, await self._metadata()))

    # --- queries --------------------------------------------------------------------------------

    async def _aggregate(
        self, query: Aggregate, selector: str, start_ms: int, end_ms: int, timeout_s: float
    ) -> Mapping[str, Any]:
        argument = ""
        if query.function == "quantile":
            if not 0 <= query.quantile <= 1:
                raise ToolFailed(
                    ToolFailure.QUERY_REJECTED, f"quantile {query.quantile} is not in [0, 1]"
                )
            argument = f"{query.quantile!r}, "
        while True:
            closed, epoch = await self._left_closed(timeout_s)
            # Up to version 2 a window is [start, end]: leaving out a sample at `start` takes a
            # window shorter by the one millisecond that is the resolution of time stamps.
            window_ms = end_ms - start_ms - (1 if closed else 0)
            expression = f"{query.function}_over_time({argument}{selector}\n[{window_ms}ms])"
            data = await self._query(expression, end_ms, timeout_s)
            if epoch == self._opened().epoch:
                return data
            # Another server may have answered than the one whose edge was looked at.

    async def _left_closed(self, timeout_s: float) -> tuple[bool, int]:
        """Whether windows include their left edge, and the epoch that is known of."""
        async with self._edge:
            known, now = self._edge_known, asyncio.get_running_loop().time()
            if known and known[0] == self._opened().epoch and now - known[1] < RECHECK_S:
                return known[2], known[0]
            return await self._look_at_edge(timeout_s)

    async def _look_at_edge(self, timeout_s: float) -> tuple[bool, int]:
        # Steps at 8, 9 and 10 s: two lie in (8, 10] and three in [8, 10]. Asked, not read off
        # the version: Mimir, Thanos and VictoriaMetrics count theirs otherwise.
        data = await self._query("count_over_time(vector(1)[2s:1s])", 10_000, timeout_s)
        counted = [reading.value for reading in read_vector(self._where, data)]
        if counted not in ([2.0], [3.0]):
            raise SourceFailed(
                SourceFailure.PROTOCOL,
                f"{self._where}: cannot tell whether windows include their left edge, a count"
                f" that is 2 or 3 came back as {counted}; ask for samples instead of aggregates",
            )
        closed, epoch = counted == [3.0], self._opened().epoch
        self._edge_known = (epoch, asyncio.get_running_loop().time(), closed)
        return closed, epoch

    async def _metadata(self) -> Mapping[str, Any]:
        """Empty from a server that has none, or more than an answer may hold: names alone are of
        use as well."""
        try:
            reply = await self._request("/api/v1/metadata", "limit_per_metric=1")
        except ToolFailed:
            return {}
        if reply.status in _NOT_THERE:
            return {}
        return read_reply(self._where, reply)

    async def _query(self, expression: str, at_ms: int, timeout_s: float) -> Mapping[str, Any]:
        # RFC 3339: the server turns a decimal time into milliseconds by way of a double, and
        # truncates.
        moment = (_EPOCH + at_ms * _MILLISECOND).strftime("%Y-%m-%dT%H:%M:%S")
        form = (
            f"query={quote(expression, safe='')}&time={moment}.{at_ms % 1000:03}Z"
            f"&timeout={max(1, int(timeout_s * 1000))}ms"  # so that the server stops as well
        )
        return read_reply(self._where, await self._request("/api/v1/query", form))

    async def _request(self, path: str, form: str) -> Reply:
        connections = self._opened()
        try:
            if len(form) > LONGEST_GET:
                return await connections.request(f"{self._prefix}{path}", form.encode())
            target = f"{self._prefix}{path}?{form}" if form else f"{self._prefix}{path}"
            return await connections.request(target)
        except TooLarge:
            raise ToolFailed(
                ToolFailure.ANSWER_TOO_LARGE,
                f"{self._where}: the answer is over {self._max_bytes} bytes; select fewer series,"
                " a shorter window, or an aggregate",
            ) from None
        except BadReply as error:
            raise SourceFailed(
                SourceFailure.PROTOCOL, f"{self._where} does not speak HTTP: {quoted(str(error))}"
            ) from error
        except ConnectionError as error:
            await connections.drop_idle()
            raise SourceFailed(
                SourceFailure.CONNECT, f"cannot reach {self._where}: {quoted(str(error))}"
            ) from error

    # --- arguments ------------------------------------------------------------------------------

    def _opened(self) -> Connections:
        if self._connections is None:
            raise SourceFailed(SourceFailure.CONNECT, f"{self._name} is not open")
        return self._connections

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"source {self._name}: ca_file {self._ca_file} cannot be used: {error}"
            ) from error
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _window(self, query: Samples | Aggregate) -> tuple[int, int]:
        """Milliseconds since the epoch of (start, end]. Flooring keeps the meaning of both
        edges: a sample's time is whole milliseconds."""
        if query.start.tzinfo is None or query.end.tzinfo is None:
            raise ToolFailed(ToolFailure.QUERY_REJECTED, "a window's start and end need an offset")
        start_ms = (query.start - _EPOCH) // _MILLISECOND
        end_ms = (query.end - _EPOCH) // _MILLISECOND
        shortest = SHORTEST_AGGREGATE_MS if isinstance(query, Aggregate) else 1
        if end_ms - start_ms < shortest:
            raise ToolFailed(
                ToolFailure.QUERY_REJECTED,
                f"the window from {query.start.isoformat()} to {query.end.isoformat()} is shorter"
                f" than {shortest} ms",
            )
        return start_ms, end_ms


class _Budget:
    """Time for one ask; running out is the source's failure."""

    def __init__(self, where: str, timeout_s: float, connections: Connections | None) -> None:
        self._where = where
        self._connections = connections
        self._timeout_s = timeout_s
        self._timeout = asyncio.timeout(timeout_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._timeout.__aexit__(*raised)
        except TimeoutError:
            # A path that died without a word looks like this, and the retry must not take another
            # connection over it.
            if self._connections is not None:
                await self._connections.drop_idle()
            raise SourceFailed(
                SourceFailure.TIMEOUT, f"{self._where} did not answer in {self._timeout_s:g} s"
            ) from None


def _checked(selector: str) -> str:
    """The selector, if it is one selector and nothing else. Brackets, calls and comments outside
    of its strings would move the window. What is left to judge, the server judges."""
    if not _SELECTOR.fullmatch(_STRING.sub("", selector)):
        raise ToolFailed(
            ToolFailure.QUERY_REJECTED,
            f"{quoted(selector)!r} is not a series selector; build it with tool_api.selector",
        )
    return selector


def _split(name: str, url: str) -> tuple[str, str, int, str, str]:
    """Scheme, host, port, path prefix and authority of a URL."""
    fix = "write it like http://prometheus:9090/prefix"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"source {name}: the URL is not valid: {error}; {fix}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"source {name}: the URL needs http:// or https:// and a host; {fix}")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"source {name}: the URL holds credentials, which would end up in logs; set username"
            " and password instead"
        )
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"source {name}: the URL holds more than a server and a path; {fix}")
    authority = parts.netloc
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, parts.hostname, port or default, parts.path.rstrip("/"), authority
