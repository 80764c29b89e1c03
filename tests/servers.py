"""Real servers on free local ports for the tests, and one that misbehaves as it is told.

Every server is killed by its process id, by the fixture or `with` block that started it. The one
place that waits for a server is `wait_until`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import pytest

HOST = "127.0.0.1"
READY_S = 60.0  # seconds a server may take to start on a loaded machine
POLL_S = 0.02


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def missing(what: str) -> NoReturn:
    """Ends the test for want of a server: skipped here, failed in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not installed, and CI runs every test", pytrace=False)
    pytest.skip(f"{what} is not installed")


def binary(*names: str, folders: Sequence[str] = ()) -> str:
    """The path of the first of `names` that is installed, on PATH or in `folders`."""
    for name in names:
        path = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
        if path is not None:
            return path
    missing(" or ".join(names))


def wait_until(
    ready: Callable[[], bool],
    *,
    what: str,
    process: subprocess.Popen[bytes] | None = None,
    within_s: float = READY_S,
) -> None:
    """Polls `ready` until it holds. Raises RuntimeError when it does not in time, or as soon as
    the process it speaks of has ended."""
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not ready within {within_s:g} s")
        if process is None:
            time.sleep(POLL_S)
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=POLL_S)
            raise RuntimeError(f"{what}: ended with code {code} before it was ready")


def answers_ok(url: str) -> bool:
    """Whether a GET of `url` is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own local URL
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A child process that serves HTTP on `port`; the port stays the same over restarts.

    `folder` takes its files and its log. A subclass gives `argv` and `ready_path`.
    """

    name = "server"
    ready_path = "/"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def argv(self) -> list[str]:
        raise TypeError(f"{type(self).__name__} has no command line")

    def start(self) -> Self:
        """Returns when the server is ready. Raises RuntimeError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - the argv is made here
                self.argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder
            )
        try:
            wait_until(
                lambda: answers_ok(self.url + self.ready_path),
                what=self.name,
                process=self.process,
            )
        except RuntimeError as error:
            self.kill()
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{error}\n{tail}") from None
        return self

    def kill(self) -> None:
        """SIGKILL, and gone when this returns. Nothing happens when it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class Prometheus(Server):
    """`config` is the text of prometheus.yml; `flags` come after the ones given here.

    Old blocks are kept: retention is a hundred years.
    """

    name = "prometheus"
    ready_path = "/-/ready"

    def __init__(
        self, folder: Path, *, config: str = "global: {}\n", flags: Sequence[str] = ()
    ) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus")
        self._flags = list(flags)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(config)

    def argv(self) -> list[str]:
        return [
            self._binary,
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={HOST}:{self.port}",
            *self._flags,
        ]

    def backfill(self, series: Iterable[OldSeries]) -> None:
        """Writes samples of the past into the data folder, before the server starts."""
        dump = self.folder / "backfill.om"
        dump.write_text(openmetrics(series))
        done = subprocess.run(  # noqa: S603 - the argv is made here
            [
                binary("promtool"),
                *("tsdb", "create-blocks-from", "openmetrics"),
                str(dump),
                str(self.folder / "data"),
            ],
            check=False,
            capture_output=True,
        )
        if done.returncode:
            raise RuntimeError(f"promtool: {done.stderr.decode(errors='replace')[-2000:]}")


@dataclass(frozen=True, slots=True)
class OldSeries:
    """`samples` are (milliseconds since the epoch, value), ascending."""

    metric: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[int, float]]


def openmetrics(series: Iterable[OldSeries]) -> str:
    """The series in the text form that promtool back-fills from."""
    by_metric: dict[str, list[OldSeries]] = {}
    for one in series:
        by_metric.setdefault(one.metric, []).append(one)
    lines = []
    for metric, members in by_metric.items():
        lines.append(f"# TYPE {metric} gauge")
        for one in members:
            labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in one.labels.items())
            for at_ms, value in one.samples:
                seconds = f"{at_ms // 1000}.{at_ms % 1000:03}"
                lines.append(f"{metric}{{{labels}}} {_spelled(value)} {seconds}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _spelled(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(repr(value), repr(value))


class Alertmanager(Server):
    """`config` is the text of alertmanager.yml."""

    name = "alertmanager"
    ready_path = "/-/ready"

    def __init__(self, folder: Path, *, config: str, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus-alertmanager", "alertmanager")
        self._flags = list(flags)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alertmanager.yml").write_text(config)

    def argv(self) -> list[str]:
        return [
            self._binary,
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--cluster.listen-address=",
            *self._flags,
        ]


class NodeExporter(Server):
    name = "node_exporter"
    ready_path = "/metrics"

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._binary = binary("prometheus-node-exporter", "node_exporter")
        self._flags = list(flags)

    def argv(self) -> list[str]:
        return [self._binary, f"--web.listen-address={HOST}:{self.port}", *self._flags]


# --- a server that does as it is told ---------------------------------------------------------


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

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.hung_up = asyncio.Event()
        """Set when a client has closed its connection, or let it be closed."""
        self._arrival = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def __aenter__(self) -> Self:
        server = await asyncio.start_server(self._accept, HOST, self.port)
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
