"""What is an instant and what is not, and moving it there and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.maker.instants import MOST_WEEKS, Shift, instants_of, weeks_for
from triage.model.query import Aggregate, Reading, Samples, Series, query_digest
from triage.tool_api import aggregate, call, rows, samples, selector

AT = datetime(2026, 11, 18, 15, 7, tzinfo=UTC)
EPOCH_S = int(AT.timestamp())
NEW_YORK = "America/New_York"
TWO = Shift(14, AT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2026-11-18", "2026-12-02"),
        ("2026-11-18T15:07:00Z", "2026-12-02T15:07:00Z"),
        ("2026-11-18 10:07:00", "2026-12-02 10:07:00"),
        ("2026-11-18T10:07:00.250-05:00", "2026-12-02T10:07:00.250-05:00"),
        ("20261118T150700Z", "20261202T150700Z"),
        ("down since 2026-11-18 10:07, see TK-4", "down since 2026-12-02 10:07, see TK-4"),
        ("2026-11-18/2026-12-31", "2026-12-02/2027-01-14"),
        ("D-2026-11-18-3", "D-2026-12-02-3"),
    ],
)
def test_dates_in_text(before: str, after: str) -> None:
    assert TWO.text(before) == after
    assert TWO.back.text(after) == before


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30",
        "9999-12-31 00:00:00",
        "1970-01-01T00:00:00Z",
        "12026-11-18",
        "2026-11-180",
        "20261118",
        "TK-20261118",
        "10:07:00",
        "18.11.2026",
        "RC-02",
        "",
    ],
)
def test_what_is_no_date_stays(text: str) -> None:
    assert TWO.text(text) == text


@given(st.dates(min_value=datetime(2000, 1, 1).date(), max_value=datetime(2060, 1, 1).date()))  # noqa: DTZ001 - a date
def test_there_and_back(day: Any) -> None:
    text = f"from {day.isoformat()}T00:00 on"
    assert TWO.back.text(TWO.text(text)) == text


def test_queries() -> None:
    depth = samples("metrics", selector("depth_2026", site="FC1"), AT, 300)
    moved = TWO.query(depth)
    assert isinstance(moved, Samples)
    assert (moved.selector, moved.start, moved.end) == (
        depth.selector,
        depth.start + timedelta(days=14),
        AT + timedelta(days=14),
    )
    day = aggregate("metrics", selector("depth"), AT, 86_400, "quantile", 0.9)
    moved_day = TWO.query(day)
    assert isinstance(moved_day, Aggregate)
    assert (moved_day.end - AT, moved_day.quantile) == (timedelta(days=14), 0.9)
    asked = rows(
        "tables",
        "SELECT 1 WHERE at >= '2026-11-18' AND a = :a",
        a="2026-11-18 10:07:00",
        b=EPOCH_S,
        c=EPOCH_S * 1000,
        d=float(EPOCH_S),
        e=42,
        f=None,
        g=True,
        h="RC-02",
    )
    week = 14 * 86_400
    assert TWO.query(asked) == rows(
        "tables",
        "SELECT 1 WHERE at >= '2026-11-18' AND a = :a",
        a="2026-12-02 10:07:00",
        b=EPOCH_S + week,
        c=(EPOCH_S + week) * 1000,
        d=float(EPOCH_S + week),
        e=42,
        f=None,
        g=True,
        h="RC-02",
    )
    doors = call("equipment", "doors", site="FC1", at="2026-11-18T15:07:00Z", span={"to": EPOCH_S})
    assert TWO.query(doors) == call(
        "equipment", "doors", site="FC1", at="2026-12-02T15:07:00Z", span={"to": EPOCH_S + week}
    )


@pytest.mark.parametrize(
    "query",
    [
        samples("metrics", "depth", AT, 300),
        aggregate("metrics", "depth", AT, 300, "max"),
        rows("tables", "select 1", at="2026-11-18 10:07:00", since=EPOCH_S, n=3),
        call("equipment", "doors", at="2026-11-18T15:07:00Z", site="FC1", n=[1, 2.5, None]),
    ],
)
def test_a_query_moved_there_and_back_is_found(query: Any) -> None:
    """Whatever a tool asks of the other week must be what was asked of this one."""
    assert query_digest(TWO.back.query(TWO.query(query))) == query_digest(query)


def test_a_window_in_another_offset_is_the_same_window() -> None:
    here = Samples("m", "x", AT.astimezone(ZoneInfo(NEW_YORK)), AT.astimezone(ZoneInfo(NEW_YORK)))
    there = Samples("m", "x", AT + timedelta(days=14), AT + timedelta(days=14))
    assert query_digest(TWO.query(here)) == query_digest(there)


def test_answers() -> None:
    week = 14 * 86_400
    query = samples("metrics", selector("depth"), AT, 300)
    told = (Series({"since": "2026-11-18"}, (EPOCH_S - 60.0, EPOCH_S + 0.5), (1.5, EPOCH_S)),)
    assert TWO.answer(query, told) == (
        Series(
            {"since": "2026-11-18"}, (EPOCH_S - 60.0 + week, EPOCH_S + 0.5 + week), (1.5, EPOCH_S)
        ),
    )
    assert TWO.answer(query, ()) == ()
    rows_of = rows("tables", "select 1")
    assert TWO.answer(
        rows_of,
        (
            {"closed_at": EPOCH_S, "batch_id": EPOCH_S, "at_local": "2026-11-18 10:07:00", "n": 3},
            {"closed_at": None, "batch_id": 1, "at_local": None, "n": True},
        ),
    ) == (
        {
            "closed_at": EPOCH_S + week,
            "batch_id": EPOCH_S,
            "at_local": "2026-12-02 10:07:00",
            "n": 3,
        },
        {"closed_at": None, "batch_id": 1, "at_local": None, "n": True},
    )
    said = {
        "as_of": "2026-11-18T15:07:00Z",
        "resets": ["2026-11-18T15:00:00Z"],
        "lastSeen": EPOCH_S,
    }
    assert TWO.answer(call("equipment", "resets"), said) == {
        "as_of": "2026-12-02T15:07:00Z",
        "resets": ["2026-12-02T15:00:00Z"],
        "lastSeen": EPOCH_S + week,
    }


@pytest.mark.parametrize(
    ("metric", "moves"),
    [
        ("process_start_time_seconds", True),
        ("job_last_timestamp", True),
        ("node_boot_time_seconds{job='a'}", True),
        ("node_memory_MemFree_bytes", False),
        ("time_waited", False),
    ],
)
def test_a_metric_that_is_a_time(metric: str, moves: bool) -> None:
    query = aggregate("metrics", metric, AT, 300, "max")
    (told,) = TWO.answer(query, (Reading({}, float(EPOCH_S)),))
    assert told.value == EPOCH_S + (14 * 86_400 if moves else 0)
    (low,) = TWO.answer(query, (Reading({}, 12.0),))
    assert low.value == 12.0


# --- by how many weeks -------------------------------------------------------------------------


def test_the_next_week_will_do_where_clocks_do_not_change() -> None:
    assert weeks_for([AT], NEW_YORK) == 1
    assert weeks_for([AT], "UTC") == 1
    assert weeks_for([AT, AT - timedelta(hours=6)], "Asia/Kathmandu") == 1


def test_a_week_back_before_the_clocks_change() -> None:
    """On 30 October the next Friday has another offset."""
    assert weeks_for([datetime(2026, 10, 30, 12, tzinfo=UTC)], NEW_YORK) == -1


def test_across_a_change_of_clocks_another_year_is_found() -> None:
    """Four weeks back from AT lies the first of November, when clocks went back."""
    instants = [AT - timedelta(weeks=week) for week in range(5)]
    weeks = weeks_for(instants, NEW_YORK)
    assert weeks is not None
    place = ZoneInfo(NEW_YORK)
    assert abs(weeks) > 40
    for moment in instants:
        moved = moment + timedelta(weeks=weeks)
        assert moved.astimezone(place).utcoffset() == moment.astimezone(place).utcoffset()


def test_no_week_at_all() -> None:
    """From August 2015 to May 2018 clocks in Pyongyang were half an hour behind: once."""
    changes = (datetime(2015, 8, 14, 15, tzinfo=UTC), datetime(2018, 5, 4, 15, tzinfo=UTC))
    instants = [at + timedelta(hours=hours) for at in changes for hours in (-12, 12)]
    assert weeks_for(instants, "Asia/Pyongyang") is None
    assert weeks_for([datetime(9999, 12, 30, tzinfo=UTC)], "UTC") == -1
    assert MOST_WEEKS >= 28 * 52


def test_every_instant_counts() -> None:
    local = rows("tables", "select 1", at="2026-11-01 01:30:00")
    found = list(instants_of(local, (), AT, NEW_YORK))
    assert found == [
        datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
        datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    ]
    asked = call("equipment", "resets", at="2026-11-18T10:07:00-05:00")
    said = {"as_of": "2026-11-18T15:07:00+0000", "seen": EPOCH_S, "count": EPOCH_S}
    assert set(instants_of(asked, said, AT, NEW_YORK)) == {AT}
    depth = samples("metrics", "depth", AT, 300)
    told = (Series({}, (EPOCH_S - 7.0, 1e20), (1.0, 1.0)),)
    assert list(instants_of(depth, told, AT, NEW_YORK)) == [
        depth.start,
        depth.end,
        AT - timedelta(seconds=7),
    ]
