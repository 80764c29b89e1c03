"""The dock's metrics, in this process and back-filled into a real Prometheus."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.servers import Prometheus, binary
from bench.world.catalogue import PREFIX, SERIES
from bench.world.layout import EPOCH
from bench.world.metrics import WorldMetrics
from bench.world.series import CanonicalSeries
from bench.world.served import ServedSeries
from tests.unit.bench_world.small_minutes import small_minutes
from triage.adapters.prometheus import PrometheusSource
from triage.model.query import AggregateFunction, encode_answer
from triage.tool_api import aggregate, samples

TIMEOUT_S = 30.0
METRICS = WorldMetrics(
    ServedSeries(CanonicalSeries(small_minutes(sites=5, minutes=150), seed=7), seed=7)
)
END = datetime.fromtimestamp(EPOCH + 150 * 60, UTC)
NAMES = sorted({PREFIX + name.partition(":")[0] for name in SERIES})
FUNCTIONS: tuple[AggregateFunction, ...] = ("count", "min", "max", "quantile")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    server = Prometheus(folder)
    for site in (1, 3, 4):
        dump = folder / f"{site}.om"
        with dump.open("w") as text:
            text.writelines(METRICS.backfill(site, [(EPOCH, EPOCH + 150 * 60)]))
        command = [binary("promtool", package="prometheus"), "tsdb", "create-blocks-from"]
        subprocess.run(  # noqa: S603 - our own file
            [*command, "openmetrics", str(dump), str(folder / "data")],
            check=True,
            capture_output=True,
        )
    with server:
        yield server


@pytest.fixture
async def source(server: Prometheus) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource("metrics", server.url)
    await source.open()
    yield source
    await source.close()


@pytest.mark.parametrize("name", NAMES)
async def test_a_server_says_the_same(source: PrometheusSource, name: str) -> None:
    for site in ("FC2", "FC4", "FC5"):
        for text in (f'{name}{{site="{site}"}}', f'{name}{{site="{site}",asset=~".*[135]"}}'):
            for before, width in ((0, 900), (1234, 1811), (1, 4000)):
                query = samples("metrics", text, END - timedelta(seconds=before), width)
                mine = await METRICS.ask(query, timeout_s=TIMEOUT_S)
                theirs = await source.ask(query, timeout_s=TIMEOUT_S)
                assert encode_answer(mine) == encode_answer(theirs)
    for function in FUNCTIONS:
        folded = aggregate("metrics", f'{name}{{site="FC5"}}', END, 3000, function, 0.1)
        mine = await METRICS.ask(folded, timeout_s=TIMEOUT_S)
        assert mine
        theirs = await source.ask(folded, timeout_s=TIMEOUT_S)
        assert encode_answer(mine) == encode_answer(theirs)
