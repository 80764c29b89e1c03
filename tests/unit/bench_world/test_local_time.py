"""Wall-clock text and fold say exactly one instant, when clocks change too."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.world.local_time import local_text, utc_text, wall

CHANGES = (
    ("America/New_York", "2026-11-01T06:00:00+00:00"),
    ("Europe/Berlin", "2026-10-25T01:00:00+00:00"),
    ("Australia/Sydney", "2026-10-03T16:00:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00+00:00"),
    ("Asia/Kolkata", "2026-10-01T00:00:00+00:00"),
)


def instant(text: str | None, fold: int | None, zone: str) -> int:
    assert text is not None
    assert fold is not None
    naive = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the zone follows
    return int(naive.replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_local_text_round_trips_around_a_change(zone: str, change: str) -> None:
    at = int(dt.datetime.fromisoformat(change).timestamp())
    times = np.arange(at - 8000, at + 8000, 37, dtype=np.int64)
    times = np.union1d(times, np.array([at - 1, at, at + 1, at + 1799, at + 3599, at + 3600]))
    texts, folds = local_text(times, zone)
    assert [instant(text, fold, zone) for text, fold in zip(texts, folds, strict=True)] == (
        times.tolist()
    )


def test_fold_is_one_in_the_second_hour_only() -> None:
    at = int(dt.datetime.fromisoformat("2026-11-01T06:00:00+00:00").timestamp())
    times = np.array([at - 3600, at - 1, at, at + 3599, at + 3600], dtype=np.int64)
    texts, folds = local_text(times, "America/New_York")
    assert folds == [0, 0, 1, 1, 0]
    assert texts[0] == texts[2] == "2026-11-01 01:00:00"


@settings(deadline=None)
@given(
    first=st.integers(1_700_000_000, 1_900_000_000),
    more=st.lists(st.integers(0, 30 * 86_400), max_size=5),
    zone=st.sampled_from([zone for zone, _ in CHANGES]),
)
def test_wall_is_what_the_zone_database_says(first: int, more: list[int], zone: str) -> None:
    times = [first, *(first + seconds for seconds in more)]
    found = wall(np.array(times, dtype=np.int64), zone)
    for at, seconds, fold in zip(times, found.seconds, found.folds, strict=True):
        local = dt.datetime.fromtimestamp(at, ZoneInfo(zone))
        assert int(local.replace(tzinfo=dt.UTC).timestamp()) == seconds
        assert local.fold == fold


def test_null_is_none() -> None:
    times = np.array([1_788_220_800, -1, -1, 1_788_220_800], dtype=np.int64)
    assert utc_text(times) == ["2026-09-01T00:00:00Z", None, None, "2026-09-01T00:00:00Z"]
    texts, folds = local_text(times, "Asia/Kolkata")
    assert texts == ["2026-09-01 05:30:00", None, None, "2026-09-01 05:30:00"]
    assert folds == [0, None, None, 0]
    assert utc_text(times[:0]) == []
