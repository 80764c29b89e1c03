from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.errors import PayloadError
from triage.intake.instants import instant, moment, optional_instant

NOON_NS = 1_780_315_200_000_000_000  # 2026-06-01T12:00:00Z


@pytest.mark.parametrize(
    "text",
    [
        "2026-06-01T12:00:00Z",
        "2026-06-01t12:00:00z",
        "2026-06-01 12:00:00Z",
        "2026-06-01T12:00:00.000000000Z",
        "2026-06-01T12:00:00+00:00",
        "2026-06-01T12:00:00-00:00",
        "2026-06-01T12:00:00+0000",
        "2026-06-01T14:00:00+02:00",
        "2026-06-01T05:30:00-0630",
        "2026-06-02T02:00:00.0+14:00",
    ],
)
def test_one_instant_in_any_form(text: str) -> None:
    assert instant(text, "t") == NOON_NS
    assert moment(instant(text, "t")) == datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_nanoseconds_count_in_identity_and_are_cut_from_the_datetime() -> None:
    ns = instant("2026-06-01T12:00:00.123456789Z", "t")
    assert ns == NOON_NS + 123_456_789
    assert moment(ns).microsecond == 123_456
    assert instant("2026-06-01T12:00:00.5Z", "t") == NOON_NS + 500_000_000


def test_a_leap_second_is_the_second_after() -> None:
    assert instant("2016-12-31T23:59:60Z", "t") == instant("2017-01-01T00:00:00Z", "t")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        1_780_315_200,
        True,
        "now",
        "2026-06-01T12:00:00",
        "2026-06-01",
        "2026-06-01T12:00:00Z\n",
        " 2026-06-01T12:00:00Z",
        "2026-06-01T12:00:00.Z",
        "2026-06-01T12:00:00.1234567890Z",
        "2026-06-01T12:00:00+24:00",
        "2026-06-01T12:00:00+01:60",
        "2026-06-01T24:00:00Z",
        "2026-06-01T12:00:61Z",
        "2026-02-29T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "1969-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00+00:01",
        "2201-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999-23:59",
        "٢٠٢٦-06-01T12:00:00Z",
    ],
)
def test_what_names_no_instant_is_refused_by_field(value: object) -> None:
    with pytest.raises(PayloadError) as caught:
        instant(value, "alerts[0].startsAt")
    assert caught.value.field == "alerts[0].startsAt"


def test_a_missing_offset_is_named() -> None:
    with pytest.raises(PayloadError, match="no offset"):
        instant("2026-06-01T12:00:00", "t")


@pytest.mark.parametrize("value", [None, "", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"])
def test_no_time_at_all(value: object) -> None:
    assert optional_instant(value, "t") is None


def test_an_optional_time_is_still_checked() -> None:
    assert optional_instant("2026-06-01T12:00:00Z", "t") == NOON_NS
    with pytest.raises(PayloadError):
        optional_instant("0002-01-01T00:00:00Z", "t")


def test_the_bounds_belong() -> None:
    assert instant("1970-01-01T00:00:00Z", "t") == 0
    assert moment(instant("2200-12-31T23:59:59.999999999Z", "t")).year == 2200


@given(
    st.datetimes(min_value=datetime(1970, 1, 3), max_value=datetime(2200, 12, 29)),  # noqa: DTZ001  hypothesis wants them naive
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_every_offset_form_of_a_datetime_reads_back(naive: datetime, minutes: int) -> None:
    utc = naive.replace(tzinfo=UTC)
    elsewhere = utc.astimezone(timezone(timedelta(minutes=minutes)))
    assert moment(instant(elsewhere.isoformat(), "t")) == utc
    assert instant(elsewhere.isoformat(), "t") == instant(utc.isoformat(), "t")
    assert instant(elsewhere.strftime("%Y-%m-%dT%H:%M:%S.%f%z"), "t") == instant(
        utc.isoformat(), "t"
    )
