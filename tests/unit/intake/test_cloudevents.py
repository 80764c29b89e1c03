from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.unit.intake.payloads import RECEIVED_AT, read, refused, sample
from triage.model.alert import Arrival, ArrivalKind, Severity

if TYPE_CHECKING:
    from triage.intake.request import Parsed

STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"content-type": "application/cloudevents-batch+json"}


@pytest.fixture
def event() -> Any:
    return sample("cloudevents-1.0-structured")


def _binary(event: dict[str, Any], **changes: str) -> dict[str, str]:
    headers = {
        f"ce-{name}": value
        for name, value in event.items()
        if name not in {"data", "datacontenttype"}
    }
    return headers | {"content-type": "application/json; charset=utf-8"} | changes


def _identity(arrival: Arrival) -> tuple[str, int | None]:
    return arrival.fingerprint, arrival.starts_at_ns


def test_the_sample(event: Any) -> None:
    (arrival,) = read("cloudevents", event, headers=STRUCTURED).arrivals
    assert arrival.kind is ArrivalKind.FIRING
    assert (arrival.alarm, arrival.site, arrival.entity) == ("RobotIdleHigh", "FC1", "")
    assert arrival.severity is Severity.CRITICAL
    assert arrival.fired_at.isoformat() == "2026-06-01T12:31:00+00:00"
    assert arrival.observed_at == arrival.fired_at
    assert arrival.labels == {
        "source": "/sites/FC1/dock/cells/RC-07",
        "type": "com.example.alert.fired",
        "subject": "RobotIdleHigh",
        "alertname": "RobotIdleHigh",
        "site": "FC1",
        "cell": "RC-07",
        "severity": "critical",
    }
    assert orjson.loads(arrival.raw) == event


def test_identity_is_source_and_id_alone(event: Any) -> None:
    first = _identity(read("cloudevents", event).arrivals[0])
    moved = event | {"time": "2027-01-01T00:00:00Z", "type": "other"}
    timeless = {key: value for key, value in event.items() if key != "time"}
    assert _identity(read("cloudevents", moved).arrivals[0]) == first
    assert _identity(read("cloudevents", timeless).arrivals[0]) == first
    assert read("cloudevents", timeless).arrivals[0].fired_at == RECEIVED_AT
    for change in ({"id": "B"}, {"source": "/b"}, {"source": "/a", "id": "b/"}):
        assert _identity(read("cloudevents", event | change).arrivals[0]) != first
    joined = [
        read("cloudevents", event | {"source": source, "id": event_id}).arrivals[0].fingerprint
        for source, event_id in (("a", "bc"), ("ab", "c"))
    ]
    assert joined[0] != joined[1]


def test_binary_mode_is_the_same_alert(event: Any) -> None:
    (structured,) = read("cloudevents", event, headers=STRUCTURED).arrivals
    (binary,) = read("cloudevents", event["data"], headers=_binary(event)).arrivals
    assert _identity(binary) == _identity(structured)
    assert binary.labels == structured.labels
    assert (binary.alarm, binary.fired_at) == (structured.alarm, structured.fired_at)
    assert json.loads(binary.raw) == event


def test_header_values_are_decoded_once(event: Any) -> None:
    headers = _binary(
        event, **{"ce-subject": "Euro%20%E2%82%AC%2520", "ce-zone": '"a \\"b\\""', "ce-type": "t"}
    )
    (arrival,) = read("cloudevents", {"x": 1}, headers=headers).arrivals
    assert arrival.alarm == "Euro €%20"
    assert arrival.labels["zone"] == 'a "b"'


@pytest.mark.parametrize("value", ["%ff", "%ED%A0%80"])
def test_headers_that_are_not_utf8_are_refused(event: Any, value: str) -> None:
    headers = _binary(event, **{"ce-subject": value})
    assert refused("cloudevents", event["data"], headers=headers).field == "ce-subject"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"", "application/json"), (b"plain words", "text/plain"), (b"\xff\x00", "image/png")],
)
def test_binary_data_need_not_be_json(event: Any, body: bytes, content_type: str) -> None:
    headers = _binary(event, **{"content-type": content_type})
    (arrival,) = read("cloudevents", body, headers=headers).arrivals
    assert arrival.alarm == "RobotIdleHigh"
    kept = json.loads(arrival.raw)
    encoded = kept.get("data_base64")
    assert (base64.b64decode(encoded) if encoded else kept.get("data", "").encode()) == body


