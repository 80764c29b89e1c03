"""What stands around a daemon: a metrics server that says what the test wants, a webhook receiver
that checks signatures, a quick HTTP client."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.scripted_server import Request, head
from tests.servers import HOST

SECRET = base64.b64encode(b"a secret of at least 24 bytes").decode()


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """HTTP/1.1 over one kept connection: ten thousand requests cost seconds, not a minute.

    Raises ConnectionError (or an IncompleteReadError) when the server hangs up before it has
    answered; the next request connects anew.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        try:
            async with asyncio.timeout(60):
                return await self._request(method, path, body, headers or {})
        except BaseException:
            self.drop()
            raise

    async def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Reply:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        lines = {"host": f"{HOST}:{self._port}", "content-length": str(len(body)), **headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode("latin-1") + body)
        reader = self._reader
        status_line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        given = dict(line.lower().split(": ", 1) for line in rest if line)
        content = await reader.readexactly(int(given.get("content-length", "0")))
        if given.get("connection") == "close" or reader.at_eof():
            self.drop()
        return Reply(int(status_line.split()[1]), given, content)


class MetricsScript:
    """Answers a `ScriptedServer`'s requests as Prometheus does.

    Every metric has the value in `values`, or else `value`. Requests for the metric `held` wait
    until `release`.
    """

    def __init__(self, value: float = 20.0) -> None:
        self.value = value
        self.values: dict[str, float] = {}
        self.released = asyncio.Event()
        self.held = asyncio.Event()
        """Set when a request waits."""
        self.instead: Callable[[str], Any] | None = None
        """Given the metric, another script to answer with, or None."""

    def release(self) -> None:
        self.released.set()

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if "/api/v1/label/" in request.target or "/api/v1/metadata" in request.target:
            await _answer(writer, {"status": "success", "data": []})
            return
        form = parse_qs(urlsplit(request.target).query or request.body.decode())
        metric = form["query"][0].split("{")[0]
        if self.instead is not None and (script := self.instead(metric)) is not None:
            await script(request, writer)
            return
        if metric == "held":
            self.held.set()
            await self.released.wait()
        at = datetime.fromisoformat(form["time"][0]).timestamp()
        series = {
            "metric": {"__name__": metric},
            "values": [[at - 10, str(self.values.get(metric, self.value))]],
        }
        await _answer(
            writer, {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
        )


async def _answer(writer: asyncio.StreamWriter, document: Mapping[str, Any]) -> None:
    body = orjson.dumps(document)
    writer.write(
        head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))}) + body
    )
    await writer.drain()


class Receiver:
    """A webhook's other end, as a script: verifies every signature.

    `bodies` maps a message's key to every body it came with. With `refuse` it answers 503 to the
    requests for which that is true.
    """

    def __init__(self, refuse: Callable[[int], bool] = lambda _: False) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        self.forged: list[str] = []
        self.count = 0
        self._refuse = refuse

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        key = request.headers["webhook-id"]
        stamp = request.headers["webhook-timestamp"]
        signed = f"{key}.{stamp}.".encode() + request.body
        mac = hmac.digest(base64.b64decode(SECRET), signed, hashlib.sha256)
        if request.headers["webhook-signature"] != f"v1,{base64.b64encode(mac).decode()}":
            self.forged.append(key)
        self.count += 1
        if self._refuse(self.count):
            writer.write(head(503, {"Content-Length": "0", "Retry-After": "0"}))
        else:
            self.bodies.setdefault(key, []).append(request.body)
            writer.write(head(204, {}))
        await writer.drain()
