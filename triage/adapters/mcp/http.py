"""Streamable HTTP with bounded answers, on the library's own transport.

A failed POST would end the library's whole session, and every ask on it. So what fails here is
turned into a response, its cause noted in the ask's Exchange.
"""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client

from triage.adapters.mcp.exchange import current_exchange

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from mcp.client._transport import TransportStreams

    from triage.adapters.mcp.exchange import Exchange

_READ_S = 300.0  # between two pieces of a stream that is open for notifications; asks end sooner
_UNAVAILABLE = 503
_NOT_FOUND = 404
_REFUSED = (401, 403)


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], *, connect_timeout_s: float, limit: int
) -> AsyncGenerator[TransportStreams]:
    """Streams to the server at `url`; a response over `limit` bytes is cut off."""
    target = httpx2.URL(url)
    sent = {"Accept-Encoding": "identity", **headers}
    if target.userinfo:
        # A header, because URLs are logged by everyone and headers by nobody.
        sent.setdefault(
            "Authorization", f"Basic {base64.b64encode(target.userinfo).decode('ascii')}"
        )
        target = target.copy_with(userinfo=b"")
    client = httpx2.AsyncClient(
        headers=sent,
        timeout=httpx2.Timeout(connect_timeout_s, read=_READ_S),
        transport=_BoundedTransport(httpx2.AsyncHTTPTransport(), limit),
    )
    async with (
        client,
        streamable_http_client(
            str(target), http_client=client, max_sse_event_size=limit
        ) as streams,
    ):
        yield streams


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncHTTPTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current_exchange.get()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if exchange is None:
                raise
            exchange.problem = str(error) or type(error).__name__
            # A reset may be one connection's end; a refusal is the server's.
            exchange.gone = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            return httpx2.Response(_UNAVAILABLE, request=request)
        if exchange is None:
            return response
        exchange.status = response.status_code
        if response.status_code in _REFUSED:
            exchange.problem = f"HTTP {response.status_code}: check the headers of this source"
        elif response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            exchange.problem = "the server does not know this session any more"
            exchange.gone = True
        elif response.headers.get("content-encoding", "identity") != "identity":
            # Unpacking has no bound: a small body may become any size.
            await response.aclose()
            exchange.problem = "the server compresses its answers though it was told not to"
            return httpx2.Response(_UNAVAILABLE, request=request)
        stream = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _BoundedStream(stream, exchange, self._limit)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """Raises StreamError, the only kind that costs the request and not the session."""

    def __init__(self, inner: httpx2.AsyncByteStream, exchange: Exchange, limit: int) -> None:
        self._inner = inner
        self._exchange = exchange
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if size > self._limit:
                    self._exchange.too_large = True
                    raise httpx2.StreamError("the answer is too large")
                yield chunk
        except httpx2.TransportError as error:
            self._exchange.problem = str(error) or "the connection broke off"
            raise httpx2.StreamError("the connection broke off") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
