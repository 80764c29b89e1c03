"""A webhook receiver that keeps what came, and is at times a bad one.

By plan it answers some requests with 500, hangs over some, and dies in the middle of its answer to
some; what it had read by then it has kept, as a real one may have. Signatures are verified.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Self

import orjson

from bench.servers import HOST, free_port

SECRET = base64.b64encode(b"what the receiver of the bench shares").decode()
HANG_S = 3.0  # longer than the sink waits
BACKLOG = 256


class Manner(StrEnum):
    """How one request is answered. TAKEN only when a whole 2xx was written."""

    TAKEN = "taken"
    REFUSED = "refused"
    HUNG = "hung"
    DIED = "died"


MANNERS: Mapping[Manner, float] = {
    Manner.TAKEN: 94,
    Manner.REFUSED: 3,
    Manner.HUNG: 1,
    Manner.DIED: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One request: its key, the SHA-256 of its body, the alert id inside the body."""

    at: float
    key: str
    sha256: str
    alert_id: str
    manner: Manner
    signed: bool


class Receiver:
    """The n-th request is answered in the n-th manner that the seed draws; after `behave` all are
    taken. The record is also in `path`, a JSON object a line."""

    def __init__(self, path: Path, seed: int) -> None:
        self.port = free_port()
        self.receipts: list[Receipt] = []
        self._path = path
        self._draw = random.Random(f"{seed}/receiver")
        self._behaves = False
        self._file: IO[bytes] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/decisions"

    def behave(self) -> None:
        self._behaves = True

    async def __aenter__(self) -> Self:
        self._file = await asyncio.to_thread(self._path.open, "ab", 0)
        self._server = await asyncio.start_server(self._accept, HOST, self.port, backlog=BACKLOG)
        return self

    async def __aexit__(self, *_: object) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if server is not None:
            await server.wait_closed()
        if self._file is not None:
            self._file.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                manner = self._manner()
                self._keep(*request, manner)
                if not await _reply(writer, manner):
                    return
        except (OSError, EOFError):
            return  # a replica that was killed, or a connection that was given up
        finally:
            writer.transport.abort()

    def _manner(self) -> Manner:
        drawn = self._draw.choices(list(MANNERS), list(MANNERS.values()))[0]
        return Manner.TAKEN if self._behaves else drawn

    def _keep(self, headers: Mapping[str, str], body: bytes, manner: Manner) -> None:
        key = headers.get("webhook-id", "")
        try:
            alert_id = str(orjson.loads(body)["alert_id"])
        except (ValueError, LookupError, TypeError):
            alert_id = ""
        receipt = Receipt(
            at=time.time(),
            key=key,
            sha256=hashlib.sha256(body).hexdigest(),
            alert_id=alert_id,
            manner=manner,
            signed=_is_signed(headers, key, body),
        )
        self.receipts.append(receipt)
        assert self._file is not None
        self._file.write(orjson.dumps(receipt) + b"\n")


def _is_signed(headers: Mapping[str, str], key: str, body: bytes) -> bool:
    signed = f"{key}.{headers.get('webhook-timestamp', '')}.".encode() + body
    mac = hmac.digest(base64.b64decode(SECRET), signed, hashlib.sha256)
    expected = "v1," + base64.b64encode(mac).decode()
    return hmac.compare_digest(expected, headers.get("webhook-signature", ""))


async def _read(reader: asyncio.StreamReader) -> tuple[Mapping[str, str], bytes] | None:
    """Headers in lower case, and the body; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    headers = {}
    for line in head.decode("latin-1").rstrip("\r\n").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def _reply(writer: asyncio.StreamWriter, manner: Manner) -> bool:
    """Whether the connection goes on."""
    match manner:
        case Manner.TAKEN:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        case Manner.REFUSED:
            writer.write(b"HTTP/1.1 500 Not Now\r\nContent-Length: 0\r\n\r\n")
        case Manner.HUNG:
            await asyncio.sleep(HANG_S)
            return False
        case Manner.DIED:
            writer.write(b"HTTP/1.1 20")
            await writer.drain()
            writer.close()
            await asyncio.sleep(0)
            return False
    await writer.drain()
    return True
