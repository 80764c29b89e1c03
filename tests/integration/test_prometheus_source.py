"""The Prometheus source against a real server, and against one that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from tests.contract.metrics_cases import STORED, at
from tests.servers import (
    OldSeries,
    Prometheus,
    Request,
    Script,
    ScriptedServer,
    close_mid_body,
    dribble,
    flood,
    free_port,
    garbage,
    gzip_bomb,
    hang,
    hang_up,
    in_turn,
    reply,
)
from triage.adapters.prometheus import PrometheusSource
from triage.errors import ConfigError, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Aggregate, Samples
from triage.tool_api import increase, mean, samples, selector

TIMEOUT_S = 30.0
LEVEL = Samples("metrics", 'level{host="a"}', at(0), at(60))
COUNT = Aggregate("metrics", 'level{host="a"}', at(0), at(30), "count")
MANY = 3_000


@asynccontextmanager
async def opened(
    url: str, *, max_bytes: int = 1_048_576, max_connections: int = 4, token: str = ""
) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource(
        "metrics", url, max_bytes=max_bytes, max_connections=max_connections, token=token
    )
    await source.open()
    try:
        yield source
    finally:
        await source.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), flags=["--query.max-samples=20000"])
    many = [OldSeries("many", {"n": f"{n:05}"}, [(1_767_614_400_000, n)]) for n in range(MANY)]
    twins = [
        OldSeries(name, {"host": "a"}, [(1_767_614_400_000, 1)]) for name in ("twin_a", "twin_b")
    ]
    server.backfill([*STORED, *many, *twins])
    with server:
        yield server


@pytest.fixture
async def source(prometheus: Prometheus) -> AsyncIterator[PrometheusSource]:
    async with opened(prometheus.url) as source:
        yield source


@pytest.mark.both_loops
class TestRealServer:
    async def test_probe_tells_the_version(self, source: PrometheusSource) -> None:
        assert (await source.probe(timeout_s=TIMEOUT_S)).split(".")[0].isdigit()

    @pytest.mark.parametrize(
        "text",
        ["level{", 'level{host="a"', "level{host=a}", "level level", "", "{}", "level or up"],
    )
    async def test_a_bad_selector_is_the_tools_fault(
        self, source: PrometheusSource, text: str
    ) -> None:
        with pytest.raises(ToolFailed) as caught:
            await source.ask(Samples("metrics", text, at(0), at(60)), timeout_s=TIMEOUT_S)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED

    @pytest.mark.parametrize(
        "text",
        [
            "level[5m]",
            "sum(level)",
            "level[5m]) or count_over_time(level",
            "level[5m]) #",
            'level{host="a"}[5m:1s]',
            'level{host="a"} # "',
        ],
    )
    async def test_a_selector_cannot_move_its_window(
        self, source: PrometheusSource, text: str
    ) -> None:
        for query in (
            Samples("metrics", text, at(0), at(60)),
            Aggregate("metrics", text, at(0), at(60), "count"),
        ):
            with pytest.raises(ToolFailed) as caught:
                await source.ask(query, timeout_s=TIMEOUT_S)
            assert caught.value.failure is ToolFailure.QUERY_REJECTED

    @pytest.mark.parametrize(
        "text",
        [
            ' level { host = "a" } ',
            "level{host='a'}",
            "level{host=`a`}",
            '{__name__="level", host=~"a|[#(]"}',
            'level{host!="b",}',
        ],
    )
    async def test_every_way_to_write_a_selector(self, source: PrometheusSource, text: str) -> None:
        (series,) = await source.ask(Samples("metrics", text, at(0), at(60)), timeout_s=TIMEOUT_S)
        assert series.labels == {"__name__": "level", "host": "a"}

    async def test_label_values_are_data(self, source: PrometheusSource) -> None:
        path = 'C:\\new "x"\n{}'
        query = samples("metrics", selector("quoted", path=path), at(0), 60)
        (series,) = await source.ask(query, timeout_s=TIMEOUT_S)
        assert series.labels["path"] == path

    async def test_series_that_become_one_are_the_tools_fault(
        self, source: PrometheusSource
    ) -> None:
        query = Aggregate("metrics", '{__name__=~"twin_.*"}', at(-60), at(0), "sum")
        with pytest.raises(ToolFailed, match="same labelset") as caught:
            await source.ask(query, timeout_s=TIMEOUT_S)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED

    async def test_series_that_differ_by_name_only_keep_it(self, source: PrometheusSource) -> None:
        query = Samples("metrics", '{__name__=~"twin_.*"}', at(-60), at(0))
        answer = await source.ask(query, timeout_s=TIMEOUT_S)
        assert [series.labels["__name__"] for series in answer] == ["twin_a", "twin_b"]

    async def test_an_answer_over_the_limit_is_the_tools_fault(
        self, prometheus: Prometheus
    ) -> None:
        everything = Samples("metrics", "many", at(-60), at(0))
        async with opened(prometheus.url, max_bytes=100_000) as source:
            for _ in range(5):  # more often than there are connections
                with pytest.raises(ToolFailed, match="100000 bytes") as caught:
                    await source.ask(everything, timeout_s=TIMEOUT_S)
                assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE
            assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1
        async with opened(prometheus.url) as source:
            answer = await source.ask(everything, timeout_s=TIMEOUT_S)
            assert [s.values for s in answer] == [(float(n),) for n in range(MANY)]

    async def test_more_samples_than_the_server_loads_is_the_tools_fault(
        self, tmp_path: Path
    ) -> None:
        server = Prometheus(tmp_path, flags=["--query.max-samples=3"])
        server.backfill(STORED)
        with server:
            async with opened(server.url) as source:
                with pytest.raises(ToolFailed, match="too many samples") as caught:
                    await source.ask(Samples("metrics", "level", at(-60), at(60)), timeout_s=9)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED

    async def test_a_long_selector_is_posted(self, source: PrometheusSource) -> None:
        hosts = "|".join(f"host-{n}" for n in range(3_000))
        query = Samples("metrics", f'level{{host=~"a|{hosts}"}}', at(0), at(60))
        (series,) = await source.ask(query, timeout_s=TIMEOUT_S)
        assert series.labels["host"] == "a"

    async def test_increase_over_a_restart(self, source: PrometheusSource) -> None:
        query = samples("metrics", selector("restarted_total", host="a"), at(45), 46)
        (series,) = await source.ask(query, timeout_s=TIMEOUT_S)
        assert series.values == (90.0, 100.0, 4.0, 10.0)
        assert increase(series) == 10 + 4 + 6

    async def test_mean_passes_over_what_is_no_number(self, source: PrometheusSource) -> None:
        query = samples("metrics", selector("odd", host="a"), at(45), 46)
        (series,) = await source.ask(query, timeout_s=TIMEOUT_S)
        assert mean(series.values) == 7

    async def test_a_path_prefix(self, tmp_path: Path) -> None:
        class Prefixed(Prometheus):
            ready_path = "/metrics-store/-/ready"

        server = Prefixed(tmp_path, flags=["--web.route-prefix=/metrics-store"])
        server.backfill(STORED)
        with server:
            async with opened(f"{server.url}/metrics-store/") as source:
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1
            async with opened(server.url) as source:
                with pytest.raises(SourceFailed, match="URL") as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
                assert caught.value.failure is SourceFailure.PROTOCOL


class TestStaleness:
    async def test_a_series_that_left_its_target_ends_there(self, tmp_path: Path) -> None:
        """The server writes a staleness marker, which is no sample, and fills nothing in."""
        page = {"text": "leaving 1\nstaying 1\n"}

        async def exporter(request: Request, writer: asyncio.StreamWriter) -> None:
            kind = {"Content-Type": "text/plain; version=0.0.4"}
            await reply(200, page["text"].encode(), kind)(request, writer)

        async with ScriptedServer(exporter) as target:
            config = (
                "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
                "scrape_configs:\n"
                "- job_name: it\n"
                f"  static_configs: [{{targets: ['127.0.0.1:{target.port}']}}]\n"
            )
            server = Prometheus(tmp_path, config=config)
            began = datetime.now(UTC) - timedelta(seconds=1)
            await asyncio.to_thread(server.start)
            try:
                await target.arrived(3)
                page["text"] = "staying 1\n"
                # A scrape is stored before the next begins: after two more the marker is there.
                await target.arrived(len(target.requests) + 3)
                ended = datetime.now(UTC)
                async with opened(server.url) as source:
                    (leaving,), (staying,) = [
                        await source.ask(
                            Samples("metrics", name, began, ended), timeout_s=TIMEOUT_S
                        )
                        for name in ("leaving", "staying")
                    ]
            finally:
                server.kill()
        assert set(leaving.values) == {1.0}
        assert leaving.times == staying.times[: len(leaving.times)]
        assert len(leaving.times) < len(staying.times)


def _success(result: list[object], kind: str = "matrix", **more: object) -> bytes:
    return orjson.dumps(
        {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    )


def _error(kind: str, text: str = "it says no") -> bytes:
    return orjson.dumps({"status": "error", "errorType": kind, "error": text})


SERIES = {"metric": {"__name__": "level"}, "values": [[1_767_614_430, "1.5"]]}


def _histogram(key: str) -> dict[str, object]:
    return {"metric": {"__name__": "level"}, key: [[1_767_614_430, {"count": "1"}]]}


TOOL_FAULTS: dict[str, Script] = {
    "bad data": reply(400, _error("bad_data")),
    "execution": reply(422, _error("execution")),
    "another result type": reply(200, _success([], "vector")),
    "native histograms": reply(200, _success([_histogram("histograms")])),
    "too long for a proxy": reply(414, b"URI too long"),
    "a warning about the query": reply(
        200, _success([SERIES], warnings=["PromQL warning: mixed histograms"])
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
        reply(200, _success([SERIES], warnings=["remote read: connection refused"])),
        SourceFailure.SERVER_ERROR,
    ),
    "redirect": (reply(302, b"", {"Location": "/login"}), SourceFailure.PROTOCOL),
    "not found": (reply(404, b"404 page not found"), SourceFailure.PROTOCOL),
    "bad request of a proxy": (reply(400, b"<html>"), SourceFailure.PROTOCOL),
    "no JSON": (reply(200, b"<html>"), SourceFailure.PROTOCOL),
    "no object": (reply(200, b"[]"), SourceFailure.PROTOCOL),
    "no data": (reply(200, b'{"status":"success"}'), SourceFailure.PROTOCOL),
    "no result": (reply(200, b'{"status":"success","data":{}}'), SourceFailure.PROTOCOL),
    "malformed series": (reply(200, _success([{"metric": {}}])), SourceFailure.PROTOCOL),
    "malformed sample": (
        reply(200, _success([{"metric": {}, "values": [[1_767_614_430, "one"]]}])),
        SourceFailure.PROTOCOL,
    ),
    "series is no object": (reply(200, _success([7])), SourceFailure.PROTOCOL),
    "a series twice": (reply(200, _success([SERIES, SERIES])), SourceFailure.PROTOCOL),
    "garbage": (garbage(), SourceFailure.PROTOCOL),
    "gzip unasked": (gzip_bomb(100_000_000), SourceFailure.PROTOCOL),
    "hangs up": (hang_up(), SourceFailure.CONNECT),
    "closes in the body": (close_mid_body(_success([SERIES])), SourceFailure.CONNECT),
}


@pytest.mark.both_loops
class TestScriptedServer:
    @pytest.mark.parametrize("about", TOOL_FAULTS)
    async def test_tool_faults(self, about: str) -> None:
        good = reply(200, _success([SERIES]))
        async with ScriptedServer(in_turn(TOOL_FAULTS[about], good)) as server:
            async with opened(server.url) as source:
                with pytest.raises(ToolFailed) as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
                assert caught.value.failure is ToolFailure.QUERY_REJECTED
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    @pytest.mark.parametrize("about", OUTAGES)
    async def test_outages(self, about: str) -> None:
        script, failure = OUTAGES[about]
        good = reply(200, _success([SERIES]))
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
        body = _success(
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
            server.script = reply(200, _success([SERIES]))
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

    async def test_connections_are_kept_and_bounded(self) -> None:
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await reply(200, _success([SERIES]))(request, writer)

        async with ScriptedServer(script) as server, opened(server.url) as source:
            for _ in range(10):
                await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            assert len(peers) == 1
            await asyncio.gather(*(source.ask(LEVEL, timeout_s=TIMEOUT_S) for _ in range(40)))
            assert len(peers) <= 4

    async def test_a_server_that_closes_after_each_reply(self) -> None:
        good = _success([SERIES])

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            await reply(200, good, {"Connection": "close"})(request, writer)
            writer.close()

        async with ScriptedServer(script) as server, opened(server.url) as source:
            for _ in range(5):
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1

    async def test_a_body_that_ends_with_the_connection(self) -> None:
        async def script(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + _success([SERIES]))
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


def _asked(request: Request) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(request.target).query).items()}


def _modern(left_closed: Callable[[], bool]) -> Script:
    """Counts the edge as told, and everything else as one."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        look = "vector(1)" in _asked(request)["query"]
        counted = ("3" if left_closed() else "2") if look else "1"
        body = _success([{"metric": {}, "value": [10, counted]}], "vector")
        await reply(200, body)(request, writer)

    return script


