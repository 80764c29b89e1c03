from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.unit.intake.payloads import read, refused
from triage.intake.fields import FieldMap
from triage.model.alert import Arrival, ArrivalKind, Severity

ALERT: dict[str, Any] = {
    "alarm": "DiskFilling",
    "fired_at": "2026-06-01T12:31:00.5Z",
    "site": "east",
    "entity": "db-1",
    "severity": "high",
    "labels": {"mountpoint": "/var", "usage": 0.97},
    "annotations": {"summary": "filling"},
    "extra": {"kept": True},
}


def _one(document: Any, **parts: Any) -> Arrival:
    (arrival,) = read("native", document, **parts).arrivals
    return arrival


def test_one_alert() -> None:
    arrival = _one(ALERT)
    assert arrival.kind is ArrivalKind.FIRING
    assert (arrival.alarm, arrival.site, arrival.entity) == ("DiskFilling", "east", "db-1")
    assert arrival.severity is Severity.ERROR
    assert arrival.fired_at.isoformat() == "2026-06-01T12:31:00.500000+00:00"
    assert arrival.starts_at_ns == 1_780_317_060_500_000_000
    assert arrival.labels == {"mountpoint": "/var", "usage": "0.97"}
    assert orjson.loads(arrival.raw) == ALERT


def test_alarm_and_time_are_enough() -> None:
    arrival = _one({"alarm": "A", "fired_at": "2026-06-01T12:31:00Z"})
    assert (arrival.site, arrival.entity, arrival.severity) == ("", "", Severity.UNKNOWN)
    assert arrival.fingerprint


def test_without_an_id_the_alert_is_what_it_says() -> None:
    first = _one(ALERT).fingerprint
    reordered = dict(reversed(ALERT.items())) | {
        "labels": dict(reversed(ALERT["labels"].items())),
        "severity": "low",
        "annotations": {},
        "extra": 2,
    }
    assert _one(reordered).fingerprint == first
    changes: list[dict[str, Any]] = [{"alarm": "B"}, {"site": "w"}, {"entity": "e"}, {"labels": {}}]
    for change in changes:
        assert _one(ALERT | change).fingerprint != first


def test_an_id_goes_before_a_fingerprint() -> None:
    assert _one(ALERT | {"id": "4711", "fingerprint": "f"}).fingerprint == "4711"
    assert _one(ALERT | {"id": 4711}).fingerprint == "4711"
    assert _one(ALERT | {"fingerprint": "f"}).fingerprint == "f"


def test_an_id_that_lost_digits_is_refused() -> None:
    assert refused("native", ALERT | {"id": 2**64 + 1}).field == "id"


def test_a_resolve_repeats_what_it_ends() -> None:
    resolved = _one(ALERT | {"status": "Resolved", "resolved_at": "2026-06-01T14:40:00+02:00"})
    assert resolved.kind is ArrivalKind.RESOLVED
    assert (resolved.fingerprint, resolved.starts_at_ns) == (
        _one(ALERT).fingerprint,
        _one(ALERT).starts_at_ns,
    )
    assert resolved.observed_at is not None
    assert resolved.observed_at.isoformat() == "2026-06-01T12:40:00+00:00"


def test_an_array_keeps_its_order_and_its_bad_entries() -> None:
    parsed = read("native", [ALERT, {"alarm": "A"}, 7, ALERT | {"id": "z"}])
    assert [a.event for a in parsed.arrivals] == ["", "rejected", "rejected", ""]
    assert [(r.index, r.field) for r in parsed.rejected] == [(1, "[1].fired_at"), (2, "[2]")]
    assert refused("native", [{"alarm": "A"}, 7]).field == "[0].fired_at"


def test_a_field_map_of_ones_own() -> None:
    field_map = FieldMap(
        alarm=("check.name", "alarm"),
        site=("where.0",),
        default_site="home",
        severities={"purple": "critical"},
        severity=("colour",),
    )
    document = {"check": {"name": "Ping"}, "colour": "Purple", "fired_at": ALERT["fired_at"]}
    arrival = _one(document, field_map=field_map)
    assert (arrival.alarm, arrival.site, arrival.severity) == ("Ping", "home", Severity.CRITICAL)
    assert _one(document | {"where": ["west"]}, field_map=field_map).site == "west"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "body"),
        ("text", "body"),
        (3, "body"),
        ({}, "alarm"),
        ({"alarm": ""}, "alarm"),
        ({"alarm": []}, "alarm"),
        ({"alarm": "A"}, "fired_at"),
        (ALERT | {"fired_at": "2026-06-01T12:31:00"}, "fired_at"),
        (ALERT | {"fired_at": 1780317060}, "fired_at"),
        (ALERT | {"alarm": "x" * 257}, "alarm"),
        (ALERT | {"site": "x" * 257}, "site"),
        (ALERT | {"entity": "a\0"}, "entity"),
        (ALERT | {"status": "open"}, "status"),
        (ALERT | {"status": 1}, "status"),
        (ALERT | {"labels": {"x" * 257: "v"}}, "labels." + "x" * 64 + "…"),
        (ALERT | {"labels": {"a\nb": "\0"}}, "labels.a�b"),
        (ALERT | {"labels": "text"}, "labels"),
        (ALERT | {"resolved_at": "soon"}, "resolved_at"),
        (ALERT | {"extra": "x" * 262_144}, "body"),
    ],
)
def test_refusals_name_the_field(document: Any, field: str) -> None:
    error = refused("native", document)
    assert error.field == field
    assert error.problem


def test_nesting_that_cannot_be_written_again_is_refused() -> None:
    body = orjson.dumps(ALERT | {"extra": 0}).replace(
        b'"extra":0', b'"extra":' + b"[" * 300 + b"]" * 300
    )
    assert refused("native", body).problem.startswith("is nested too deeply")


@pytest.mark.parametrize("name", ["integration", "tenant"])
@pytest.mark.parametrize("value", ["a\0b", "half \ud800", "x" * 257])
def test_a_sender_name_that_cannot_be_kept_is_refused(name: str, value: str) -> None:
    assert refused("native", ALERT, **{name: value}).field == name
