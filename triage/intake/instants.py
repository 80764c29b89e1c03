"""Timestamps of payloads: RFC 3339 text to integer nanoseconds since the epoch.

Nanoseconds, because Alertmanager and Grafana send them and identity must not round; an integer,
because the same instant written with another offset must be the same occurrence.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from triage.errors import PayloadError

NS_PER_S = 1_000_000_000
FIRST_YEAR = 1970
LAST_YEAR = 2200  # in nanoseconds still below 2**63, the widest integer of every store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_END_NS = (datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND * NS_PER_S
_ZERO_NS = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND * NS_PER_S
"""Go's zero time, `0001-01-01T00:00:00Z`: the sender has no such time."""

_PATTERN = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?"
    r"(?:([Zz])|([+-])([01]\d|2[0-3]):?([0-5]\d))?",
    re.ASCII,
)
_EXAMPLE = "send RFC 3339 with an offset, like 2026-06-01T12:31:00Z"
_LEAP_SECOND = 60


def instant(value: object, field: str) -> int:
    """Nanoseconds since the epoch of `2026-06-01T12:31:00.123456789+02:00` and its other forms
    (`Z`, `+0000`). Raises PayloadError naming `field`, also for a time without an offset and for
    years outside 1970..2200."""
    ns = _nanoseconds(value, field)
    if ns == _ZERO_NS:
        raise PayloadError(field, f"the year 1 stands for no time at all: {_EXAMPLE}")
    return _within_bounds(ns, field)


def optional_instant(value: object, field: str) -> int | None:
    """As `instant`, but None where there is none: absent, null, empty, or Go's zero time."""
    if value is None or value == "":
        return None
    ns = _nanoseconds(value, field)
    return None if ns == _ZERO_NS else _within_bounds(ns, field)


def moment(ns: int) -> datetime:
    """Aware UTC, truncated to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1_000)


def _nanoseconds(value: object, field: str) -> int:
    if value is None:
        raise PayloadError(field, f"is missing: {_EXAMPLE}")
    if not isinstance(value, str):
        raise PayloadError(field, f"is not a timestamp: {_EXAMPLE}")
    match = _PATTERN.fullmatch(value)
    if match is None:
        raise PayloadError(field, f"is not a timestamp: {_EXAMPLE}")
    *date_and_time, fraction, zulu, sign, offset_h, offset_m = match.groups()
    if zulu is None and sign is None:
        raise PayloadError(field, f"has no offset, so it names no instant: {_EXAMPLE}")
    year, month, day, hour, minute, second = map(int, date_and_time)
    leap = second == _LEAP_SECOND
    try:
        local = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC)
    except ValueError as error:
        raise PayloadError(field, f"is no date and time of the calendar: {_EXAMPLE}") from error
    # Integers from here on: subtracting an offset from a datetime of year 1 or 9999 overflows.
    seconds = (local - _EPOCH) // _SECOND + leap
    if sign is not None:
        offset_s = int(offset_h) * 3600 + int(offset_m) * 60
        seconds -= offset_s if sign == "+" else -offset_s
    return seconds * NS_PER_S + int((fraction or "0").ljust(9, "0"))


def _within_bounds(ns: int, field: str) -> int:
    if not 0 <= ns < _END_NS:
        raise PayloadError(
            field, f"lies outside the years {FIRST_YEAR} to {LAST_YEAR}: check the sender's clock"
        )
    return ns
