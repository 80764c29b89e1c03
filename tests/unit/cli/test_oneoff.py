"""Payloads read for a run that stores nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from triage.app.oneoff import OwnLane, Payload, read_payload
from triage.app.sections import IntakeSection
from triage.cli.run import Format
from triage.errors import PayloadError
from triage.intake.formats import PARSERS
from triage.model.alert import occurrence_id

NOW = datetime(2026, 6, 1, 13, 0, tzinfo=UTC)
FIRED = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
ALERT = {"alarm": "DiskFilling", "fired_at": "2026-06-01T12:31:00Z", "entity": "db-1", "id": "4711"}


def read(*alerts: dict[str, str], at: datetime | None = None, site: str = "") -> Payload:
    body = orjson.dumps(list(alerts))
    intake = IntakeSection(default_site=site)
    return read_payload(intake, format="native", body=body, now=NOW, at=at)


def test_every_format_can_be_named() -> None:
    assert [each.value for each in sorted(Format)] == sorted(PARSERS)


def test_an_alert_has_the_id_that_a_store_would_give_it() -> None:
    (alert,) = read(ALERT, site="home").alerts
    fired_ns = int(FIRED.timestamp()) * 10**9
    assert alert.alert_id == occurrence_id("native", "", "4711", fired_ns)
    assert (alert.fired_at, alert.accepted_at, alert.site) == (FIRED, NOW, "home")
    assert alert.resolved_at is None


def test_another_time_changes_the_time_and_not_the_identity() -> None:
    (alert,) = read(ALERT, at=NOW).alerts
    assert alert.fired_at == NOW
    assert alert.alert_id == read(ALERT).alerts[0].alert_id


def test_a_resolve_is_decided_as_one() -> None:
    (alert,) = read({**ALERT, "status": "resolved", "resolved_at": "2026-06-01T12:40:00Z"}).alerts
    assert alert.resolved_at == datetime(2026, 6, 1, 12, 40, tzinfo=UTC)
    assert alert.unmatched_resolve


def test_bad_entries_are_told_and_the_good_ones_are_kept() -> None:
    payload = read(ALERT, {"alarm": "NoTime"})
    assert [alert.alarm for alert in payload.alerts] == ["DiskFilling"]
    assert [rejected.index for rejected in payload.rejected] == [1]
    assert payload.events == ()


def test_nothing_that_can_be_an_alert() -> None:
    with pytest.raises(PayloadError):
        read({"alarm": "NoTime"})


def test_an_acknowledge_is_an_event() -> None:
    body = orjson.dumps({"routing_key": "k", "dedup_key": "d", "event_action": "acknowledge"})
    payload = read_payload(IntakeSection(), format="pagerduty", body=body, now=NOW)
    assert payload.alerts == ()
    assert [event.event for event in payload.events] == ["acknowledge"]


async def test_the_lane_is_ones_own() -> None:
    assert await OwnLane().enter_slow()