def test_a_batch(event: Any) -> None:
    bad = {key: value for key, value in event.items() if key != "id"}
    parsed = read("cloudevents", [event, bad, event | {"id": "C"}], headers=BATCH)
    assert [a.kind for a in parsed.arrivals] == [
        ArrivalKind.FIRING,
        ArrivalKind.EVENT,
        ArrivalKind.FIRING,
    ]
    assert [(r.index, r.field) for r in parsed.rejected] == [(1, "[1].id")]
    assert refused("cloudevents", [bad, bad], headers=BATCH).field == "[0].id"
    assert refused("cloudevents", [], headers=BATCH).field == "body"
    assert refused("cloudevents", event, headers=BATCH).field == "body"


def test_an_array_is_a_batch_whatever_its_content_type(event: Any) -> None:
    assert len(read("cloudevents", [event, event]).arrivals) == 2


def test_base64_data(event: Any) -> None:
    data = base64.b64encode(json.dumps(event.pop("data")).encode()).decode()
    (arrival,) = read("cloudevents", event | {"data_base64": data}).arrivals
    assert arrival.site == "FC1"
    assert arrival.labels["cell"] == "RC-07"


def _resolving(parsed: Parsed, fired: Parsed) -> bool:
    (end,), (start,) = parsed.arrivals, fired.arrivals
    return end.kind is ArrivalKind.RESOLVED and _identity(end) == _identity(start)


def test_a_resolve_names_what_it_ends(event: Any) -> None:
    fired = read("cloudevents", event)
    data = event["data"] | {"status": "Resolved", "resolves": event["id"]}
    assert _resolving(read("cloudevents", event | {"id": "later", "data": data}), fired)
    data = {"alertname": "x", "resolves": event["id"]}
    ended = event | {"id": "later", "type": "com.example.alert.RESOLVED", "data": data}
    assert _resolving(read("cloudevents", ended), fired)
    assert not _resolving(read("cloudevents", ended | {"source": "/elsewhere"}), fired)


def test_a_resolve_that_names_nothing_ends_its_own_id(event: Any) -> None:
    fired = read("cloudevents", event)
    assert _resolving(read("cloudevents", event | {"type": "x.resolved"}), fired)
    status = {"status": "resolved"}
    assert _resolving(read("cloudevents", event | {"data": status}), fired)


def test_labels_of_data_go_before_plain_values_and_extensions(event: Any) -> None:
    event |= {"zone": "extension", "weight": 3, "data": {"zone": "plain", "nested": {"a": 1}}}
    labels = read("cloudevents", event).arrivals[0].labels
    assert (labels["zone"], labels["weight"]) == ("plain", "3")
    assert "nested" not in labels
    event["data"]["labels"] = {"zone": "label", "nested": {"a": 1}}
    labels = read("cloudevents", event).arrivals[0].labels
    assert (labels["zone"], labels["nested"]) == ("label", '{"a":1}')


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"specversion": None}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"source": None}, "source"),
        ({"type": None}, "type"),
        ({"time": "2026-06-01T12:31:00"}, "time"),
        ({"data_base64": "e30="}, "data_base64"),
        ({"data": None, "data_base64": "%%%"}, "data_base64"),
        ({"data": None, "data_base64": 3}, "data_base64"),
        ({"data": None, "data_base64": "bm90IGpzb24="}, "data"),
        ({"data": {"a": "\0"}}, "data.a"),
        ({"data": {"status": "resolved", "resolves": 3}}, "data.resolves"),
        ({"ext": "x" * 5000}, "ext"),
        ({"source": "x" * 3000}, "source"),
        ({"data": {str(n): n for n in range(200)}}, "data"),
    ],
)
def test_refusals_name_the_field(event: Any, change: dict[str, Any], field: str) -> None:
    assert refused("cloudevents", event | change).field == field


@pytest.mark.parametrize("name", ["ce-specversion", "ce-id", "ce-source", "ce-type"])
def test_refusals_in_binary_mode_name_the_header(event: Any, name: str) -> None:
    headers = _binary(event)
    del headers[name]
    assert refused("cloudevents", event["data"], headers=headers).field == name


def test_an_attribute_without_a_name_is_still_named(event: Any) -> None:
    assert refused("cloudevents", event | {"": "\0"}).field == '""'
