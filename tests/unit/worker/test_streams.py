"""Producers' messages: durable before they are acked, and none is in another's way."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.worker.bench import GONE, LOST, passed, until
from tests.unit.worker.stream_world import LEASE_S, NAME, StreamBench, body, native
from triage.errors import Overloaded
from triage.intake.fields import default_field_maps
from triage.model.alert import Accepted, Arrival, Severity
from triage.model.canonical import sha256_hex
from triage.ports import StreamMessage
from triage.worker.messages import BODY_DIGITS, StreamOptions, dead_letter, read

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BAD = [
    (b"", "body: is empty"),
    (b"{", "body: is not JSON"),
    (b"\xff\xfe", "body: is not JSON"),
    (b"[]", "holds no alert"),
    (b"null", "expected a JSON object"),
    (b'{"alarm": "al"}', "fired_at"),
    (gzip.compress(b"{}"), "body: is not JSON"),
]


@pytest.fixture
def bench(tmp_path: Path) -> StreamBench:
    return StreamBench(folder=tmp_path)


# --- the way it goes ------------------------------------------------------------------------------


@on_virtual_time
async def test_a_message_is_acked_once_its_alerts_are_durable_and_published(
    bench: StreamBench,
) -> None:
    bench.stream.put(body(native(1, severity="critical")))
    bench.stream.put(body(native(2), native(3)))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    assert len(bench.shelf.rows) == 3
    assert set(bench.shelf.queue.entries) == set(bench.shelf.rows)
    priorities = sorted(entry.priority for entry in bench.shelf.queue.entries.values())
    assert priorities[0] == Severity.CRITICAL.priority
    assert bench.results() == {"accepted": 2}
    assert bench.letters == []
    assert bench.metrics.registry.get_sample_value(
        "triage_intake_alerts_total", {"format": "native", "status": "new"}
    ) == 3  # fmt: skip


@on_virtual_time
async def test_a_delivery_that_comes_again_changes_nothing(bench: StreamBench) -> None:
    said = body(native(1), native(2))
    bench.stream.put(said)
    bench.stream.failures["ack"] = [GONE]
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert asyncio.get_running_loop().time() >= LEASE_S
    place = f"{NAME}/1-0/{sha256_hex(said)[:BODY_DIGITS]}"
    assert set(bench.shelf.keys) == {f"{place}/0", f"{place}/1"}
    assert len(bench.shelf.rows) == 2
    assert sum(count for _, count in bench.shelf.queue.publishes) == 2


def test_another_message_of_the_same_number_is_not_the_same() -> None:
    """A stream that was deleted and made again counts from 1 again."""
    options = StreamOptions(name="orders", format="native")
    first, second = (StreamMessage(message_id="1", token="t", body=body(native(n))) for n in (1, 2))
    field_map = default_field_maps()["native"]
    keys = {
        arrival.delivery_key
        for message in (first, second)
        for arrival in read(message, options, field_map, NOW).parsed.arrivals
    }
    assert len(keys) == 2
    letters = {
        dead_letter(message, options, reason="r", detail="d", at=NOW).dead_letter_id
        for message in (first, second)
    }
    assert len(letters) == 2


@on_virtual_time
async def test_integration_and_tenant_are_the_configurations(bench: StreamBench) -> None:
    seen: list[Arrival] = []
    accept = bench.shelf.accept

    async def watch(arrivals: Sequence[Arrival]) -> list[Accepted]:
        seen.extend(arrivals)
        return await accept(arrivals)

    bench.shelf.accept = watch  # type: ignore[method-assign]
    bench.options = replace(bench.options, integration="wms", tenant="east")
    bench.stream.put(body(native(1)))
    async with bench.running():
        await until(lambda: bool(bench.stream.acked))
    (arrival,) = seen
    assert (arrival.integration, arrival.tenant) == ("wms", "east")


@on_virtual_time
async def test_a_cloudevent_in_binary_mode_is_in_the_headers(bench: StreamBench) -> None:
    bench.options = StreamOptions(name=NAME, format="cloudevents")
    bench.stream.put(
        b'{"alarm": "al", "severity": "critical"}',
        {
            "Ce-SpecVersion": "1.0",
            "Ce-Id": "7",
            "Ce-Source": "//wms",
            "Ce-Type": "dock.alarm",
            "Content-Type": "application/json",
        },
    )
    async with bench.running():
        await until(lambda: bool(bench.stream.acked))
    assert len(bench.shelf.rows) == 1
    assert bench.results() == {"accepted": 1}


@on_virtual_time
async def test_what_the_queue_does_not_take_is_acked_and_left_to_the_sweeper(
    bench: StreamBench,
) -> None:
    bench.stream.put(body(native(1)))
    bench.shelf.failures["publish"] = [GONE]
    async with bench.running():
        await until(lambda: bool(bench.stream.acked))
    assert len(bench.shelf.rows) == 1


@on_virtual_time
async def test_a_large_batch_is_several_transactions(bench: StreamBench) -> None:
    bench.options = replace(bench.options, max_body_bytes=1 << 20)
    for start in range(0, 3000, 600):
        bench.stream.put(body(*[native(start + n) for n in range(600)]))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 5)
    assert bench.shelf.transactions == [1200, 1200, 600]


# --- messages that are no alerts ------------------------------------------------------------------


@pytest.mark.parametrize(("content", "problem"), BAD, ids=range(len(BAD)))
@on_virtual_time
async def test_what_is_no_alert_is_buried_with_its_payload_and_why(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    bench = StreamBench(folder=tmp_path)
    bench.stream.put(body(native(1)))
    bad = bench.stream.put(content, {"X-From": "wms"})
    bench.stream.put(body(native(2)))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 3)
    (letter,) = bench.letters
    assert (letter.stream, letter.format, letter.reason) == (NAME, "native", "undecodable")
    assert letter.payload == content
    assert letter.headers == {"x-from": "wms"}
    assert letter.attempts == 1
    assert problem in letter.detail
    assert bad in bench.stream.acked
    assert len(bench.shelf.rows) == 2
    assert bench.results() == {"accepted": 2, "undecodable": 1}


@on_virtual_time
async def test_a_handshake_of_sns_is_answered_by_nobody(bench: StreamBench) -> None:
    """And a notification is taken without its signature."""
    bench.options = StreamOptions(name=NAME, format="sns")
    url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"
    bench.stream.put(
        body({"Type": "SubscriptionConfirmation", "TopicArn": "arn:x", "SubscribeURL": url})
    )
    bench.stream.put(
        body(
            {
                "Type": "Notification",
                "MessageId": "m",
                "Message": body(
                    {
                        "AlarmName": "al",
                        "NewStateValue": "ALARM",
                        "StateChangeTime": "2026-03-01T11:59:00.000+0000",
                    }
                ).decode(),
            }
        )
    )
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    assert [letter.reason for letter in bench.letters] == ["undecodable"]
    assert len(bench.shelf.rows) == 1


@on_virtual_time
async def test_of_a_partly_rejected_message_the_good_alerts_are_accepted_and_all_of_it_is_kept(
    bench: StreamBench,
) -> None:
    content = body(native(1), {"alarm": 5}, native(2), {"fired_at": 1})
    bench.stream.put(content)
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    (letter,) = bench.letters
    assert letter.reason == "partly_rejected"
    assert letter.payload == content
    assert letter.detail.startswith("2 of 4 entries cannot be alerts: [1]")
    assert "; [3]" in letter.detail
    assert len(bench.shelf.rows) == 2
    assert bench.results() == {"partly_rejected": 1}


@on_virtual_time
async def test_of_a_body_that_is_too_large_as_much_is_kept_as_is_allowed(
    bench: StreamBench,
) -> None:
    bench.stream.put(b"x" * 2001)
    bench.stream.put(body(native(1)))
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 2)
    (letter,) = bench.letters
    assert letter.reason == "too_large"
    assert letter.payload == b"x" * 2000
    assert "2001 bytes" in letter.detail
    assert "only so much" in letter.detail
    assert bench.results() == {"accepted": 1, "too_large": 1}


@on_virtual_time
async def test_a_message_is_buried_once_however_often_it_comes(bench: StreamBench) -> None:
    bench.stream.put(b"{")
    bench.stream.failures["ack"] = [GONE, GONE]
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert len(bench.letters) == 1


# --- a store that does not take them --------------------------------------------------------------


@pytest.mark.parametrize("method", ["accept", "bury"])
@on_virtual_time
async def test_what_the_store_did_not_take_comes_again(tmp_path: Path, method: str) -> None:
    bench = StreamBench(folder=tmp_path)
    bench.stream.put(body(native(1)))
    bench.stream.put(b"{")
    bench.shelf.failures[method] = [LOST] * 5
    async with bench.running() as consumer:
        await until(lambda: bool(bench.stream.released))
        assert consumer.trouble == str(LOST)
        await until(lambda: len(bench.stream.acked) == 2)
        await until(lambda: not consumer.trouble)
    assert len(bench.shelf.rows) == 1
    assert [letter.reason for letter in bench.letters] == ["undecodable"]


@on_virtual_time
async def test_while_the_store_is_full_no_more_is_received(bench: StreamBench) -> None:
    bench.stream.put(body(native(1)))
    bench.shelf.failures["accept"] = [Overloaded("full", retry_after_s=7)]
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert bench.stream.released == [("1-0", 7.0)]
    first, second = bench.stream.receives[:2]
    assert second - first == pytest.approx(7)


@on_virtual_time
async def test_a_store_in_trouble_is_tried_later_and_later(bench: StreamBench) -> None:
    bench.stream.put(body(native(1)))
    bench.shelf.failures["accept"] = [LOST] * 12
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    delays = [delay for _, delay in bench.stream.released]
    assert delays[0] <= 0.2
    assert 2.5 <= delays[-1] <= 5


@on_virtual_time
async def test_an_outage_uses_up_no_deliveries(bench: StreamBench) -> None:
    """Twelve deliveries, five allowed: they say nothing against the messages."""
    for number in range(20):
        bench.stream.put(body(native(number)))
    bench.shelf.failures["accept"] = [LOST] * 30
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 20)
    assert bench.letters == []
    assert len(bench.shelf.rows) == 20


# --- the broker, and the end ----------------------------------------------------------------------


@on_virtual_time
async def test_a_broker_that_is_away_is_asked_again_and_told(bench: StreamBench) -> None:
    bench.stream.failures["receive"] = [GONE] * 8
    async with bench.running() as consumer:
        await until(lambda: len(bench.stream.receives) == 8)
        assert consumer.trouble == str(GONE)
        bench.stream.put(body(native(1)))
        await until(lambda: len(bench.stream.acked) == 1)
        assert consumer.trouble == ""
    waits = [b - a for a, b in pairwise(bench.stream.receives)][:8]
    assert waits[0] <= 0.2
    assert max(waits) <= 5


@on_virtual_time
async def test_a_fault_of_this_project_while_receiving_ends_the_consumer(
    bench: StreamBench,
) -> None:
    """The daemon ends with it, instead of serving on with a stream that nobody reads."""
    bench.stream.failures["receive"] = [KeyError("a bug")]
    with pytest.raises(KeyError, match="a bug"):
        await bench.consumer().run()


@on_virtual_time
async def test_a_release_that_fails_is_made_good_by_the_lease(bench: StreamBench) -> None:
    bench.stream.put(body(native(1)))
    bench.shelf.failures["accept"] = [LOST]
    bench.stream.failures["release"] = [GONE]
    async with bench.running():
        await until(lambda: len(bench.stream.acked) == 1)
    assert asyncio.get_running_loop().time() >= LEASE_S


@on_virtual_time
async def test_stop_ends_an_idle_consumer_soon(bench: StreamBench) -> None:
    async with bench.running():
        await passed(7)
    assert asyncio.get_running_loop().time() < 9


@on_virtual_time
async def test_stop_ends_a_wait_for_the_store(bench: StreamBench) -> None:
    bench.stream.put(body(native(1)))
    bench.shelf.failures["accept"] = [Overloaded("full", retry_after_s=600)]
    async with bench.running():
        await until(lambda: bool(bench.stream.released))
    assert asyncio.get_running_loop().time() < 10


@on_virtual_time
async def test_what_is_received_after_the_stop_is_released_at_once(bench: StreamBench) -> None:
    async with bench.running() as consumer:
        await passed(0.1)
        consumer.stop()
        bench.stream.put(body(native(1)))
    assert bench.stream.released == [("1-0", 0.0)]
    assert bench.shelf.rows == {}
