"""Who may call what, how much they may send, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from tests.unit.app.http_world import NATIVE, Bench, problem
from tests.unit.evaluation.virtual_time import on_virtual_time
from triage.app.http.access import BODY_S, RequestLimit, Token, read_body, token
from triage.app.http.replies import HttpProblem

TOKENS = (
    token("sender", "ingest-secret", ["ingest"]),
    token("reader", "read-secret", ["read"]),
    token("boss", "all-secret", ["ingest", "read", "admin"]),
)

CALLS: dict[str, tuple[str, str, str]] = {
    "ingest": ("POST", "/api/v1/alerts", "ingest"),
    "ingest format": ("POST", "/api/v1/alerts/alertmanager", "ingest"),
    "page": ("GET", "/api/v1/decisions", "read"),
    "one": ("GET", "/api/v1/decisions/x", "read"),
    "evidence": ("GET", "/api/v1/evidence/x", "read"),
    "ledger": ("GET", "/api/v1/ledger", "read"),
    "gaps": ("GET", "/api/v1/gaps", "read"),
    "gap": ("GET", "/api/v1/gaps/x", "read"),
    "close gap": ("POST", "/api/v1/gaps/x/close", "admin"),
    "reload": ("POST", "/-/reload", "admin"),
}
OPEN = ["/-/healthy", "/-/ready", "/metrics"]


async def call(client: httpx.AsyncClient, name: str, **more: Any) -> httpx.Response:
    method, path, _ = CALLS[name]
    if method == "POST":
        more.setdefault("json", NATIVE)
    return await client.request(method, path, **more)


# --- without a token ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9797",
        "127.0.0.1",
        "localhost:9797",
        "LocalHost",
        "[::1]:9797",
        "[::1]",
        "127.8.9.1:1",
    ],
)
async def test_without_tokens_loopback_names_are_let_in(tmp_path: Path, host: str) -> None:
    async with Bench(folder=tmp_path).serving(host=host) as (client, _):
        for name in CALLS:
            assert (await call(client, name)).status_code not in {401, 403}, name


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:9797"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost.evil.example:9797"},
        {"host": "10.0.0.7:9797"},
        {"host": "[::2]:9797"},
        {"host": "[::1"},
        {"host": ""},
        {"host": "::1"},
        {"origin": "http://127.0.0.1:9797"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
    ],
    ids=str,
)
async def test_what_a_web_page_makes_a_browser_send_is_refused(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with Bench(folder=tmp_path).serving() as (client, store):
        for name in CALLS:
            response = await call(client, name, headers=headers)
            assert response.status_code == 403, name
            problem(response)
        assert (await store.ledger.ledger()).accepted == 0


# --- with tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "scopes"),
    [
        ("Bearer ingest-secret", {"ingest"}),
        ("bearer ingest-secret", {"ingest"}),
        ("Bearer read-secret", {"read"}),
        ("Bearer all-secret", {"ingest", "read", "admin"}),
    ],
)
async def test_a_token_opens_what_its_scopes_say(
    tmp_path: Path, authorization: str, scopes: set[str]
) -> None:
    async with Bench(folder=tmp_path, tokens=TOKENS).serving(host="triage.example") as (client, _):
        for name, (_, _, wanted) in CALLS.items():
            response = await call(client, name, headers={"authorization": authorization})
            if wanted in scopes:
                assert response.status_code not in {401, 403}, name
            else:
                assert response.status_code == 403, name
                assert repr(wanted) in problem(response)["problem"]


@pytest.mark.parametrize(
    "authorization",
    [
        None, "", "Bearer", "Bearer ", "Bearer wrong", "Bearer ingest-secre", "ingest-secret",
        "Bearer ingest-secrett", "Basic aW5nZXN0LXNlY3JldA==", "Token ingest-secret",
        "Bearer all-secret, Bearer read-secret", "Bearer ALL-SECRET", "Bearer " + "x" * 4000,
        "Bearer \xff\xfe",
    ],
    ids=repr,
)  # fmt: skip
async def test_without_a_known_token_nothing_is_let_in(
    tmp_path: Path, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization.encode("latin-1")}
    async with Bench(folder=tmp_path, tokens=TOKENS).serving() as (client, store):
        for name in CALLS:
            response = await call(client, name, headers=headers)
            assert response.status_code == 401, name
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert "secret" not in response.text
        assert (await store.ledger.ledger()).accepted == 0


@pytest.mark.parametrize("path", OPEN)
async def test_health_and_metrics_are_open(tmp_path: Path, path: str) -> None:
    async with Bench(folder=tmp_path, tokens=TOKENS).serving(host="triage.example") as (client, _):
        assert (await client.get(path)).status_code == 200


def test_a_token_shows_neither_secret_nor_hash() -> None:
    one: Token = token("sender", "ingest-secret", ["ingest"])
    assert "ingest-secret" not in repr(one)


# --- bodies ---------------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path, max_body_bytes=1000).serving() as (client, _):
        response = await client.post("/api/v1/alerts", content=b" " * 1001)
        assert response.status_code == 413
        assert "1000 bytes" in problem(response)["problem"]


@pytest.mark.parametrize("size", [1000, 1001, 10**6])
async def test_a_body_that_declares_nothing_is_read_no_further_than_the_limit(
    tmp_path: Path, size: int
) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for begin in range(0, size, 100):
            chunk = b" " * min(100, size - begin)
            sent += len(chunk)
            yield chunk

    async with Bench(folder=tmp_path, max_body_bytes=1000).serving() as (client, _):
        response = await client.post("/api/v1/alerts", content=chunks())
    assert response.status_code == (400 if size == 1000 else 413)
    assert sent <= 1100


@pytest.mark.parametrize("length", ["1" * 5000, "99999999999999999999", "4097"])
async def test_a_length_of_any_size_is_only_too_large(tmp_path: Path, length: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post(
            "/api/v1/alerts", content=b"{}", headers={"content-length": length}
        )
    assert response.status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "\u00b2", ""])
async def test_a_length_that_is_no_number_says_nothing(tmp_path: Path, length: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post(
            "/api/v1/alerts", content=b"{}", headers={b"content-length": length.encode("latin-1")}
        )
    assert response.status_code == 400


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "gzip, identity", "GZIP"])
async def test_an_encoded_body_is_refused_with_what_to_do(tmp_path: Path, encoding: str) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post(
            "/api/v1/alerts", content=b"{}", headers={"content-encoding": encoding}
        )
    assert response.status_code == 415
    assert "Content-Encoding" in problem(response)["problem"]


async def test_the_identity_encoding_is_none(tmp_path: Path) -> None:
    async with Bench(folder=tmp_path).serving() as (client, _):
        response = await client.post(
            "/api/v1/alerts", json=NATIVE, headers={"content-encoding": "Identity"}
        )
    assert response.status_code == 202


class Sender:
    """An ASGI `receive` that stalls or leaves after its chunks."""

    def __init__(self, *chunks: bytes, leaves: bool) -> None:
        self._chunks = list(chunks)
        self._leaves = leaves

    async def __call__(self) -> dict[str, Any]:
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(0), "more_body": True}
        if self._leaves:
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError


def request_of(sender: Sender) -> Request:
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    return Request(scope, sender)


@on_virtual_time
async def test_a_body_that_stalls_gives_its_slot_back() -> None:
    limit = RequestLimit(1)
    with pytest.raises(HttpProblem) as caught, limit:
        await read_body(request_of(Sender(b"{", leaves=False)), 1000)
    assert caught.value.status == 408
    assert asyncio.get_running_loop().time() == pytest.approx(BODY_S)
    with limit:
        pass


@on_virtual_time
async def test_a_sender_that_leaves_in_the_middle_is_told_so() -> None:
    with pytest.raises(HttpProblem) as caught:
        await read_body(request_of(Sender(b"{", leaves=True)), 1000)
    assert caught.value.status == 400


# --- how many at once -----------------------------------------------------------------------------


async def test_more_requests_than_slots_are_told_to_come_back(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def wait(_: object) -> None:
        await may_end.wait()

    bench = Bench(folder=tmp_path, max_requests=2, verifying=wait)
    async with bench.serving() as (client, store):
        sent = [
            asyncio.create_task(client.post("/api/v1/alerts", json=NATIVE | {"id": str(n)}))
            for n in range(5)
        ]
        done = set[asyncio.Task[httpx.Response]]()
        while len(done) < 3:
            await asyncio.wait([*{*sent} - done], return_when=asyncio.FIRST_COMPLETED)
            done = {task for task in sent if task.done()}
        may_end.set()
        responses = [await task for task in sent]
        assert (await store.ledger.ledger()).accepted == 2
        again = await client.post("/api/v1/alerts", json=NATIVE | {"id": "9"})
    codes = sorted(response.status_code for response in responses)
    assert codes == [202, 202, 503, 503, 503]
    refused = next(r for r in responses if r.status_code == 503)
    assert refused.headers["retry-after"] == "1"
    assert again.status_code == 202
