"""The Prometheus source against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contract.metrics_cases import STORED, at
from tests.integration.prometheus_world import LEVEL, TIMEOUT_S, opened
from tests.scripted_server import (
    Request,
    ScriptedServer,
    reply,
)
from tests.servers import OldSeries, Prometheus
from triage.adapters.prometheus import PrometheusSource
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Aggregate, Samples
from triage.tool_api import increase, mean, samples, selector

MANY = 3_000


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
