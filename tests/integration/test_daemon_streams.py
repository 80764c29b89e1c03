"""Alerts that producers put on a stream of their own, poison among them, through a whole daemon."""

from __future__ import annotations

import asyncio
import itertools
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon import Daemon, Project, good_tool, native, served
from tests.daemon_neighbours import MetricsScript
from tests.integration.producers import STREAM, Broker, Producer, producer
from tests.integration.replica_world import BROKERS, broker
from tests.scripted_server import ScriptedServer
from tests.servers import wait_until

_numbers = itertools.count()


@pytest.fixture(params=BROKERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with broker(request.param, tmp_path / "broker") as found:
        assert found is not None
        yield found


def project(folder: Path, metrics: ScriptedServer, server: Broker, **more: Any) -> Project:
    stream = {"url": server.url, "stream": STREAM, "lease_s": 2, **more.pop("stream", {})}
    return Project(
        folder=folder / "project",
        nodes={"good": good_tool(), "slow": good_tool("held")},
        metrics_url=metrics.url,
        streams={"floor": stream},
        source={"timeout_s": 40},
        engine={"deadline_s": 50},
        **more,
    ).write()


def alert(alarm: str = "al_good", **more: Any) -> bytes:
    number = next(_numbers)
    return orjson.dumps({**native(f"s{number}", alarm, entity=f"unit-{number}"), **more})


async def until_taken(daemon: Daemon, producers: Producer, accepted: int) -> dict[str, Any]:
    """The ledger, once that many were accepted, all decided, and nothing is left unacked."""
    ledger: dict[str, Any] = {}

    def counted() -> bool:
        nonlocal ledger
        ledger = daemon.get("/api/v1/ledger?full=1")
        return bool(ledger["accepted"] >= accepted and ledger["pending"] == 0)

    await asyncio.to_thread(wait_until, counted, what=f"{accepted} accepted and decided")
    async with asyncio.timeout(60):
        while await producers.unsettled():
            await asyncio.to_thread(daemon.get, "/-/healthy")
    return ledger


def until_stored(project: Project, alerts: int) -> None:
    def stored() -> bool:
        return bool(project.rows("SELECT count(*) FROM alerts")[0][0] >= alerts)

    wait_until(stored, what=f"{alerts} stored")


def page(daemon: Daemon) -> str:
    with urllib.request.urlopen(f"{daemon.url}/metrics", timeout=30) as response:  # noqa: S310 - ours
        text: str = response.read().decode()
    return text


async def test_good_alerts_are_decided_and_poison_is_kept_for_a_person(
    tmp_path: Path, server: Broker
) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server, http={"max_body_bytes": 4000})
        async with producer(server) as producers, served(made) as daemon:
            partly = orjson.dumps([orjson.loads(alert()), {"alarm": 5}])
            for number in range(20):
                await producers.put(alert())
                if number == 5:
                    await producers.put(b"\xff no JSON", {"from": "wms"})
                    await producers.put(partly)
                if number == 11:
                    await producers.put(b"x" * 5000)
            ledger = await until_taken(daemon, producers, 24)
            assert (ledger["decided"], ledger["dead_lettered"]) == (21, 3)
            assert ledger["balances"] is True
            assert (await daemon.ask("/-/ready"))["streams"] == {"floor": "ok"}
            text = page(daemon)
            for line in (
                'triage_stream_messages_total{result="accepted",stream="floor"} 20.0',
                'triage_stream_messages_total{result="undecodable",stream="floor"} 1.0',
                'triage_stream_up{stream="floor"} 1.0',
                "triage_dead_letters 3.0",
                "triage_queue_up 1.0",
            ):
                assert line in text
            letters = (await daemon.ask("/api/v1/dead-letters"))["dead_letters"]
            by_reason = {letter["reason"]: letter for letter in letters}
            assert set(by_reason) == {"undecodable", "partly_rejected", "too_large"}
            assert by_reason["too_large"]["payload_bytes"] == 4000
            assert "[1]" in by_reason["partly_rejected"]["detail"]
            assert "not JSON" in by_reason["undecodable"]["detail"]
            bad = by_reason["undecodable"]["dead_letter_id"]
            whole = await daemon.ask(f"/api/v1/dead-letters/{bad}")
            assert whole["headers"].get("from") == "wms"
            assert whole["stream"] == "floor"
            assert await daemon.terminated() == 0


