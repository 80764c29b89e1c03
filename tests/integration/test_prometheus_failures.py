"""The Prometheus source against a server that does as it is told."""

from __future__ import annotations

import asyncio
import gc

import orjson
import pytest

from tests.integration.prometheus_world import LEVEL, SERIES, TIMEOUT_S, opened, success
from tests.scripted_server import (
    Request,
    Script,
    ScriptedServer,
    close_mid_body,
    dribble,
    flood,
    garbage,
    gzip_bomb,
    hang,
    hang_up,
    head,
    in_turn,
    reply,
)
from tests.servers import HOST, free_port
from triage.adapters.prometheus.http import Connections
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure

CUT_OFF_STEPS = 40  # loop iterations: more than an ask takes


def _error(kind: str, text: str = "it says no") -> bytes:
    return orjson.dumps({"status": "error", "errorType": kind, "error": text})


async def _closed_after(steps: int, url: str) -> object:
    """What an ask ends as whose source is closed after so many iterations of the loop."""
    async with opened(url) as source:
        task = asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
        for _ in range(steps):
            await asyncio.sleep(0)
    return (await asyncio.gather(task, return_exceptions=True))[0]


def _connections(server: ScriptedServer, idle_s: float = 600.0) -> Connections:
    return Connections(
        host=HOST,
        port=server.port,
        tls=None,
        headers=[("Host", "test")],
        max_connections=2,
        max_bytes=10,
        idle_s=idle_s,
    )


def _histogram(key: str) -> dict[str, object]:
    return {"metric": {"__name__": "level"}, key: [[1_767_614_430, {"count": "1"}]]}


TOOL_FAULTS: dict[str, Script] = {
    "bad data": reply(400, _error("bad_data")),
    "execution": reply(422, _error("execution")),
    "another result type": reply(200, success([], "vector")),
    "native histograms": reply(200, success([_histogram("histograms")])),
    "too long for a proxy": reply(414, b"URI too long"),
    "a warning about the query": reply(
        200, success([SERIES], warnings=["PromQL warning: mixed histograms"])
    ),
}

OUTAGES: dict[str, tuple[Script, SourceFailure]] = {
    "internal": (reply(500, _error("internal")), SourceFailure.SERVER_ERROR),
    "unavailable": (reply(503, b"Service Unavailable"), SourceFailure.SERVER_ERROR),
    "query timeout": (reply(503, _error("timeout")), SourceFailure.SERVER_ERROR),
    "timeout as a 422": (reply(422, _error("timeout")), SourceFailure.SERVER_ERROR),
    "canceled": (reply(422, _error("canceled")), SourceFailure.SERVER_ERROR),
    "too many requests": (reply(429, b"slow down"), SourceFailure.SERVER_ERROR),
    "refused credentials": (reply(401, b""), SourceFailure.SERVER_ERROR),
    "forbidden": (reply(403, _error("forbidden")), SourceFailure.SERVER_ERROR),
    "partial answer": (
        reply(200, success([SERIES], warnings=["remote read: connection refused"])),
        SourceFailure.SERVER_ERROR,
    ),
    "redirect": (reply(302, b"", {"Location": "/login"}), SourceFailure.PROTOCOL),
    "not found": (reply(404, b"404 page not found"), SourceFailure.PROTOCOL),
    "bad request of a proxy": (reply(400, b"<html>"), SourceFailure.PROTOCOL),
    "no JSON": (reply(200, b"<html>"), SourceFailure.PROTOCOL),
    "no object": (reply(200, b"[]"), SourceFailure.PROTOCOL),
    "no data": (reply(200, b'{"status":"success"}'), SourceFailure.PROTOCOL),
    "no result": (reply(200, b'{"status":"success","data":{}}'), SourceFailure.PROTOCOL),
    "malformed series": (reply(200, success([{"metric": {}}])), SourceFailure.PROTOCOL),
    "malformed sample": (
        reply(200, success([{"metric": {}, "values": [[1_767_614_430, "one"]]}])),
        SourceFailure.PROTOCOL,
    ),
    "series is no object": (reply(200, success([7])), SourceFailure.PROTOCOL),
    "a series twice": (reply(200, success([SERIES, SERIES])), SourceFailure.PROTOCOL),
    "garbage": (garbage(), SourceFailure.PROTOCOL),
    "gzip unasked": (gzip_bomb(100_000_000), SourceFailure.PROTOCOL),
    "hangs up": (hang_up(), SourceFailure.CONNECT),
    "closes in the body": (close_mid_body(success([SERIES])), SourceFailure.CONNECT),
}


