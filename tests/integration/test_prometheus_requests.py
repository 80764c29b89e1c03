"""What the Prometheus source sends, how it fits its windows to the server, what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.certificates import both_in, served_with
from tests.contract.metrics_cases import at
from tests.integration.prometheus_world import LEVEL, SERIES, TIMEOUT_S, opened, success
from tests.scripted_server import (
    Request,
    Script,
    ScriptedServer,
    in_turn,
    reply,
)
from triage.adapters.prometheus import PrometheusSource
from triage.errors import ConfigError, SourceFailed, SourceFailure
from triage.model.query import Aggregate, Samples

COUNT = Aggregate("metrics", 'level{host="a"}', at(0), at(30), "count")


def _asked(request: Request) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(request.target).query).items()}


def _modern(left_closed: Callable[[], bool]) -> Script:
    """Counts the edge as told, and everything else as one."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        look = "vector(1)" in _asked(request)["query"]
        counted = ("3" if left_closed() else "2") if look else "1"
        body = success([{"metric": {}, "value": [10, counted]}], "vector")
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
        body = success([{"metric": {}, "value": [10, "7"]}], "vector")
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
        async with ScriptedServer(reply(200, success([]))) as server:
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
        async with ScriptedServer(reply(200, success([]))) as server:
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
        three = reply(200, success([{"metric": {}, "value": [10, "3"]}], "vector"))
        async with ScriptedServer(in_turn(three, reply(404, b""))) as server:
            async with opened(server.url) as source:
                assert await source.probe(timeout_s=TIMEOUT_S) == "unknown"


@pytest.mark.both_loops
class TestTls:
    async def test_an_authority_that_is_trusted(self, certificate: Path) -> None:
        peers = set()

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            peers.add(writer.get_extra_info("peername"))
            await reply(200, success([SERIES]))(request, writer)

        async with ScriptedServer(script, tls=served_with(certificate)) as server:
            source = PrometheusSource("metrics", server.url, ca_file=str(certificate))
            await source.open()
            for _ in range(3):
                assert len(await source.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1
            await source.close()
        assert len(peers) == 1  # kept, as without TLS

    async def test_an_authority_nobody_trusts(self, certificate: Path) -> None:
        script = reply(200, success([SERIES]))
        async with ScriptedServer(script, tls=served_with(certificate)) as server:
            async with opened(server.url) as source:
                with pytest.raises(SourceFailed, match="certificate") as caught:
                    await source.ask(LEVEL, timeout_s=TIMEOUT_S)
                assert caught.value.failure is SourceFailure.CONNECT
            trusting = PrometheusSource("metrics", server.url, insecure=True)
            await trusting.open()
            assert len(await trusting.ask(LEVEL, timeout_s=TIMEOUT_S)) == 1
            await trusting.close()
        assert len(server.requests) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both_in(tmp_path_factory.mktemp("tls"))


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
