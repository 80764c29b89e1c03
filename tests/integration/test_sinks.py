"""Sinks against a real file system and a real HTTP receiver."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.adapters.sinks.jsonl import JsonLinesSink
from triage.adapters.sinks.webhook import WebhookSink, retry_after_seconds, sign
from triage.errors import ConfigError, DeliveryRejected, Overloaded, SourceFailed, SourceFailure
from triage.ports import Sink

NOW = datetime(2030, 5, 6, 7, 8, 9, 500_000, tzinfo=UTC)
OLD_KEY, NEW_KEY = b"o" * 24, b"n" * 32
OLD_SECRET = "whsec_" + base64.b64encode(OLD_KEY).decode()
NEW_SECRET = base64.b64encode(NEW_KEY).decode()
BODY = b'{"alert_id":"a","outcome":"actions"}'


class StoppedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


# --- JSON Lines -------------------------------------------------------------------------------


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[JsonLinesSink]:
    sink = JsonLinesSink("journal", tmp_path / "new" / "decisions.jsonl")
    yield sink
    await sink.close()


async def test_each_message_is_one_line_with_the_body_as_it_is(
    journal: JsonLinesSink, tmp_path: Path
) -> None:
    await journal.send("k1", BODY)
    await journal.send('k"2\n', b'{"a":1.50,\n"b":"x\\ny"}')
    got = lines(tmp_path / "new" / "decisions.jsonl")
    assert got[0] == b'{"key":"k1","decision":' + BODY + b"}\n"
    assert orjson.loads(got[1]) == {"key": 'k"2\n', "decision": {"a": 1.5, "b": "x\ny"}}
    assert len(got) == 2


async def test_concurrent_messages_do_not_mix(journal: JsonLinesSink, tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(journal.send(str(number), b'{"n":%d}' % number))
    got = [orjson.loads(line) for line in lines(tmp_path / "new" / "decisions.jsonl")]
    assert sorted(int(line["key"]) for line in got) == list(range(50))
    assert all(int(line["key"]) == line["decision"]["n"] for line in got)


async def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"key":"old","decision":{}}\n')
    sink = JsonLinesSink("journal", path)
    await sink.send("new", BODY)
    await sink.close()
    assert [orjson.loads(line)["key"] for line in lines(path)] == ["old", "new"]


async def test_a_line_cut_off_by_a_crash_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"key":"whole","decision":{}}\n{"key":"cut","deci')
    sink = JsonLinesSink("journal", path)
    await sink.send("after", BODY)
    await sink.close()
    got = lines(path)
    assert len(got) == 3
    assert got[1] == b'{"key":"cut","deci\n'
    assert orjson.loads(got[2])["key"] == "after"


async def test_a_rotated_file_is_made_anew(journal: JsonLinesSink, tmp_path: Path) -> None:
    path = tmp_path / "new" / "decisions.jsonl"
    await journal.send("before", BODY)
    path.rename(path.with_suffix(".1"))
    await journal.send("after", BODY)
    path.unlink()
    await journal.send("last", BODY)
    assert [orjson.loads(line)["key"] for line in lines(path.with_suffix(".1"))] == ["before"]
    assert [orjson.loads(line)["key"] for line in lines(path)] == ["last"]


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """A disk that is full after `size` bytes, as far as this process can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


