"""From settings to queue and streams: nothing is connected, what is missing is named."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

import pytest

from tests.unit.evaluation.virtual_time import LoopClock, on_virtual_time
from tests.unit.worker.bench import GONE
from tests.unit.worker.fakes import FakeQueue, Record
from triage.app.deliveries import Deliveries, make_queue, make_stream
from triage.app.delivery_sections import QueueSection, StreamSection
from triage.errors import ConfigError
from triage.telemetry.metrics import Metrics


def queue_of(url: str) -> object:
    return make_queue(QueueSection(url=url), lease_s=30, clock=LoopClock())


@pytest.mark.parametrize("url", ["", "sqlite:///data/triage.db", "postgresql://h/d"])
def test_the_stores_own_queue_is_none_to_make(url: str) -> None:
    assert queue_of(url) is None


@on_virtual_time
async def test_a_queue_is_made_by_its_scheme_and_connects_to_nothing() -> None:
    for url, kind in [
        ("redis://127.0.0.1:9/0", "RedisQueue"),
        ("rediss://127.0.0.1:9", "RedisQueue"),
        ("nats://127.0.0.1:9", "NatsQueue"),
        ("tls://127.0.0.1:9", "NatsQueue"),
    ]:
        queue = make_queue(QueueSection(url=url), lease_s=30, clock=LoopClock())
        assert type(queue).__name__ == kind
        assert queue is not None
        assert queue.trouble == ""
        await queue.close()


@on_virtual_time
async def test_a_stream_is_made_by_its_scheme() -> None:
    for url, kind in [("redis://127.0.0.1:9", "RedisStream"), ("nats://127.0.0.1:9", "NatsStream")]:
        stream = make_stream("floor", StreamSection(url=url, stream="alerts"), LoopClock())
        assert type(stream).__name__ == kind
        await stream.close()


@pytest.mark.parametrize(("url", "package"), [("redis://h", "redis"), ("nats://h", "nats")])
def test_a_package_that_is_missing_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith(f"triage.adapters.{package}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"triage\[{package}\]"):
        queue_of(url)
    with pytest.raises(ConfigError, match=rf"triage\[{package}\]"):
        make_stream("floor", StreamSection(url=url, stream="alerts"), LoopClock())


class Hanging(FakeQueue):
    async def depth(self) -> Mapping[str, int]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers")


def watched(queue: FakeQueue) -> Deliveries:
    metrics = Metrics.register(version="test", monotonic=lambda: 0.0)
    return Deliveries(queue=queue, consumers=(), metrics=metrics)


async def seen(deliveries: Deliveries) -> tuple[float | None, float | None]:
    await deliveries.observe()
    value = deliveries.metrics.registry.get_sample_value
    return value("triage_queue_up"), value("triage_queue_entries", {"priority": "warning"})


@on_virtual_time
async def test_a_queue_is_asked_what_it_holds() -> None:
    record = Record()
    record.add("a", "b")
    deliveries = watched(record.queue)
    assert await seen(deliveries) == (1, 2)
    assert await deliveries.queue_trouble() == ""


@on_virtual_time
async def test_a_queue_that_refuses_is_told_and_its_depth_is_absent() -> None:
    record = Record()
    deliveries = watched(record.queue)
    record.failures["depth"] = [GONE, GONE]
    assert await seen(deliveries) == (0, None)
    assert await deliveries.queue_trouble() == str(GONE)
    assert await seen(deliveries) == (1, 0)


@on_virtual_time
async def test_a_queue_that_hangs_keeps_nobody_waiting() -> None:
    deliveries = watched(Hanging(Record()))
    assert await seen(deliveries) == (0, None)
    assert "did not answer" in await deliveries.queue_trouble()
    assert asyncio.get_running_loop().time() < 10
