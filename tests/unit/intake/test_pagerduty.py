from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.intake.payloads import RECEIVED_AT, read, refused, sample
from triage.model.alert import ArrivalKind, Severity


@pytest.fixture
def trigger() -> Any:
    return sample("pagerduty-events-v2-trigger")


def test_the_trigger_sample(trigger: Any) -> None:
    parsed = read("pagerduty", trigger)
    (arrival,) = parsed.arrivals
    assert arrival.kind is ArrivalKind.FIRING
    assert arrival.fingerprint == "samplekeyhere"
    assert arrival.starts_at_ns is None
    assert arrival.alarm == "deploy"
    assert arrival.site == "prod-datapipe"
    assert arrival.entity.startswith("monitoringtool:")
    assert arrival.severity is Severity.INFO
    assert arrival.fired_at == arrival.observed_at
    assert arrival.fired_at.isoformat() == "2015-07-17T08:42:58.315000+00:00"
    assert arrival.labels["ping time"] == "1500ms"
    assert arrival.labels["load avg"] == "0.75"
    assert arrival.labels["component"] == "postgres"
    assert arrival.annotations["summary"] == "Example alert on host1.example.com"
    assert parsed.reply == {
        "status": "success",
        "message": "Event processed",
        "dedup_key": "samplekeyhere",
    }


def test_the_resolve_sample() -> None:
    (arrival,) = read("pagerduty", sample("pagerduty-events-v2-resolve")).arrivals
    assert arrival.kind is ArrivalKind.RESOLVED
    assert arrival.fingerprint == "dedupkeyhere"
    assert arrival.starts_at_ns is None
    assert arrival.observed_at is None
    assert arrival.delivery_key == ""
    assert arrival.fired_at == RECEIVED_AT
    assert arrival.alarm == ""


def test_an_acknowledge_is_an_event() -> None:
    event = sample("pagerduty-events-v2-resolve") | {"event_action": "acknowledge"}
    (arrival,) = read("pagerduty", event).arrivals
    assert (arrival.kind, arrival.event) == (ArrivalKind.EVENT, "acknowledge")
    assert arrival.ends_open_occurrences is False


def test_the_routing_key_is_never_kept(trigger: Any) -> None:
    trigger |= {"routing_key": "R0UT1NGS3CR3T", "service_key": "0LDS3CR3T"}
    (arrival,) = read("pagerduty", trigger).arrivals
    assert "S3CR3T" not in repr(arrival)
    assert json.loads(arrival.raw)["routing_key"] == "***"
    trigger["payload"] = None
    assert "S3CR3T" not in str(refused("pagerduty", trigger))


def test_a_re_send_with_a_timestamp_has_a_delivery_key(trigger: Any) -> None:
    keys = {read("pagerduty", trigger).arrivals[0].delivery_key for _ in range(2)}
    assert len(keys) == 1
    assert "" not in keys
    assert read("pagerduty", trigger, tenant="t").arrivals[0].delivery_key not in keys
    assert read("pagerduty", trigger, integration="i").arrivals[0].delivery_key not in keys
    trigger["payload"]["timestamp"] = "2015-07-17T08:42:59.315+0000"
    assert read("pagerduty", trigger).arrivals[0].delivery_key not in keys
    del trigger["payload"]["timestamp"]
    assert read("pagerduty", trigger).arrivals[0].delivery_key == ""


def test_a_trigger_without_a_key_is_given_one(trigger: Any) -> None:
    trigger["dedup_key"] = ""
    first, again = (read("pagerduty", trigger) for _ in range(2))
    assert first.reply["dedup_key"] == again.reply["dedup_key"] != ""
    assert first.arrivals[0].fingerprint == first.reply["dedup_key"]
    del trigger["payload"]["timestamp"], trigger["dedup_key"]
    names = iter(["one", "two"])
    made = [read("pagerduty", trigger, new_id=lambda: next(names)) for _ in range(2)]
    assert [parsed.reply["dedup_key"] for parsed in made] == ["one", "two"]
    assert [parsed.arrivals[0].fingerprint for parsed in made] == ["one", "two"]
    assert (
        read("pagerduty", trigger).reply["dedup_key"]
        != (read("pagerduty", trigger).reply["dedup_key"])
    )


@pytest.mark.parametrize("action", ["resolve", "acknowledge"])
def test_nothing_else_is_given_one(action: str) -> None:
    assert refused("pagerduty", {"event_action": action}).field == "dedup_key"


def test_the_summary_names_the_alarm_where_nothing_else_does(trigger: Any) -> None:
    payload = trigger["payload"]
    del payload["class"]
    payload["summary"] = "s" * 1024
    (arrival,) = read("pagerduty", trigger).arrivals
    assert arrival.alarm == "s" * 256
    assert arrival.annotations["summary"] == "s" * 1024
    payload["custom_details"] = {"alertname": "Slow"}
    assert read("pagerduty", trigger).arrivals[0].alarm == "Slow"


@pytest.mark.parametrize("details", ["free text", ["a"], None, 3])
def test_details_of_any_shape_are_tolerated(trigger: Any, details: object) -> None:
    trigger["payload"]["custom_details"] = details
    labels = read("pagerduty", trigger).arrivals[0].labels
    assert set(labels) == {"source", "component", "group", "class"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"event_action": None}, "event_action"),
        ({"event_action": "change"}, "event_action"),
        ({"event_action": ["trigger"]}, "event_action"),
        ({"payload": None}, "payload"),
        ({"payload": "text"}, "payload"),
        ({"payload": {}}, "payload.custom_details.alertname"),
        ({"payload": {"class": "c", "timestamp": "2015-07-17T08:42:58"}}, "payload.timestamp"),
        ({"payload": {"class": "c", "custom_details": {"a": "\0"}}}, "payload.custom_details.a"),
        ({"dedup_key": {}}, "dedup_key"),
        ({"dedup_key": 12345678901234567890123}, "dedup_key"),
        ({"client": "x" * 17_000}, "client"),
        ({"images": "x" * 300_000}, "body"),
    ],
)
def test_refusals_name_the_field(trigger: Any, change: dict[str, Any], field: str) -> None:
    assert refused("pagerduty", trigger | change).field == field
