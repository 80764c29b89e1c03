from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from tests.unit.intake.payloads import RECEIVED_AT, read, refused, sample
from triage.intake.alertmanager import labels_fingerprint
from triage.intake.batch import MAX_ENTRIES
from triage.intake.fields import FieldMap
from triage.intake.instants import instant
from triage.intake.request import Rejected
from triage.model.alert import Arrival, ArrivalKind, Severity, occurrence_id

STARTED = "2026-11-29T19:27:01.10828Z"


@pytest.fixture
def group() -> Any:
    return sample("alertmanager-v4-firing-truncated")


def _id(arrival: Arrival) -> str:
    assert arrival.starts_at_ns is not None
    return occurrence_id(
        arrival.integration, arrival.tenant, arrival.fingerprint, arrival.starts_at_ns
    )


def test_the_sample_fires_three_times_and_tells_of_two_lost(group: Any) -> None:
    parsed = read("alertmanager", group)
    assert parsed.truncated == 2
    assert parsed.rejected == ()
    *alerts, event = parsed.arrivals
    assert [a.fingerprint for a in alerts] == [
        "b6ef5f70f42bc873",
        "a060c98156efe9ec",
        "96dbde6a10e25be5",
    ]
    first = alerts[0]
    assert first.kind is ArrivalKind.FIRING
    assert first.integration == "alertmanager"
    assert (first.alarm, first.site, first.entity) == ("RobotIdleHigh", "FC1", "")
    assert first.severity is Severity.CRITICAL
    assert first.starts_at_ns == instant(STARTED, "")
    assert first.fired_at.isoformat() == "2026-11-29T19:27:01.108280+00:00"
    assert first.observed_at is None
    assert first.labels["cell"] == "RC-00"
    assert first.annotations["runbook_url"].startswith("https://")
    assert orjson.loads(first.raw) == group["alerts"][0]
    assert (event.kind, event.event) == (ArrivalKind.EVENT, "truncated")
    assert orjson.loads(event.raw)["truncatedAlerts"] == 2
    assert orjson.loads(event.raw)["groupKey"] == group["groupKey"]
    assert event.fired_at == RECEIVED_AT


def test_each_alert_has_its_own_status() -> None:
    arrivals = read("alertmanager", sample("alertmanager-v4-mixed-resolved")).arrivals
    assert [a.kind for a in arrivals] == [
        ArrivalKind.RESOLVED,
        ArrivalKind.RESOLVED,
        ArrivalKind.FIRING,
        ArrivalKind.EVENT,
    ]
    assert arrivals[0].observed_at is not None
    assert arrivals[0].observed_at.isoformat() == "2026-11-29T19:27:06.111896+00:00"


def test_a_resolve_names_the_occurrence_that_fired(group: Any) -> None:
    fired = read("alertmanager", group).arrivals
    resolved = read("alertmanager", sample("alertmanager-v4-mixed-resolved")).arrivals
    assert _id(fired[0]) == _id(resolved[0])


def test_a_re_send_and_the_other_half_of_a_pair_are_the_same_alerts(group: Any) -> None:
    other = copy.deepcopy(group)
    other["externalURL"] = "http://other:9093"
    other["receiver"] = "elsewhere"
    for alert in other["alerts"]:
        alert["startsAt"] = "2026-11-29T21:27:01.108280000+02:00"
        alert["generatorURL"] = "http://other:9090/graph"
        alert["annotations"]["summary"] = "said differently"
    mine, theirs = (read("alertmanager", g).arrivals for g in (group, other))
    assert [_id(a) for a in mine[:3]] == [_id(a) for a in theirs[:3]]
    assert mine[3].delivery_key == theirs[3].delivery_key
    assert len({_id(a) for a in mine[:3]}) == 3


def test_another_start_integration_or_tenant_is_another_alert(group: Any) -> None:
    later = copy.deepcopy(group)
    later["alerts"][0]["startsAt"] = "2026-11-29T19:27:01.108280001Z"
    ids = {
        _id(parsed.arrivals[0])
        for parsed in (
            read("alertmanager", group),
            read("alertmanager", later),
            read("alertmanager", group, integration="east"),
            read("alertmanager", group, tenant="a"),
        )
    }
    assert len(ids) == 4


def test_a_truncation_is_told_once_for_each_count(group: Any) -> None:
    keys = set()
    for count in (2, 2, 3):
        group["truncatedAlerts"] = count
        keys.add(read("alertmanager", group).arrivals[-1].delivery_key)
    assert len(keys) == 2
    assert "" not in keys


@pytest.mark.parametrize("count", [0, None, -1, "2", True, [], 0.5])
def test_a_count_that_counts_nothing(group: Any, count: object) -> None:
    group["truncatedAlerts"] = count
    parsed = read("alertmanager", group)
    assert parsed.truncated == 0
    assert len(parsed.arrivals) == 3


def test_a_group_that_cannot_be_kept_is_still_truncated(group: Any) -> None:
    group["receiver"] = "x" * 300_000
    group["truncatedAlerts"] = 1e300
    parsed = read("alertmanager", group)
    assert parsed.truncated == 2**31 - 1
    assert orjson.loads(parsed.arrivals[-1].raw)["groupKey"] == group["groupKey"]


def test_a_missing_fingerprint_is_what_alertmanager_would_have_said(group: Any) -> None:
    alert = group["alerts"][0]
    assert labels_fingerprint(alert["labels"]) == alert["fingerprint"]
    del alert["fingerprint"]
    alert["labels"] = dict(reversed(alert["labels"].items()))
    assert read("alertmanager", group).arrivals[0].fingerprint == "b6ef5f70f42bc873"


