"""The senders' side of HTTP: few words, kept connections, and an error wherever one breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bench.servers import HOST

MAX_IDLE = 32


class NoAnswer(Exception):
    """The connection broke, or nothing came in time: the server may have acted or not."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Requests to one port, any number at once; connections are kept and used again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        within_s: float,
    ) -> Answer:
        """Raises NoAnswer, after `within_s` at the latest."""
        lines = {
            "host": f"{HOST}:{self._port}",
            "content-length": str(len(body)),
            **(headers or {}),
        }
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request = f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode("latin-1") + body
        writer: asyncio.StreamWriter | None = None
        kept = False
        try:
            async with asyncio.timeout(within_s):
                reader, writer = await self._connection()
                writer.write(request)
                answer = await _answer(reader)
            kept = answer.headers.get("connection") != "close" and len(self._idle) < MAX_IDLE
            if kept:
                self._idle.append((reader, writer))
            return answer
        except (OSError, EOFError, TimeoutError, LookupError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            if writer is not None and not kept:
                writer.transport.abort()

    def close(self) -> None:
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.transport.is_closing():
                return reader, writer
            writer.transport.abort()
        return await asyncio.open_connection(HOST, self._port)


async def _answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers["content-length"]))
    return Answer(int(first.split()[1]), headers, body)
