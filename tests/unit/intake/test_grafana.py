from __future__ import annotations

import orjson
import pytest

from tests.unit.intake.payloads import read, refused, sample
from triage.model.alert import ArrivalKind


def test_the_sample() -> None:
    group = sample("grafana-webhook-v1")
    parsed = read("grafana", group)
    assert parsed.truncated == 0
    first, second = parsed.arrivals
    assert first.kind is second.kind is ArrivalKind.FIRING
    assert first.alarm == "High memory usage"
    assert first.tenant == "1"
    assert first.fingerprint == "c6eadffa33fcdf37"
    assert first.fired_at.isoformat() == "2021-10-12T07:51:03.157076+00:00"
    assert orjson.loads(first.raw)["values"] == group["alerts"][0]["values"]
    assert "values" not in first.annotations


def test_the_same_instant_in_utc_is_the_same_occurrence() -> None:
    group = sample("grafana-webhook-v1")
    before = read("grafana", group).arrivals[0].starts_at_ns
    group["alerts"][0]["startsAt"] = "2021-10-12T07:51:03.157076000Z"
    assert read("grafana", group).arrivals[0].starts_at_ns == before


@pytest.mark.parametrize(
    ("organisation", "tenant", "expected"),
    [(7, "", "7"), ("7", "", "7"), (7, "acme", "acme/7"), (None, "acme", "acme"), (None, "", "")],
)
def test_the_organisation_is_the_tenant(organisation: object, tenant: str, expected: str) -> None:
    group = sample("grafana-webhook-v1") | {"orgId": organisation}
    assert {a.tenant for a in read("grafana", group, tenant=tenant).arrivals} == {expected}


@pytest.mark.parametrize("organisation", [1.5, [], True])
def test_a_strange_organisation_is_refused(organisation: object) -> None:
    assert refused("grafana", sample("grafana-webhook-v1") | {"orgId": organisation}).field == (
        "orgId"
    )
