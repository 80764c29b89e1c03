"""An HTTP server that does as it is told: hang, dribble, flood, hang up, talk nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.servers import HOST


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is the path with its query string. Header names are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Script = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
"""Answers one request. When it returns, the next request of the connection is read."""


class ScriptedServer:
    """Raw HTTP on a free port: `script` answers each request and may be swapped between two.

    `requests` holds every request in the order it came; `arrived(n)` waits for the n-th.
    """

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self._tls = tls
        self.requests: list[Request] = []
        self.hung_up = asyncio.Event()
        """Set when a client has closed its connection, or let it be closed."""
        self._arrival = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    async def __aenter__(self) -> Self:
        server = await asyncio.start_server(self._accept, HOST, self.port, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops listening and drops every connection. Entered again, it has the same port."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if server is not None:
            await server.wait_closed()

    async def arrived(self, count: int) -> None:
        """Returns when `count` requests have come since the start."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        early = b""
        try:
            while (request := await _read_request(reader, early)) is not None:
                async with self._arrival:
                    self.requests.append(request)
                    self._arrival.notify_all()
                early = await _while_connected(reader, self.script(request, writer))
        except ConnectionError:
            pass  # the client left in the middle of a script, as some tests want it to
        finally:
            self.hung_up.set()
            writer.transport.abort()


async def _while_connected(reader: asyncio.StreamReader, script: Awaitable[None]) -> bytes:
    """Runs the script to its end, or until the client leaves; ConnectionError then. A script that
    hangs would not notice. Gives the byte of the next request that came meanwhile, if any."""
    answering = asyncio.ensure_future(script)
    watching = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((answering, watching), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and watching.done() and not watching.result():
            raise ConnectionResetError("the client left")
        await answering
        if watching.done():
            return watching.result()
        return b""
    finally:
        answering.cancel()
        watching.cancel()
        await asyncio.gather(answering, watching, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader, early: bytes) -> Request | None:
    try:
        head = early + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, value in (line.split(":", 1) for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """Status line and headers of a response."""
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def reply(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Script:
    """A whole, correct response."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, {"Content-Length": str(len(body)), **(headers or {})}) + body)
        await writer.drain()

    return script


def in_turn(*scripts: Script) -> Script:
    """Each request is answered by the next of `scripts`, the last one from then on."""
    left = list(scripts)

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, writer)

    return script


def hang(until: asyncio.Event | None = None) -> Script:
    """Reads the request and never answers, or nothing until `until` and then hangs up."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        await (until or asyncio.Event()).wait()
        writer.transport.abort()

    return script


def hang_up() -> Script:
    """Reads the request and closes the connection without a byte."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    return script


def close_mid_body(body: bytes) -> Script:
    """Promises twice the body it sends, then closes."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"Content-Length": str(2 * len(body))}) + body)
        await writer.drain()
        writer.close()

    return script


def garbage(text: bytes = b"\x16\x03\x01 this is not HTTP\r\n\r\n") -> Script:
    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        writer.close()

    return script


def flood(total: int, *, stated: bool, on_byte: Callable[[int], None] | None = None) -> Script:
    """A body of `total` spaces, with a Content-Length if `stated`, else chunked.

    `on_byte` is told how many bytes have been handed to the socket so far.
    """

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        length = {"Content-Length": str(total)} if stated else {"Transfer-Encoding": "chunked"}
        writer.write(head(200, {"Content-Type": "application/json", **length}))
        block = b" " * 65_536
        sent = 0
        while sent < total:
            part = block[: total - sent]
            writer.write(part if stated else f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
            sent += len(part)
            if on_byte is not None:
                on_byte(sent)
        if not stated:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return script


def gzip_bomb(unpacked: int) -> Script:
    """A small body that says it unpacks to `unpacked` bytes, sent whether or not asked for."""
    body = gzip.compress(b" " * unpacked)
    return reply(200, body, {"Content-Encoding": "gzip", "Content-Type": "application/json"})


def dribble(every_s: float = 0.01) -> Script:
    """A byte at a time, for ever: no pause in reading is long, and it never ends."""

    async def script(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, {"Transfer-Encoding": "chunked"}))
        never = asyncio.Event()
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(never.wait(), every_s)

    return script
