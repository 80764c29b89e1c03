"""The MCP source against real servers: a child process, and one over HTTP."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from triage.adapters.mcp import McpSource
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Rows, decode_answer, encode_answer
from triage.ports import Connecting
from triage.tool_api import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SERVER = Path(__file__).parent.parent / "mcp_servers" / "server.py"
LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
SHORT_S = 0.3  # for what never answers
TOKEN = "hunter2-hunter2"  # noqa: S105 - a test's own


class HttpServer:
    """The fixture server in a process of its own, on one port over its restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(SERVER), "http", str(self._directory), str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        # It prints when it listens; a server that cannot start ends its output instead.
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


class Waits:
    """A backoff that lets a test see the failed attempts, and never waits for long."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()

    def __call__(self, _attempt: int) -> float:
        self.failed.set()
        return 0.01


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[HttpServer]:
    server = HttpServer(tmp_path)
    server.start()
    yield server
    server.kill()


def stdio_source(directory: Path, **settings: Any) -> McpSource:
    settings.setdefault("backoff", Waits())
    return McpSource(
        "tools",
        command=sys.executable,
        args=(str(SERVER), "stdio", str(directory)),
        env={"FIXTURE_TOKEN": TOKEN},
        connect_timeout_s=LONG_S,
        **settings,
    )


def http_source(server: HttpServer, **settings: Any) -> McpSource:
    settings.setdefault("backoff", Waits())
    settings.setdefault("headers", {"X-Api-Key": TOKEN})
    return McpSource("tools", url=server.url, connect_timeout_s=LONG_S, **settings)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers of `source` write."""
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def shared_server(directory: Path) -> Iterator[HttpServer]:
    """For tests that leave it as it was."""
    server = HttpServer(directory)
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["stdio", "http"])
async def source(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[McpSource]:
    if request.param == "stdio":
        source = stdio_source(directory)
    else:
        source = http_source(request.getfixturevalue("shared_server"))
    await source.open()
    yield source
    await source.close()


async def ask(source: McpSource, tool: str, *, timeout_s: float = LONG_S, **arguments: Any) -> Any:
    answer = await source.ask(call("tools", tool, **arguments), timeout_s=timeout_s)
    # Every answer of this module is what a replay would see.
    assert decode_answer(encode_answer(answer)) == answer
    return answer


async def refused(source: McpSource, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await ask(source, tool, **arguments)
    assert caught.value.failure is ToolFailure.QUERY_REJECTED
    assert caught.value.__cause__ is None
    return caught.value.detail


async def failed(
    source: McpSource, tool: str, *, timeout_s: float = LONG_S, **arguments: Any
) -> SourceFailure:
    with pytest.raises(SourceFailed) as caught:
        await ask(source, tool, timeout_s=timeout_s, **arguments)
    return caught.value.failure


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- answers ----------------------------------------------------------------------------------


async def test_it_settles_when_connected(source: McpSource) -> None:
    assert isinstance(source, Connecting)
    await source.settled()
    assert await source.probe(LONG_S)


async def test_answers(source: McpSource) -> None:
    structured = await ask(source, "reading", asset="a1")
    assert structured == {"asset": "a1", "values": [1.5, None, True], "window": 5}
    assert list(structured) == sorted(structured)
    assert await ask(source, "echo", text="plain text") == "plain text"
    assert await ask(source, "echo", text='{"b": [1, 2.5]}') == {"b": [1, 2.5]}
    assert await ask(source, "several") == ["plain", {"a": 1}]
    # Nothing is an answer too.
    assert await ask(source, "nothing") is None
    assert await source.probe(LONG_S) == "fixture 1.2.3"


async def test_what_only_reads_is_called(source: McpSource, directory: Path) -> None:
    assert "allow_tools" in await refused(source, "note", text="x")
    assert "allow_tools" in await refused(source, "unmarked")
    assert "reading" in await refused(source, "reeding")
    assert not any(path.name == "note" for path in _files(directory))


def _files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_allowed_tools_are_called(tmp_path: Path) -> None:
    source = stdio_source(tmp_path, allow_tools=frozenset({"note", "unmarked"}))
    await source.open()
    try:
        assert await ask(source, "note", text="kept") == "written"
        assert (tmp_path / "note") in _files(tmp_path)
        assert await ask(source, "unmarked") == "nobody said what I do"
    finally:
        await source.close()


async def test_arguments_are_checked_before_they_are_sent(source: McpSource) -> None:
    assert "'asset'" in await refused(source, "reading")
    assert "'asset'" in await refused(source, "reading", asset=3)
    assert "'window'" in await refused(source, "reading", asset="a", window="long")


async def test_what_cannot_be_judged(source: McpSource) -> None:
    told = await refused(source, "failing")
    assert "no such asset" in told
    assert len(told) <= 500
    assert "image" in await refused(source, "picture")
    assert await failed(source, "not_a_number") is SourceFailure.PROTOCOL
    with pytest.raises(ToolFailed, match="call"):
        await source.ask(Rows("tools", "SELECT 1"), timeout_s=LONG_S)


@pytest.mark.parametrize("size", [1024 * 1024, 6_000_000, 50_000_000])
async def test_too_large(source: McpSource, size: int) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(source, "huge", size=size)
    assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
    assert await ask(source, "huge", size=1000) == "x" * 1000


# --- time -------------------------------------------------------------------------------------


async def test_slow_tool_leaves_the_session_to_others(source: McpSource) -> None:
    pid = await ask(source, "pid")
    assert await failed(source, "slow", timeout_s=SHORT_S) is SourceFailure.TIMEOUT
    waiting = asyncio.ensure_future(ask(source, "slow"))
    assert await ask(source, "echo", text="meanwhile") == "meanwhile"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await ask(source, "pid") == pid


async def test_many_at_once(source: McpSource) -> None:
    texts = [f"text {n}" for n in range(20)]
    assert await asyncio.gather(*(ask(source, "echo", text=text) for text in texts)) == texts


# --- life and death ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_new_tools_are_noticed(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source = (
        stdio_source(tmp_path)
        if kind == "stdio"
        else http_source(request.getfixturevalue("http_server"))
    )
    await source.open()
    try:
        assert "late" in await refused(source, "late")
        # At once, when the subscription may not stand yet: the change must not be lost.
        assert await ask(source, "grow") == "grown"
        async with asyncio.timeout(LONG_S):
            while True:
                try:
                    assert await ask(source, "late") == "here"
                except ToolFailed:
                    # The notice travels apart from the answer: an ask gives it a turn.
                    await ask(source, "echo", text="turn")
                else:
                    break
    finally:
        await source.close()


async def test_dead_child_is_replaced(tmp_path: Path) -> None:
    source = stdio_source(tmp_path)
    await source.open()
    try:
        first = await ask(source, "pid")
        assert await failed(source, "die") is SourceFailure.CONNECT
        # Waits for the attempt under way: so a caller's one retry is enough.
        second = await ask(source, "pid")
        assert second != first
        slow = asyncio.ensure_future(failed(source, "slow"))
        await ask(source, "echo", text="after it in the pipe")
        os.kill(second, signal.SIGKILL)
        assert await slow is SourceFailure.CONNECT
        # The second death in a minute: now it waits before it tries again.
        third = await _once_back(source)
    finally:
        await source.close()
    assert not any(alive(pid) for pid in (first, second, third))


async def test_dead_http_server_comes_back(http_server: HttpServer) -> None:
    waits = Waits()
    source = http_source(http_server, backoff=waits)
    await source.open()
    try:
        first = await ask(source, "pid")
        slow = asyncio.ensure_future(failed(source, "slow"))
        await ask(source, "echo", text="turn")
        http_server.kill()
        assert await slow is SourceFailure.CONNECT
        assert await failed(source, "echo", text="gone") is SourceFailure.CONNECT
        await waits.failed.wait()
        http_server.start()
        second = await _once_back(source)
        assert second != first
    finally:
        await source.close()


async def _once_back(source: McpSource) -> Any:
    """Asks while the server is on its way: each refusal comes at once, and costs no time."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await ask(source, "pid")
            except SourceFailed as error:
                if error.failure is not SourceFailure.CONNECT:
                    raise
                await asyncio.sleep(0)


async def test_server_that_is_not_there_yet(tmp_path: Path) -> None:
    waits = Waits()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = HttpServer(tmp_path)
        server.port = taken.getsockname()[1]
        source = http_source(server, backoff=waits)
        await source.open()
        await source.settled()
        assert await failed(source, "pid") is SourceFailure.CONNECT
    server.start()
    try:
        assert await _once_back(source) > 0
    finally:
        await source.close()
        server.kill()


async def test_server_that_never_answers() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/mcp"
        source = McpSource("tools", url=url, connect_timeout_s=LONG_S)
        await source.open()
        assert await failed(source, "pid", timeout_s=SHORT_S) is SourceFailure.TIMEOUT
        await source.close()


async def test_connecting_has_an_end() -> None:
    waits = Waits()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/mcp"
        source = McpSource("tools", url=url, connect_timeout_s=SHORT_S, backoff=waits)
        await source.open()
        await waits.failed.wait()
        await source.close()


async def test_stuck_child_costs_its_asks_their_time_only(tmp_path: Path) -> None:
    source = stdio_source(tmp_path)
    await source.open()
    try:
        pid = await ask(source, "pid")
        os.kill(pid, signal.SIGSTOP)
        # More than a pipe holds, so that even the request cannot be written.
        large = "x" * 1_000_000
        for text in (large, "small"):
            outcome = await failed(source, "echo", timeout_s=SHORT_S, text=text)
            assert outcome is SourceFailure.TIMEOUT
        os.kill(pid, signal.SIGCONT)
        assert await ask(source, "echo", text="again") == "again"
        assert await ask(source, "pid") == pid
    finally:
        await source.close()


async def test_child_that_dies_at_once_says_why(tmp_path: Path) -> None:
    waits = Waits()
    source = McpSource(
        "tools",
        command=sys.executable,
        args=("-c", f"import sys; sys.exit('no licence for {TOKEN}')"),
        env={"FIXTURE_TOKEN": TOKEN},
        cwd=str(tmp_path),
        connect_timeout_s=LONG_S,
        backoff=lambda attempt: waits(attempt) + LONG_S,
    )
    await source.open()
    try:
        await waits.failed.wait()
        with pytest.raises(SourceFailed, match="no licence for") as caught:
            await ask(source, "pid")
        assert caught.value.failure is SourceFailure.CONNECT
        assert TOKEN not in str(caught.value)
    finally:
        # While it waits for its next attempt.
        await source.close()


async def test_child_that_will_not_go_is_made_to(tmp_path: Path) -> None:
    # It ignores the end of its input and SIGTERM, and has a child of its own.
    stubborn = (
        "import os, pathlib, signal, subprocess, sys, threading;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        "pathlib.Path('new').write_text(f'{os.getpid()} {child.pid}');"
        "os.rename('new', 'pids');"
        "threading.Event().wait()"
    )
    source = McpSource(
        "tools",
        command=sys.executable,
        args=("-c", stubborn),
        cwd=str(tmp_path),
        connect_timeout_s=LONG_S,
    )
    await source.open()
    async with asyncio.timeout(LONG_S):
        while (tmp_path / "pids") not in _files(tmp_path):  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0)
    # While it connects.
    await source.close()
    pids = [int(pid) for pid in _read(tmp_path / "pids").split()]
    assert len(pids) == 2
    for pid in pids:
        # The grandchild is init's to reap: dead is enough.
        assert not alive(pid) or _read(Path(f"/proc/{pid}/stat")).split()[2] == "Z"


def _read(path: Path) -> str:
    return path.read_text()


async def test_close_without_open_twice_and_ask_after(tmp_path: Path) -> None:
    tasks = asyncio.all_tasks()
    source = stdio_source(tmp_path)
    await source.close()
    assert await failed(source, "pid") is SourceFailure.CONNECT
    await source.open()
    pid = await ask(source, "pid")
    waiting = asyncio.ensure_future(failed(source, "slow"))
    await ask(source, "echo", text="turn")
    await source.close()
    assert await waiting is SourceFailure.CONNECT
    await source.close()
    assert not alive(pid)
    assert await failed(source, "pid") is SourceFailure.CONNECT
    assert asyncio.all_tasks() == tasks
    gc.collect()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"command": "true", "url": "http://127.0.0.1"},
        {"url": f"ftp://u:{TOKEN}@host"},
        {"command": "no-such-program-anywhere"},
    ],
)
async def test_settings_that_only_a_person_can_mend(settings: dict[str, Any]) -> None:
    source = McpSource("tools", **settings)
    with pytest.raises(ConfigError, match="tools") as caught:
        await source.open()
    assert TOKEN not in f"{caught.value!s}{source!r}"


async def test_secrets_are_in_no_error(source: McpSource, http_server: HttpServer) -> None:
    assert TOKEN not in await refused(source, "secret")
    with_credentials = http_server.url.replace("://", f"://user:{TOKEN}@")
    other = McpSource("tools", url=with_credentials, connect_timeout_s=LONG_S)
    await other.open()
    try:
        assert await ask(other, "echo", text="let in") == "let in"
        http_server.kill()
        with pytest.raises(SourceFailed) as caught:
            await ask(other, "echo", text="gone")
        assert TOKEN not in f"{caught.value!s}{other!r}"
    finally:
        await other.close()