@pytest.mark.both_loops
class TestScriptedServer:
    @pytest.mark.parametrize("about", TOOL_FAULTS)
    async def test_tool_faults(self, about: str) -> None:
        good = reply(200, success([SERIES]))
        async with ScriptedServer(in_turn(TOOL_FAULTS[about], good)) as server:
            async with opened(server.url) as source:
                with pytest.raises(ToolFailed) as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
                assert caught.value.failure is ToolFailure.QUERY_REJECTED
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    @pytest.mark.parametrize("about", OUTAGES)
    async def test_outages(self, about: str) -> None:
        script, failure = OUTAGES[about]
        good = reply(200, success([SERIES]))
        async with ScriptedServer(in_turn(script, good)) as server:
            async with opened(server.url) as source:
                with pytest.raises(SourceFailed) as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
                assert caught.value.failure is failure
                assert "metrics (http://127.0.0.1:" in caught.value.detail
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    async def test_an_error_repeats_few_of_the_servers_words(self) -> None:
        async with ScriptedServer(reply(400, _error("bad_data", "no\n" * 5_000))) as server:
            async with opened(server.url) as source:
                with pytest.raises(
                    ToolFailed, match="rejected the query: bad_data: no no"
                ) as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
        assert len(caught.value.detail) < 500
        assert "\n" not in caught.value.detail

    async def test_infos_are_harmless(self) -> None:
        body = success(
            [SERIES], infos=["PromQL info: not a counter"], warnings=["PromQL info: the same"]
        )
        async with ScriptedServer(reply(200, body)) as server, opened(server.url) as source:
            assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    @pytest.mark.parametrize("script", [hang(), dribble()], ids=["silent", "a byte at a time"])
    async def test_a_server_that_never_ends_runs_out_of_time(self, script: Script) -> None:
        async with ScriptedServer(script) as server, opened(server.url) as source:
            with pytest.raises(SourceFailed, match=r"did not answer in 0\.05 s") as caught:
                await source.ask(LEVEL, timeout_s=0.05)
            assert caught.value.failure is SourceFailure.TIMEOUT
            await server.hung_up.wait()  # the connection went with it
            server.script = reply(200, success([SERIES]))
            assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    async def test_time_spent_waiting_for_a_connection_counts(self) -> None:
        async with (
            ScriptedServer(hang()) as server,
            opened(server.url, max_connections=1) as source,
        ):
            first = asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
            await server.arrived(1)
            with pytest.raises(SourceFailed) as caught:
                await source.ask(LEVEL, timeout_s=0.05)
            assert caught.value.failure is SourceFailure.TIMEOUT
            assert len(server.requests) == 1
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    @pytest.mark.parametrize("stated", [True, False])
    async def test_too_much_is_not_read_on(self, stated: bool) -> None:
        total, sent = 50_000_000, [0]
        script = flood(total, stated=stated, on_byte=sent.append)
        async with ScriptedServer(script) as server, opened(server.url) as source:
            with pytest.raises(ToolFailed) as caught:
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
            await server.hung_up.wait()
        assert sent[-1] < total / 2  # what the sockets' buffers took, and the megabyte read

    async def test_cancelled_while_the_server_thinks(self) -> None:
        async with ScriptedServer(hang()) as server, opened(server.url) as source:
            task = asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
            await server.arrived(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()

    async def test_closing_ends_what_is_under_way(self) -> None:
        async with ScriptedServer(hang()) as server, opened(server.url) as source:
            task = asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
            await server.arrived(1)
            await source.close()
            with pytest.raises(SourceFailed) as caught:
                await task
            assert caught.value.failure is SourceFailure.CONNECT
            with pytest.raises(SourceFailed, match="not open"):
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)

    async def test_closing_ends_an_answer_half_read(self) -> None:
        sent: list[int] = []
        enough = asyncio.Event()

        async def half(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(head(200, {"Content-Length": "100000000"}))
            while sum(sent) < 100_000:
                writer.write(b" " * 1_000)
                await writer.drain()
                sent.append(1_000)
            enough.set()
            await asyncio.Event().wait()

        async with ScriptedServer(half) as server, opened(server.url) as source:
            task = asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
            await enough.wait()
            for _ in range(CUT_OFF_STEPS):
                await asyncio.sleep(0)
            await source.close()
            with pytest.raises(SourceFailed) as caught:
                await task
            assert caught.value.failure is SourceFailure.CONNECT

    @pytest.mark.parametrize("host", [HOST, "localhost"], ids=["address", "name"])
    async def test_closing_at_any_await_leaves_no_connection_open(self, host: str) -> None:
        """One left open would warn when it is collected, and warnings fail tests."""
        async with ScriptedServer(reply(200, success([SERIES]))) as server:
            for steps in range(CUT_OFF_STEPS):
                outcome = await _closed_after(steps, server.url.replace(HOST, host))
                if not isinstance(outcome, tuple):
                    assert isinstance(outcome, SourceFailed)
                    assert outcome.failure is SourceFailure.CONNECT
                del outcome
            gc.collect()

    @pytest.mark.parametrize("cancels", [1, 2])
    async def test_cancelled_asks_take_no_connection_with_them(self, cancels: int) -> None:
        """At any await, and while others wait for a connection: what pools have lost slots to."""
        connections = 4
        all_at_once = asyncio.Barrier(connections)

        async def together(request: Request, writer: asyncio.StreamWriter) -> None:
            async with all_at_once:
                await reply(200, success([SERIES]))(request, writer)

        good = reply(200, success([SERIES]))
        async with (
            ScriptedServer(good) as server,
            opened(server.url, max_connections=connections) as source,
        ):
            for steps in range(CUT_OFF_STEPS):
                tasks = [
                    asyncio.create_task(source.ask(LEVEL, timeout_s=TIMEOUT_S))
                    for _ in range(5 * connections)
                ]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for _ in range(cancels):
                    for task in tasks:
                        task.cancel()
                    await asyncio.sleep(0)
                for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                    assert isinstance(outcome, asyncio.CancelledError | tuple)
            server.script = together  # hangs unless every connection can be had
            answers = await asyncio.gather(
                *(source.ask(LEVEL, timeout_s=TIMEOUT_S) for _ in range(connections))
            )
        assert [len(answer) for answer in answers] == [1] * connections

    async def test_a_cancelled_ask_passes_its_turn_on(self) -> None:
        """Cancelled as its turn comes, it must not leave the next in line waiting for ever."""
        loop = asyncio.get_running_loop()
        async with (
            ScriptedServer(in_turn(hang(), reply(200, success([SERIES])))) as server,
            opened(server.url, max_connections=1) as source,
        ):
            asks = [source.ask(LEVEL, timeout_s=5.0) for _ in range(3)]
            first, second, third = map(asyncio.create_task, asks)
            await server.arrived(1)
            # After it was woken, before it runs.
            loop.call_soon(lambda: loop.call_soon(second.cancel))
            first.cancel()
            assert len(await third) == 1
            assert second.cancelled()

    async def test_a_broken_request_is_not_sent_again(self) -> None:
        async with ScriptedServer(hang_up()) as server, opened(server.url) as source:
            with pytest.raises(SourceFailed):
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("form", [None, b"query=up%0A&time=1"], ids=["get", "post"])
    async def test_a_target_goes_out_as_it_is(self, form: bytes | None) -> None:
        target = "/a/../b%2F//c?query=up%7Bx%3D~%22%2B%25%22%7D%0A%5B1m%5D&empty=&t=%e4"
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await reply(200, b"yes")(request, writer)

        async with ScriptedServer(script) as server:
            kept = _connections(server)
            assert [(await kept.request(target, form)).body for _ in range(2)] == [b"yes"] * 2
            await kept.close()
        sent = [(request.target, request.body) for request in server.requests]
        assert sent == [(target, form or b"")] * 2
        assert len(peers) == 1

    async def test_connections_are_kept_and_bounded(self) -> None:
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await reply(200, success([SERIES]))(request, writer)

        async with ScriptedServer(script) as server, opened(server.url) as source:
            for _ in range(10):
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            assert len(peers) == 1
            await asyncio.gather(*(source.ask(LEVEL, timeout_s=TIMEOUT_S) for _ in range(40)))
            assert len(peers) <= 4

    @pytest.mark.parametrize("script", [hang(), hang_up()], ids=["timeout", "reset"])
    async def test_after_a_failure_no_kept_connection_is_trusted(self, script: Script) -> None:
        peers: list[object] = []
        both = asyncio.Barrier(2)

        async def good(request: Request, writer: asyncio.StreamWriter) -> None:
            if len(peers) < both.parties:
                peers.append(writer.get_extra_info("peername"))
                await both.wait()
            peers.append(writer.get_extra_info("peername"))
            await reply(200, success([SERIES]))(request, writer)

        async with ScriptedServer(good) as server, opened(server.url) as source:
            await asyncio.gather(*(source.ask(LEVEL, timeout_s=TIMEOUT_S) for _ in range(2)))
            server.script = script
            with pytest.raises(SourceFailed):
                await source.ask(LEVEL, timeout_s=0.05)
            server.script = good
            await source.ask(LEVEL, timeout_s=TIMEOUT_S)
        assert len(set(peers[:2])) == 2  # two were kept
        assert peers[-1] not in peers[:-1]

    @pytest.mark.parametrize(("idle_s", "connections"), [(0.0, 3), (600.0, 1)])
    async def test_a_connection_that_was_quiet_for_long_is_not_used(
        self, idle_s: float, connections: int
    ) -> None:
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await reply(200, b"")(request, writer)

        async with ScriptedServer(script) as server:
            kept = _connections(server, idle_s)
            for _ in range(3):
                await kept.request("/")
            await kept.close()
        assert len(peers) == connections

    async def test_a_server_that_closes_after_each_reply(self) -> None:
        good = success([SERIES])

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            await reply(200, good, {"Connection": "close"})(request, writer)
            writer.close()

        async with ScriptedServer(script) as server, opened(server.url) as source:
            for _ in range(5):
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    async def test_a_body_that_ends_with_the_connection(self) -> None:
        async def script(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + success([SERIES]))
            await writer.drain()
            writer.close()

        async with ScriptedServer(script) as server, opened(server.url) as source:
            assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    async def test_nobody_listens(self) -> None:
        async with opened(f"http://127.0.0.1:{free_port()}") as source:
            with pytest.raises(SourceFailed) as caught:
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            assert caught.value.failure is SourceFailure.CONNECT
            with pytest.raises(SourceFailed):
                await source.probe(timeout_s=TIMEOUT_S)

    async def test_a_host_that_does_not_exist(self) -> None:
        async with opened("http://no-such-host.invalid:9090") as source:
            with pytest.raises(SourceFailed) as caught:
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            assert caught.value.failure is SourceFailure.CONNECT