def test_the_zero_end_is_no_end_and_no_start(group: Any) -> None:
    alert = group["alerts"][0]
    alert["status"] = "resolved"
    resolved = read("alertmanager", group).arrivals[0]
    assert resolved.kind is ArrivalKind.RESOLVED
    assert resolved.observed_at is None
    alert["startsAt"] = "0001-01-01T00:00:00Z"
    assert read("alertmanager", group).rejected[0].field == "alerts[0].startsAt"


def test_bad_entries_are_kept_and_told_while_good_ones_arrive(group: Any) -> None:
    group["truncatedAlerts"] = 0
    del group["alerts"][0]["startsAt"]
    group["alerts"][2] = "not an alert"
    parsed = read("alertmanager", group)
    assert [(a.kind, a.event) for a in parsed.arrivals] == [
        (ArrivalKind.EVENT, "rejected"),
        (ArrivalKind.FIRING, ""),
        (ArrivalKind.EVENT, "rejected"),
    ]
    assert [(r.index, r.field) for r in parsed.rejected] == [
        (0, "alerts[0].startsAt"),
        (2, "alerts[2]"),
    ]
    assert isinstance(parsed.rejected[0], Rejected)
    assert orjson.loads(parsed.arrivals[0].raw) == group["alerts"][0]
    assert parsed.arrivals[0].annotations["field"] == "alerts[0].startsAt"
    assert orjson.loads(parsed.arrivals[2].raw) == "not an alert"
    assert parsed.arrivals[0].delivery_key == read("alertmanager", group).arrivals[0].delivery_key


def test_a_rejected_entry_too_large_to_keep_keeps_its_head(group: Any) -> None:
    group["alerts"][0]["generatorURL"] = "x" * 300_000
    parsed = read("alertmanager", group)
    assert parsed.rejected[0].field == "alerts[0]"
    kept = orjson.loads(parsed.arrivals[0].raw)
    assert kept["head"].startswith('{"status":"firing"')


def test_a_rejected_entry_too_deep_to_keep_says_so(group: Any) -> None:
    body = orjson.dumps(group).replace(b'"b6ef5f70f42bc873"', b"[" * 400 + b"]" * 400)
    parsed = read("alertmanager", body)
    assert parsed.rejected[0].field == "alerts[0].fingerprint"
    assert "nested too deeply" in orjson.loads(parsed.arrivals[0].raw)["unkept"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"startsAt": "2026-11-29T19:27:01"}, "alerts[0].startsAt"),
        ({"startsAt": None}, "alerts[0].startsAt"),
        ({"status": "suppressed"}, "alerts[0].status"),
        ({"status": None}, "alerts[0].status"),
        ({"labels": {}}, "alerts[0].labels.alertname"),
        ({"labels": []}, "alerts[0].labels"),
        ({"labels": {"alertname": "x" * 257}}, "alerts[0].labels.alertname"),
        ({"labels": {"alertname": "A", "b": "x" * 4097}}, "alerts[0].labels.b"),
        ({"labels": {"alertname": "A", "b": "\0"}}, "alerts[0].labels.b"),
        ({"labels": {str(n): "x" for n in range(129)}}, "alerts[0].labels"),
        ({"annotations": "none"}, "alerts[0].annotations"),
        ({"fingerprint": 1.5}, "alerts[0].fingerprint"),
        ({"fingerprint": "\0"}, "alerts[0].fingerprint"),
    ],
)
def test_a_payload_of_bad_alerts_only_is_refused_by_index_and_field(
    group: Any, change: dict[str, Any], field: str
) -> None:
    group["alerts"] = [group["alerts"][0] | change] * 2
    assert refused("alertmanager", group).field == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"   ", "body"),
        (b"not json", "body"),
        (b'{"alerts": [', "body"),
        (b"\xff\xfe", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"[" * 100_000, "body"),
        (b'{"a":' * 100_000, "body"),
        (b"{}", "alerts"),
        (b'{"alerts": {}}', "alerts"),
        (b'{"alerts": []}', "alerts"),
        (b'{"alerts": [' + b"{}," * MAX_ENTRIES + b"{}]}", "alerts"),
        (b'{"alerts": ["\\ud800"]}', "body"),
    ],
)
def test_what_is_no_group_is_refused(body: bytes, field: str) -> None:
    assert refused("alertmanager", body).field == field


def test_labels_become_text(group: Any) -> None:
    group["alerts"][0]["labels"] |= {
        "n": 3,
        "f": 0.25,
        "yes": True,
        "nothing": None,
        "nested": {"a": [1, "é"]},
        "k8s.io/name": "db",
    }
    labels = read("alertmanager", group).arrivals[0].labels
    assert (labels["n"], labels["f"], labels["yes"]) == ("3", "0.25", "true")
    assert "nothing" not in labels
    assert labels["nested"] == '{"a":[1,"é"]}'
    assert labels["k8s.io/name"] == "db"


def test_unknown_keys_are_tolerated_and_kept(group: Any) -> None:
    group["new"] = {"a": 1}
    group["alerts"][0]["new\0"] = {"deep": [1]}
    parsed = read("alertmanager", group)
    assert not parsed.rejected
    assert orjson.loads(parsed.arrivals[0].raw)["new\0"] == {"deep": [1]}


def test_an_unknown_format_is_refused(group: Any) -> None:
    assert refused("nagios", group, field_map=FieldMap()).field == "format"
