"""What the Prometheus source tells of its metrics, from a real server and from scripted ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.contract.metrics_cases import STORED
from tests.integration.prometheus_world import TIMEOUT_S, opened
from tests.scripted_server import Request, Script, ScriptedServer, hang, reply
from tests.servers import Prometheus
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.catalogue import Catalogue, Metric
from triage.ports import Catalogued

PAGE = b"""\
# HELP tank_level How full the tank is.
# TYPE tank_level gauge
tank_level{tank="a"} 1
# HELP fills Fills that were begun.
# TYPE fills counter
fills_total 3
# HELP fill_seconds Time of a fill.
# TYPE fill_seconds histogram
fill_seconds_bucket{le="+Inf"} 1
fill_seconds_count 1
fill_seconds_sum 2
bare 1
# EOF
"""


async def test_a_real_server_tells_names_and_what_it_knows_of_them(tmp_path: Path) -> None:
    async def exporter(request: Request, writer: asyncio.StreamWriter) -> None:
        kind = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
        await reply(200, PAGE, kind)(request, writer)

    async with ScriptedServer(exporter) as target:
        config = (
            "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
            "scrape_configs:\n"
            "- job_name: it\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{target.port}']}}]\n"
        )
        server = Prometheus(tmp_path, config=config)
        server.backfill(STORED)
        await asyncio.to_thread(server.start)
        try:
            # A scrape is stored before the next begins.
            await target.arrived(3)
            async with opened(server.url) as source:
                assert isinstance(source, Catalogued)
                told = await source.catalogue(timeout_s=TIMEOUT_S)
        finally:
            server.kill()
    assert told.tables == {}
    assert told.metrics["tank_level"] == Metric(help="How full the tank is.", kind="gauge")
    assert told.metrics["fills_total"] == Metric(help="Fills that were begun.", kind="counter")
    for suffix in ("bucket", "count", "sum"):
        assert told.metrics[f"fill_seconds_{suffix}"].help == "Time of a fill."
    assert told.metrics["bare"] == Metric()
    # Stored once, and no target has it now.
    assert told.metrics["level"] == Metric()
    assert list(told.metrics) == sorted(told.metrics)


def answering(names: Script, metadata: Script) -> Script:
    async def server(request: Request, writer: asyncio.StreamWriter) -> None:
        behaviour = metadata if "/metadata" in request.target else names
        await behaviour(request, writer)

    return server


def success(data: object, **more: object) -> Script:
    return reply(200, orjson.dumps({"status": "success", "data": data, **more}))


NAMES = success(["up", "level"])
NOTHING = success({})
PLAIN = {"level": Metric(), "up": Metric()}


async def catalogue(server: Script, *, timeout_s: float = TIMEOUT_S) -> Catalogue:
    async with ScriptedServer(server) as scripted, opened(scripted.url, max_bytes=5000) as source:
        return await source.catalogue(timeout_s=timeout_s)


async def test_unit_and_odd_metadata() -> None:
    metadata = {
        "level": [{"type": "gauge", "help": "How full.", "unit": "percent"}],
        "up": [{"type": "unknown", "help": 3}],
        "gone": [],
    }
    told = await catalogue(answering(success(["up", "level", "gone"]), success(metadata)))
    assert told.metrics == {
        "gone": Metric(),
        "level": Metric(help="How full.", kind="gauge", unit="percent"),
        "up": Metric(),
    }


@pytest.mark.parametrize(
    "metadata",
    [reply(404, b"404 page not found"), reply(403, b"no"), success({"up": ["x" * 9000]})],
    ids=["not there", "forbidden", "too large"],
)
async def test_names_alone_are_of_use(metadata: Script) -> None:
    assert (await catalogue(answering(NAMES, metadata))).metrics == PLAIN


@pytest.mark.parametrize("status", [403, 404, 405, 501])
async def test_a_server_that_does_not_tell_is_no_outage(status: int) -> None:
    with pytest.raises(ToolFailed, match="does not tell") as caught:
        await catalogue(answering(reply(status, b"no"), NOTHING))
    assert caught.value.failure is ToolFailure.QUERY_REJECTED


async def test_too_many_names() -> None:
    with pytest.raises(ToolFailed) as caught:
        await catalogue(answering(success(["x" * 50] * 200), NOTHING))
    assert caught.value.failure is ToolFailure.ANSWER_TOO_LARGE


@pytest.mark.parametrize(
    ("names", "failure"),
    [
        (reply(500, b"broken"), SourceFailure.SERVER_ERROR),
        (reply(401, b"who"), SourceFailure.SERVER_ERROR),
        (success({"a": 1}), SourceFailure.PROTOCOL),
        (success(["a", 1]), SourceFailure.PROTOCOL),
        (reply(200, b"<html>"), SourceFailure.PROTOCOL),
        (success(["a"], warnings=["a store did not answer"]), SourceFailure.SERVER_ERROR),
    ],
)
async def test_outages(names: Script, failure: SourceFailure) -> None:
    with pytest.raises(SourceFailed) as caught:
        await catalogue(answering(names, NOTHING))
    assert caught.value.failure is failure


async def test_metadata_that_fails_is_an_outage() -> None:
    with pytest.raises(SourceFailed) as caught:
        await catalogue(answering(NAMES, reply(503, b"later")))
    assert caught.value.failure is SourceFailure.SERVER_ERROR


async def test_a_server_that_never_answers() -> None:
    with pytest.raises(SourceFailed) as caught:
        await catalogue(answering(NAMES, hang()), timeout_s=0.2)
    assert caught.value.failure is SourceFailure.TIMEOUT