async def test_cloudevents_in_binary_mode(tmp_path: Path, server: Broker) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server, stream={"format": "cloudevents"})
        async with producer(server) as producers, served(made) as daemon:
            await producers.put(
                b'{"alarm": "al_good", "entity": "unit-7"}',
                {
                    "ce-specversion": "1.0",
                    "ce-id": "7",
                    "ce-source": "//wms",
                    "ce-type": "dock.alarm",
                    "ce-time": "2026-03-01T11:59:00Z",
                    "content-type": "application/json",
                },
            )
            ledger = await until_taken(daemon, producers, 1)
            assert ledger["decided"] == 1
            (decision,) = (await daemon.ask("/api/v1/decisions"))["decisions"]
            assert (decision["alarm"], decision["entity"]) == ("al_good", "unit-7")


async def test_a_daemon_killed_while_it_takes_messages_loses_and_doubles_none(
    tmp_path: Path, server: Broker
) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server, stream={"batch": 10})
        async with producer(server) as producers, served(made) as daemon:
            for _ in range(300):
                await producers.put(alert())
            for stop in (40, 120, 200):
                await asyncio.to_thread(until_stored, made, stop)
                daemon.kill()
                await daemon.started()
            ledger = await until_taken(daemon, producers, 300)
            assert (ledger["accepted"], ledger["decided"]) == (300, 300)
            assert ledger["balances"] is True


async def test_while_the_store_is_full_the_rest_waits_on_the_stream(
    tmp_path: Path, server: Broker
) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        made = project(
            tmp_path,
            metrics,
            server,
            store={"url": "sqlite:///data/triage.db", "max_pending": 5},
            stream={"batch": 1},
        )
        async with producer(server) as producers, served(made) as daemon:
            for _ in range(12):
                await producers.put(alert("al_slow"))
            await daemon.until_logged("stream_held_up")
            told = await daemon.ask("/-/ready")
            assert told["streams"]["floor"] != "ok"
            assert told["ready"] is True, "alerts are taken by HTTP all the same"
            assert (await daemon.ask("/api/v1/ledger"))["pending"] <= 5
            script.release()
            ledger = await until_taken(daemon, producers, 12)
            assert (ledger["decided"], ledger["dead_lettered"]) == (12, 0)


async def test_a_streams_server_that_dies_and_comes_back_needs_no_hand(
    tmp_path: Path, server: Broker
) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server)
        async with producer(server) as producers, served(made) as daemon:
            await producers.put(alert())
            await until_taken(daemon, producers, 1)
            server.kill()
            await asyncio.to_thread(
                wait_until,
                lambda: daemon.get("/-/ready")["streams"]["floor"] != "ok",
                what="the stream's trouble told",
            )
            assert daemon.get("/-/ready")["ready"] is True
            assert 'triage_stream_up{stream="floor"} 0.0' in page(daemon)
            await asyncio.to_thread(server.start)
            async with producer(server) as again:
                await again.put(alert())
                ledger = await until_taken(daemon, again, 2)
            assert ledger["decided"] == 2
            assert (await daemon.ask("/-/ready"))["streams"] == {"floor": "ok"}


async def test_a_stop_leaves_no_message_to_wait_for_its_lease(
    tmp_path: Path, server: Broker
) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server, stream={"lease_s": 600})
        async with producer(server) as producers, served(made) as daemon:
            for _ in range(200):
                await producers.put(alert())
            assert await daemon.terminated() == 0
            await daemon.started()
            ledger = await until_taken(daemon, producers, 200)
            assert (ledger["accepted"], ledger["decided"]) == (200, 200)


async def test_a_stream_that_is_not_there_yet_is_told(tmp_path: Path, server: Broker) -> None:
    """NATS streams are made by their owners; Redis makes a key when it is first read."""
    async with ScriptedServer(MetricsScript()) as metrics:
        made = project(tmp_path, metrics, server)
        async with served(made) as daemon:
            if server.name == "nats":
                await asyncio.to_thread(
                    wait_until,
                    lambda: daemon.get("/-/ready")["streams"]["floor"] != "ok",
                    what="the stream that is missing told",
                )
            async with producer(server) as producers:
                await producers.put(alert())
                ledger = await until_taken(daemon, producers, 1)
            assert ledger["decided"] == 1