@pytest.mark.both_loops
class TestLeftEdge:
    @pytest.mark.parametrize(("left_closed", "window"), [(True, 29_999), (False, 30_000)])
    async def test_the_window_fits_the_servers_edge(self, left_closed: bool, window: int) -> None:
        async with ScriptedServer(_modern(lambda: left_closed)) as server:
            async with opened(server.url) as source:
                await asyncio.gather(*(source.ask(COUNT, timeout_s=TIMEOUT_S) for _ in range(5)))
        asked = [_asked(request)["query"] for request in server.requests]
        assert sum("vector(1)" in query for query in asked) == 1
        assert sum(f"[{window}ms]" in query for query in asked) == 5

    async def test_it_is_looked_at_again_after_a_reconnect(self) -> None:
        closed = True
        async with ScriptedServer(_modern(lambda: closed)) as server:
            async with opened(server.url) as source:
                await source.ask(COUNT, timeout_s=TIMEOUT_S)
                await server.close()
                closed = False
                async with server:
                    await source.ask(COUNT, timeout_s=TIMEOUT_S)
        assert "[30000ms]" in _asked(server.requests[-1])["query"]

    async def test_a_server_that_counts_strangely_is_not_trusted(self) -> None:
        body = _success([{"metric": {}, "value": [10, "7"]}], "vector")
        async with ScriptedServer(reply(200, body)) as server, opened(server.url) as source:
            with pytest.raises(SourceFailed, match="left edge") as caught:
                await source.ask(COUNT, timeout_s=TIMEOUT_S)
            assert caught.value.failure is SourceFailure.PROTOCOL

    async def test_cancelling_the_first_look_leaves_the_others_theirs(self) -> None:
        go = asyncio.Event()
        modern = _modern(lambda: True)

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            await modern(request, writer)

        async with ScriptedServer(script) as server, opened(server.url) as source:
            tasks = [asyncio.create_task(source.ask(COUNT, timeout_s=TIMEOUT_S)) for _ in range(3)]
            await server.arrived(1)
            tasks[0].cancel()
            go.set()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert [len(answer) for answer in outcomes[1:] if isinstance(answer, tuple)] == [1, 1]


