import datetime as dt
import itertools
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from bench.world import calendar
from bench.world.layout import DAYS, EPOCH, LAYOUT, SITES

END = EPOCH + 86_400 * DAYS


def _midnight(site: int, day: dt.date) -> int:
    clock = ZoneInfo(SITES[site].facts.zone)
    return int(dt.datetime.combine(day, dt.time(), tzinfo=clock).timestamp())


@pytest.mark.parametrize(
    ("site", "day", "minutes"),
    [
        (0, dt.date(2026, 11, 1), 1500),
        (1, dt.date(2026, 10, 25), 1500),
        (2, dt.date(2026, 10, 4), 1380),
        (3, dt.date(2026, 11, 1), 1500),
        (4, dt.date(2026, 11, 1), 1440),
    ],
)
def test_a_day_on_which_clocks_change_is_planned_whole(
    site: int, day: dt.date, minutes: int
) -> None:
    begin, end = _midnight(site, day), _midnight(site, day + dt.timedelta(days=1))
    assert (end - begin) // 60 == minutes

    inside = [
        max(0, min(shift.end, end) - max(shift.start, begin))
        for shift in calendar.shifts(site, begin, end)
    ]
    assert sum(inside) == end - begin
    assert len(calendar.rhythm(site, begin, minutes)) == minutes
    # what is planned by the clock is planned once, though the hour comes twice
    assert len([p for p in calendar.breaks(site, begin, end) if begin <= p.start < end]) == 6
    lengths = {p.end - p.start for p in calendar.breaks(site, begin, end)}
    assert lengths == {900, 1800}


@pytest.mark.parametrize("site", range(len(SITES)))
def test_shifts_follow_each_other_and_begin_by_the_wall_clock(site: int) -> None:
    clock = ZoneInfo(SITES[site].facts.zone)
    shifts = calendar.shifts(site, EPOCH, END)

    assert shifts[0].start <= EPOCH
    assert shifts[-1].end >= END
    assert all(one.end == two.start for one, two in itertools.pairwise(shifts))
    walls = {dt.datetime.fromtimestamp(one.start, clock).strftime("%H:%M") for one in shifts}
    assert walls == {"06:00", "14:30", "23:00"}


@pytest.mark.parametrize("site", range(len(SITES)))
def test_a_lane_has_one_trailer_at_a_time(site: int) -> None:
    departures = calendar.departures(site, EPOCH, END)

    for lane in range(1, LAYOUT["lanes"] + 1):
        mine = [one for one in departures if one.lane == lane]
        assert all(two.plan > one.cpt for one, two in itertools.pairwise(mine))
        assert {one.door for one in mine} == {2 * lane - 1, 2 * lane}
    pulls = {one.cpt for one in departures}
    a_day = [
        len([cpt for cpt in pulls if 0 <= cpt - day < 86_400]) for day in range(EPOCH, END, 86_400)
    ]
    assert min(a_day) >= 8
    assert max(a_day) <= 14


def test_a_plan_does_not_hang_on_where_it_is_asked_from() -> None:
    later = EPOCH + 11 * 86_400 + 3600
    whole = [one for one in calendar.departures(0, EPOCH, END) if one.cpt >= later]
    assert calendar.departures(0, later, END) == whole

    offset = (later - EPOCH) // 60
    np.testing.assert_array_equal(
        calendar.rhythm(0, later, 2000), calendar.rhythm(0, EPOCH, offset + 2000)[offset:]
    )
    np.testing.assert_array_equal(
        calendar.presence(0, later, 2000), calendar.presence(0, EPOCH, offset + 2000)[offset:]
    )


def test_packing_rests_in_breaks_and_at_the_change_of_shift() -> None:
    minutes = 3 * 1440
    share = calendar.presence(0, EPOCH, minutes)

    for pause in calendar.breaks(0, EPOCH, EPOCH + 60 * minutes):
        first = max((pause.start - EPOCH) // 60, 0)
        assert (share[first : (pause.end - EPOCH) // 60] <= calendar.BREAK_FLOW).all()
    for shift in calendar.shifts(0, EPOCH, EPOCH + 60 * minutes)[1:]:
        at = (shift.start - EPOCH) // 60
        assert (share[at - 5 : at + 5] <= calendar.HANDOVER_FLOW).all()
    assert (share == 1).mean() > 0.85
