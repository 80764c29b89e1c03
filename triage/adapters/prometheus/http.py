"""GET and POST to one server over kept HTTP/1.1 connections: httpcore2's pool, a cap on bodies.

httpcore2 is httpx2 without the client above its transport. Against a Prometheus on the same two
busy cores, uvloop, ten asks at a time, p50 / p99 in ms, in one run: httpx 26 / 184, httpx2 29 / 58,
this with the answer decoded 13 / 37; one at a time 2.9 / 12, 2.6 / 12 and 1.1 / 2.7. httpcore
itself has 13 / 99, and its pool never gets back the connections of some cancelled requests: after
enough of them it serves nobody (encode/httpcore#1093).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from ssl import SSLContext

import httpcore2

IDLE_S = 30.0  # seconds; below what load balancers forget a quiet connection after (60 and up)
KEPT = 8  # quiet connections: the pool polls each of them twice a request, for 0.05 ms a poll

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer. `encoding` is the Content-Encoding, empty when the body is plain."""

    status: int
    encoding: str
    body: bytes


class BadReply(Exception):
    """What came back is not HTTP/1.1."""


class TooLarge(Exception):
    """The body is larger than the limit; the connection is gone and the rest was not read."""


class Connections:
    """Up to `max_connections` connections to one server, `tls` for https.

    `headers` go with every request and hold Host. Up to KEPT connections are kept while quiet, for
    `idle_s` seconds. `epoch` changes whenever a connection is opened while none is there: the
    server on the other end may be another one than before.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        tls: SSLContext | None,
        headers: Sequence[Header],
        max_connections: int,
        max_bytes: int,
        idle_s: float = IDLE_S,
    ) -> None:
        self._scheme = "https" if tls else "http"
        self._host = host
        self._port = port
        self._headers = list(headers)
        self._max_bytes = max_bytes
        self._dialler = _Dialler(self._opening)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=max_connections,
            max_keepalive_connections=KEPT,
            keepalive_expiry=idle_s,
            network_backend=self._dialler,
        )
        self.epoch = 0

    async def request(self, target: str, form: bytes | None = None) -> Reply:
        """GET `target`, or POST `form` to it.

        Raises ConnectionError when the server cannot be reached or hangs up, BadReply and TooLarge.
        Has no time limit of its own; when cancelled, the connection it used is closed.
        """
        try:
            response = await self._pool.handle_async_request(self._request(target, form))
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        except httpcore2.ProtocolError as error:
            if any(isinstance(part, Exception) for part in error.args):  # the parser's complaint
                raise BadReply(str(error)) from error
            raise ConnectionError(str(error)) from error
        try:
            body = await self._body(response)
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise ConnectionError(f"broken off: {error}") from error
        finally:
            await response.aclose()
        encoding = (value for key, value in response.headers if key.lower() == b"content-encoding")
        return Reply(
            status=response.status, encoding=next(encoding, b"").decode("latin-1"), body=body
        )

    async def drop_idle(self) -> None:
        """Close the quiet connections, after one proved dead: the others are suspect."""
        for connection in self._pool.connections:
            if connection.is_idle():
                await connection.aclose()

    async def close(self) -> None:
        """Closes every connection; requests under way end with ConnectionError."""
        self._dialler.closed = True
        await self._pool.aclose()

    async def _body(self, response: httpcore2.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        async with aclosing(response.aiter_stream()) as stream:
            async for part in stream:
                size += len(part)
                if size > self._max_bytes:
                    raise TooLarge
                parts.append(part)
        return b"".join(parts)

    def _request(self, target: str, form: bytes | None) -> httpcore2.Request:
        url = httpcore2.URL(scheme=self._scheme, host=self._host, port=self._port, target=target)
        if form is None:
            return httpcore2.Request("GET", url, headers=self._headers)
        headers = [
            *self._headers,
            (b"Content-Type", b"application/x-www-form-urlencoded"),
            (b"Content-Length", str(len(form)).encode()),
        ]
        return httpcore2.Request("POST", url, headers=headers, content=form)

    def _opening(self) -> None:
        if not any(connection.is_connected() for connection in self._pool.connections):
            self.epoch += 1


class _Dialler(httpcore2.AnyIOBackend):
    """Calls `opening` before it connects."""

    def __init__(self, opening: Callable[[], None]) -> None:
        self._opening = opening
        self.closed = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of the base class
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self._opening()
        stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        if self.closed:  # while this was connecting: the pool knows it no more
            await stream.aclose()
            raise httpcore2.ConnectError("closed while connecting")
        return stream