@pytest.mark.both_loops
class TestRequest:
    async def test_what_is_sent(self) -> None:
        async with ScriptedServer(reply(200, _success([]))) as server:
            source = PrometheusSource(
                "metrics", server.url, token="s3cret", headers={"X-Scope-OrgID": "team"}
            )
            await source.open()
            query = Samples("metrics", "up", at(0.0004), at(1.0019))
            assert await source.ask(query, timeout_s=2.5) == ()
            await source.close()
        (request,) = server.requests
        assert urlsplit(request.target).path == "/api/v1/query"
        assert _asked(request) == {
            "query": "up\n[1001ms]",
            "time": "2026-01-05T12:00:01.001Z",
            "timeout": "2500ms",
        }
        assert request.headers["authorization"] == "Bearer s3cret"
        assert request.headers["x-scope-orgid"] == "team"
        assert request.headers["accept-encoding"] == "identity"

    async def test_basic_credentials(self) -> None:
        async with ScriptedServer(reply(200, _success([]))) as server:
            source = PrometheusSource("metrics", server.url, username="u", password="p:w")
            await source.open()
            await source.ask(LEVEL, timeout_s=TIMEOUT_S)
            await source.close()
        assert server.requests[0].headers["authorization"] == "Basic dTpwOnc="

    async def test_secrets_are_in_no_repr_and_no_error(self) -> None:
        async with ScriptedServer(reply(401, b"")) as server:
            async with opened(server.url, token="s3cret") as source:
                with pytest.raises(SourceFailed, match="credentials") as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
        assert "s3cret" not in f"{source!r} {caught.value!r} {caught.value}"

    async def test_probe_of_a_server_without_a_version(self) -> None:
        three = reply(200, _success([{"metric": {}, "value": [10, "3"]}], "vector"))
        async with ScriptedServer(in_turn(three, reply(404, b""))) as server:
            async with opened(server.url) as source:
                assert await source.probe(timeout_s=TIMEOUT_S) == "unknown"