async def test_a_full_disk_is_an_os_error_and_the_next_line_is_whole(
    journal: JsonLinesSink, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "decisions.jsonl"
    await journal.send("one", BODY)
    with files_at_most(path.stat().st_size + 10):
        for _ in range(2):  # a partial write, then none at all
            with pytest.raises(OSError, match=r"part of the line|File too large"):
                await journal.send("two", BODY)
    await journal.send("two", BODY)
    got = lines(path)
    assert [orjson.loads(line)["key"] for line in (got[0], got[-1])] == ["one", "two"]
    assert all(line.endswith(b"\n") for line in got)


async def test_what_is_no_file_is_refused_without_blocking(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        sink = JsonLinesSink("journal", path)
        with pytest.raises(OSError, match=path.name):
            await sink.send("k", BODY)
        await sink.close()


async def test_closing_twice_or_unopened_is_harmless(tmp_path: Path) -> None:
    sink: Sink = JsonLinesSink("journal", tmp_path / "decisions.jsonl")
    await sink.close()
    await sink.send("k", BODY)
    await sink.close()
    await sink.close()
    assert sink.name == "journal"


# --- webhook ----------------------------------------------------------------------------------


@dataclass
class Received:
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers each request with the next of `answers`, the last one for ever."""

    port: int = 0
    answers: list[bytes] = field(default_factory=lambda: [b"HTTP/1.1 204 No Content\r\n\r\n"])
    got: list[Received] = field(default_factory=list)
    connections: int = 0
    hold: asyncio.Event | None = None
    """While set and not released, requests are read and not answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=hunter2"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.append(Received(head[0].split()[1], headers, body))
                if self.hold is not None:
                    await self.hold.wait()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    yield receiver
    if receiver.hold is not None:
        receiver.hold.set()
    server.close()
    await server.wait_closed()


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


@asynccontextmanager
async def webhook(url: str, *, timeout_s: float = 30.0) -> AsyncIterator[WebhookSink]:
    sink = WebhookSink(
        name="hook",
        url=url,
        secrets=(OLD_SECRET, NEW_SECRET),
        clock=StoppedClock(),
        timeout_s=timeout_s,
    )
    try:
        yield sink
    finally:
        await sink.close()


def verify(received: Received, key: bytes) -> bool:
    """As a receiver does, from the specification's text."""
    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    want = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(
        hmac.compare_digest(want, part.removeprefix("v1,"))
        for part in headers["webhook-signature"].split(" ")
        if part.startswith("v1,")
    )


def test_the_specifications_own_example_signs_the_same() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    got = sign([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert got == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_receiver_can_verify_with_either_secret(receiver: Receiver) -> None:
    async with webhook(receiver.url) as sink:
        await sink.send("a:decision", BODY)
    (received,) = receiver.got
    assert received.body == BODY
    assert received.target == "/hook?token=hunter2"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["webhook-id"] == "a:decision"
    assert received.headers["idempotency-key"] == "a:decision"
    assert received.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert verify(received, OLD_KEY)
    assert verify(received, NEW_KEY)
    assert not verify(received, b"x" * 24)
    received.body += b" "
    assert not verify(received, OLD_KEY)


async def test_a_second_attempt_is_the_same_message_on_the_same_connection(
    receiver: Receiver,
) -> None:
    receiver.answers = [answer("503 Service Unavailable", body=b"later"), answer("200 OK")]
    async with webhook(receiver.url) as sink:
        with pytest.raises(SourceFailed, match=r"503.*later"):
            await sink.send("k", BODY)
        await sink.send("k", BODY)
    first, second = receiver.got
    assert (first.headers, first.body) == (second.headers, second.body)
    assert receiver.connections == 1


@pytest.mark.parametrize("key", ["a:restart:dock 7", "a:x:Halle Süd", "a:x:\r\nx-evil: 1", "a:%41"])
async def test_a_key_that_no_header_may_hold_is_encoded(receiver: Receiver, key: str) -> None:
    async with webhook(receiver.url) as sink:
        await sink.send(key, BODY)
    (received,) = receiver.got
    assert "x-evil" not in received.headers
    assert received.headers["webhook-id"].isascii()
    assert verify(received, OLD_KEY)


@pytest.mark.parametrize("status", ["408 Timeout", "425 Early", "429 Slow", "500 Oops", "503 No"])
async def test_a_receiver_that_says_when_is_believed(receiver: Receiver, status: str) -> None:
    receiver.answers = [answer(status, "Retry-After: 17")]
    async with webhook(receiver.url) as sink:
        with pytest.raises(Overloaded) as caught:
            await sink.send("k", BODY)
    assert caught.value.retry_after_s == 17
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("status", ["408 Timeout", "425 Early", "429 Slow", "500 Oops", "599 No"])
async def test_a_receiver_that_does_not_say_when_is_tried_again(
    receiver: Receiver, status: str
) -> None:
    receiver.answers = [answer(status)]
    async with webhook(receiver.url) as sink:
        with pytest.raises(SourceFailed) as caught:
            await sink.send("k", BODY)
    assert caught.value.failure is SourceFailure.SERVER_ERROR


@pytest.mark.parametrize("status", ["400 No", "401 No", "404 No", "410 Gone", "422 No"])
async def test_other_client_errors_are_final(receiver: Receiver, status: str) -> None:
    receiver.answers = [answer(status, body=b"no such field")]
    async with webhook(receiver.url) as sink:
        with pytest.raises(DeliveryRejected, match="no such field"):
            await sink.send("k", BODY)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 There", "308 There"])
async def test_redirects_are_not_followed(receiver: Receiver, status: str) -> None:
    elsewhere = Receiver()
    server = await asyncio.start_server(elsewhere.serve, "127.0.0.1", 0)
    elsewhere.port = server.sockets[0].getsockname()[1]
    receiver.answers = [answer(status, f"Location: {elsewhere.url}")]
    async with webhook(receiver.url) as sink:
        with pytest.raises(SourceFailed, match="final address") as caught:
            await sink.send("k", BODY)
    server.close()
    await server.wait_closed()
    assert caught.value.failure is SourceFailure.PROTOCOL
    assert elsewhere.got == []


async def test_a_receiver_that_never_answers_is_given_up_in_time(receiver: Receiver) -> None:
    receiver.hold = asyncio.Event()
    async with webhook(receiver.url, timeout_s=0.05) as sink:
        with pytest.raises(SourceFailed) as caught:
            await sink.send("k", BODY)
    assert caught.value.failure is SourceFailure.TIMEOUT


async def test_an_answer_without_end_is_not_read_to_its_end(receiver: Receiver) -> None:
    receiver.answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * (65 * 1024)
    ]
    async with webhook(receiver.url) as sink:
        await sink.send("k", BODY)
    assert len(receiver.got) == 1


async def test_a_dead_receiver_and_one_that_speaks_no_http(receiver: Receiver) -> None:
    receiver.answers = [b"220 smtp ready\r\n\r\n"]
    async with webhook(receiver.url) as sink:
        with pytest.raises(SourceFailed) as caught:
            await sink.send("k", BODY)
    assert caught.value.failure is SourceFailure.PROTOCOL
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with webhook(f"http://127.0.0.1:{port}/") as sink:
        with pytest.raises(SourceFailed) as caught:
            await sink.send("k", BODY)
    assert caught.value.failure is SourceFailure.CONNECT


async def test_cancelling_a_send_is_felt_by_the_caller(receiver: Receiver) -> None:
    receiver.hold = asyncio.Event()
    async with webhook(receiver.url) as sink:
        task = asyncio.create_task(sink.send("k", BODY))
        await _until(lambda: len(receiver.got) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        receiver.hold.set()
        await sink.send("k", BODY)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - yields to the loop, which does the work
        await asyncio.sleep(0)


async def test_nothing_shows_the_secrets(receiver: Receiver) -> None:
    async with webhook(receiver.url) as sink:
        shown = repr(sink) + str(sink)
    for secret in (OLD_SECRET, NEW_SECRET, "hunter2", repr(OLD_KEY)):
        assert secret not in shown


@pytest.mark.parametrize(
    ("url", "secrets", "problem"),
    [
        ("ftp://host/", (NEW_SECRET,), "http:// or https://"),
        ("http://", (NEW_SECRET,), "http:// or https://"),
        ("http://[::1", (NEW_SECRET,), "cannot be read"),
        ("http://user:pw@host/", (NEW_SECRET,), "user or password"),
        ("http://host/", (), "at least one secret"),
        ("http://host/", ("whsec_c2hvcnQ=",), "openssl rand"),
        ("http://host/", ("not base64: ä",), "openssl rand"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    url: str, secrets: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        WebhookSink(name="hook", url=url, secrets=secrets, clock=StoppedClock())
    assert caught.value.__cause__ is None or "secret" not in str(caught.value.__cause__)
    assert all(secret not in str(caught.value) for secret in secrets)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("3601", 3600),
        ("9" * 5000, 3600),
        ("Mon, 06 May 2030 07:09:09 GMT", 59),
        ("Mon, 06 May 2030 09:09:09 +0200", 59),
        ("Mon, 06 May 2030 07:09:09 -0000", 59),
        ("Sun, 05 May 2030 07:09:09 GMT", 0),
        ("Mon, 06 May 2041 07:09:09 GMT", 3600),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("1.5", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: int | None) -> None:
    assert retry_after_seconds(value, NOW) == seconds


@given(st.text())
def test_retry_after_never_raises(value: str) -> None:
    got = retry_after_seconds(value, NOW)
    assert got is None or 0 <= got <= 3600
