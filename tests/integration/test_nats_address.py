"""How the queue on NATS finds its server and proves itself there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.nats_world import (
    LEASE_S,
    NAME,
    WAIT_S,
    entry,
    made,
    opened_queue,
    refused,
)
from tests.servers import HOST
from triage.adapters.nats import NatsQueue
from triage.errors import ConfigError

AWKWARD = "s3cret/p@ss:word"
WRITTEN = "s3cret%2Fp%40ss%3Aword"


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "nats://",
        "nats://u:secret@host:port",
        "nats://u:secret@host:99999",
        "nats://u:secret@host:4222/path",
        "nats://u:secret@host:4222,",
        "nats://u:secret@ho st",
        "nats://u:secret@host:4222?tls=yes",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        NatsQueue(url=url, name=NAME, lease_s=LEASE_S, clock=None)  # type: ignore[arg-type]

    assert "nats://user:password@host:port" in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_a_password_is_used_and_never_shown(tmp_path: Path) -> None:
    extra = f'authorization {{ user: "ops", password: "{AWKWARD}" }}'
    with made(tmp_path, extra=extra) as server:
        address = f"{HOST}:{server.port}"
        async with opened_queue(f"nats://ops:{WRITTEN}@{address}") as queue:
            await queue.publish([entry(1)])
            assert queue.label == f"nats://{address}"
            server.kill()
            problem = await refused(lambda: queue.publish([entry(2)]))
            shown = [problem, queue.trouble, queue.label, repr(queue), str(vars(queue))]
            server.start()
        async with opened_queue(f"nats://ops:wrong{WRITTEN}@{address}") as queue:
            problem = await refused(queue.depth)
            shown += [problem, queue.trouble]

    assert address in problem
    assert "password" in problem
    assert not [text for text in shown if "s3cret" in text]


async def test_a_token_is_used_and_never_shown(tmp_path: Path) -> None:
    with made(tmp_path, extra='authorization { token: "tok3n-of-ours" }') as server:
        address = f"{HOST}:{server.port}"
        async with opened_queue(f"nats://tok3n-of-ours@{address}") as queue:
            await queue.publish([entry(1)])
            assert "tok3n" not in queue.label
        async with opened_queue(f"nats://tok3n-of-others@{address}") as queue:
            problem = await refused(queue.depth)

    assert "tok3n" not in problem
    assert "token" in problem


async def test_a_url_with_tls_gives_no_password_to_a_server_without() -> None:
    heard = bytearray()
    ended = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","auth_required":true}\r\n')
        heard.extend(await reader.read())
        writer.close()
        ended.set()

    fake = await asyncio.start_server(greet, HOST, 0)
    async with fake:
        port = fake.sockets[0].getsockname()[1]
        async with opened_queue(f"tls://ops:{WRITTEN}@{HOST}:{port}") as queue:
            problem = await refused(queue.depth)
            await ended.wait()

    assert "TLS" in problem
    assert heard == b""


async def test_a_server_without_jetstream_says_what_to_do(tmp_path: Path) -> None:
    with made(tmp_path, jetstream=False) as server:
        async with opened_queue(server.url) as queue:
            problem = await refused(lambda: queue.publish([entry(1)]))

    assert server.url in problem
    assert "nats-server with -js" in problem


async def test_one_server_of_a_cluster_is_enough(tmp_path: Path) -> None:
    gone = made(tmp_path / "other")
    with made(tmp_path) as server:
        async with opened_queue(f"nats://{HOST}:{gone.port},{HOST}:{server.port}") as queue:
            assert str(gone.port) in await refused(queue.depth)
            await queue.publish([entry(1)])
            assert len(await queue.receive(limit=1, wait_s=WAIT_S)) == 1


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.adapters.nats.address.find_spec", lambda _name: None)

    with pytest.raises(ConfigError, match="pip install"):
        NatsQueue(url="nats://h", name=NAME, lease_s=LEASE_S, clock=None)  # type: ignore[arg-type]