class TestSettings:
    @pytest.mark.parametrize(
        "url",
        [
            "prometheus:9090",
            "ftp://host",
            "http://",
            "http://host:port",
            "http://host/?a=b",
            "http://host/#a",
            "http://ho st",
            "http://host/\r\nX: y",
            "http://hóst",
            "http://user:secret@host",
        ],
    )
    def test_urls_that_cannot_be_used(self, url: str) -> None:
        with pytest.raises(ConfigError, match="source metrics") as caught:
            PrometheusSource("metrics", url)
        assert "secret" not in str(caught.value)

    def test_two_kinds_of_credentials(self) -> None:
        with pytest.raises(ConfigError, match="not both"):
            PrometheusSource("metrics", "http://host", token="t", username="u")

    def test_a_secret_with_a_line_break(self) -> None:
        with pytest.raises(ConfigError, match="line break") as caught:
            PrometheusSource("metrics", "http://host", token="s3cret\n")
        assert "s3cret" not in str(caught.value)

    async def test_a_ca_file_that_is_none(self, tmp_path: Path) -> None:
        broken = tmp_path / "ca.pem"
        broken.write_text("not a certificate")
        for ca_file in (str(broken), str(tmp_path / "missing.pem")):
            source = PrometheusSource("metrics", "https://host", ca_file=ca_file)
            with pytest.raises(ConfigError, match="ca_file"):
                await source.open()
