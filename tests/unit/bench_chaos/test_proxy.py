"""The proxy passes everything on, and cuts where it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.chaos.plan import Direction
from bench.chaos.proxy import Proxy
from bench.servers import HOST, free_port

pytestmark = pytest.mark.both_loops
BOUND_S = 20.0


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Proxy, list[bytes]]]:
    """A server that answers each line with it, the proxy before it, and what the server got."""
    got: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 20):
                got.append(data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # cut off, as some tests want it
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(echo, HOST, 0)
    async with asyncio.timeout(BOUND_S), server:
        async with Proxy(server.sockets[0].getsockname()[1]) as proxy:
            yield proxy, got


async def exchanged(proxy: Proxy, sent: bytes) -> bytes:
    """What comes back over a new connection, up to its end or as much as was sent."""
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    came = bytearray()
    try:
        writer.write(sent)
        while len(came) < len(sent) and (data := await reader.read(1 << 20)):
            came += data
    except ConnectionError:
        pass  # how a cut is seen from the end that sends
    finally:
        writer.transport.abort()
    return bytes(came)


async def test_everything_passes() -> None:
    async with echoing() as (proxy, _):
        large = bytes(range(256)) * 40_000
        assert await exchanged(proxy, b"hello") == b"hello"
        assert await exchanged(proxy, large) == large
        assert proxy.drops == 0


async def test_an_answer_is_cut_after_so_many_bytes() -> None:
    async with echoing() as (proxy, got):
        proxy.cut(Direction.ANSWER, 3)
        assert await exchanged(proxy, b"hello") == b"hel"
        assert b"".join(got) == b"hello"
        assert await exchanged(proxy, b"again") == b"again"
        assert proxy.drops == 1


async def test_a_request_is_cut_after_so_many_bytes() -> None:
    async with echoing() as (proxy, got):
        proxy.cut(Direction.REQUEST, 2)
        assert await exchanged(proxy, b"hello") in (b"", b"he")
        assert b"".join(got) in (b"", b"he")
        assert await exchanged(proxy, b"again") == b"again"
        assert proxy.drops == 1


async def test_a_cut_waits_for_its_bytes() -> None:
    async with echoing() as (proxy, _):
        proxy.cut(Direction.ANSWER, 8)
        assert await exchanged(proxy, b"hello") == b"hello"
        assert await exchanged(proxy, b"again") == b"aga"


async def test_what_has_not_happened_can_be_forgotten() -> None:
    async with echoing() as (proxy, _):
        proxy.cut(Direction.ANSWER, 1)
        proxy.disarm()
        assert await exchanged(proxy, b"hello") == b"hello"


async def test_a_dead_server_is_seen_as_a_closed_connection() -> None:
    async with asyncio.timeout(BOUND_S), Proxy(free_port()) as proxy:
        assert await exchanged(proxy, b"hello") == b""


async def test_closing_it_drops_who_is_connected() -> None:
    async with asyncio.timeout(BOUND_S):
        async with echoing() as (proxy, _):
            reader, writer = await asyncio.open_connection(HOST, proxy.port)
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
