"""What is planned at a site: shifts, breaks, the day's rhythm and the departures.

Everything is planned by the site's wall clock and told in seconds since the epoch, so a night
shift has an hour more or less when the clocks change. A wall time that occurs twice is meant the
first time; one that does not exist is read with the offset before the change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bench.world.layout import LAYOUT, SITES

Floats = NDArray[np.float64]

MODEL_RATE = 112.0  # parcels a minute of the model site at its busiest ordinary hour
HANDOVER_S = 300  # each side of a change of shift: ten minutes of dip
BREAK_FLOW = 0.12  # of the packing goes on in a break
HANDOVER_FLOW = 0.55
SLOT = 15  # minutes of a slot of the plan
WAVE_FROM_S, WAVE_TO_S = 200 * 60, 25 * 60  # before the pull: when its parcels come
TRAILER_LEAD_S = 185 * 60  # before the pull: when its trailer is planned to arrive
TURNAROUND_S = 20 * 60  # a door is free this long before the next trailer
CARRIERS = 5
FEWEST_CELLS = 3
CELL_RATE = 18.0  # parcels a minute of a cell at the model site: 1,080 an hour


class Shift(NamedTuple):
    """Seconds since the epoch; `name` is early, late or night; `heads` is of a full shift."""

    start: int
    end: int
    name: str = ""
    heads: float = 1.0


class Break(NamedTuple):
    """Seconds since the epoch."""

    start: int
    end: int


class Departure(NamedTuple):
    """A planned departure; `lane` and `door` are numbers as in STG-03, DD-05."""

    site: int
    lane: int
    door: int
    cpt: int
    plan: int  # planned arrival of the trailer
    carrier: int


_SHIFTS = ((6, 0, "early", 1.0), (14, 30, "late", 1.0), (23, 0, "night", 0.5))
# start of a break by the wall clock, and its minutes; the night's lies where clocks change
_BREAKS = ((8, 30, 15), (11, 0, 30), (17, 0, 15), (19, 30, 30), (2, 15, 30), (4, 30, 15))
_PULLS = {
    14: "00:30 02:30 04:45 06:45 08:30 10:15 12:00 13:30 15:15 16:45 18:15 19:45 21:15 22:30",
    12: "01:00 03:45 06:30 08:45 10:45 12:30 14:15 16:15 17:45 19:15 20:45 22:30",
    10: "01:00 04:00 07:30 10:00 12:15 14:30 16:45 18:45 20:30 22:30",
    8: "01:00 05:00 09:00 12:00 14:45 17:30 20:00 22:30",
}
_PULLS_OF_DAY = (14, 12, 12, 12, 12, 10, 8)  # Monday first; a week's sum divides by four
_WEEKDAY = (1.16, 1.04, 1.0, 0.98, 1.02, 0.86, 0.70)
_HOURLY = (
    *(0.26, 0.22, 0.18, 0.16, 0.18, 0.24),
    *(0.55, 0.72, 0.80, 0.84, 0.86, 0.86, 0.84, 0.82),
    *(0.84, 0.90, 0.95, 1.0, 1.0, 0.98, 0.94, 0.86, 0.70, 0.40),
)


def zone(site: int) -> ZoneInfo:
    return ZoneInfo(SITES[site].facts.zone)


def _epoch(day: dt.date, hour: int, minute: int, clock: ZoneInfo) -> int:
    wall = dt.datetime.combine(day, dt.time(hour, minute), tzinfo=clock)
    return int(wall.timestamp())


def _days(site: int, start: int, end: int) -> Iterator[dt.date]:
    """The local days that touch [start, end), and one more on each side."""
    clock = zone(site)
    day = dt.datetime.fromtimestamp(start, clock).date() - dt.timedelta(days=1)
    last = dt.datetime.fromtimestamp(end, clock).date() + dt.timedelta(days=1)
    while day <= last:
        yield day
        day += dt.timedelta(days=1)


def shifts(site_index: int, start: int, end: int) -> list[Shift]:
    """The shifts that overlap [start, end), whole, in order; they follow each other gaplessly."""
    clock = zone(site_index)
    starts = [
        (_epoch(day, hour, minute, clock), name, heads)
        for day in _days(site_index, start, end + 86_400)
        for hour, minute, name, heads in _SHIFTS
    ]
    found = [
        Shift(begin, until, name, heads) for (begin, name, heads), (until, _, _) in pairwise(starts)
    ]
    return [shift for shift in found if shift.start < end and shift.end > start]


def breaks(site_index: int, start: int, end: int) -> list[Break]:
    """The scheduled breaks that overlap [start, end), whole, in order."""
    clock = zone(site_index)
    found = []
    for day in _days(site_index, start, end):
        for hour, minute, length in _BREAKS:
            # sites stagger their breaks, so that not all of the world stops at once
            at = dt.datetime.combine(day, dt.time(hour, minute)) + dt.timedelta(
                minutes=5 * site_index
            )
            begin = _epoch(at.date(), at.hour, at.minute, clock)
            found.append(Break(begin, begin + 60 * length))
    found.sort()
    return [pause for pause in found if pause.start < end and pause.end > start]


def pulls(site_index: int, start: int, end: int) -> list[tuple[int, int]]:
    """Critical pull times in [start, end), in order, each with its turn (0..3) of the lanes."""
    clock = zone(site_index)
    found = []
    for day in _days(site_index, start, end):
        weekday = day.weekday()
        turn = sum(_PULLS_OF_DAY[:weekday]) + site_index
        for number, wall in enumerate(_PULLS[_PULLS_OF_DAY[weekday]].split()):
            hour, minute = map(int, wall.split(":"))
            found.append((_epoch(day, hour, minute, clock), (turn + number) % 4))
    return [(cpt, turn) for cpt, turn in sorted(found) if start <= cpt < end]


def departures(site_index: int, start: int, end: int) -> list[Departure]:
    """Those whose pull lies in [start, end), ascending by pull, then lane.

    A pull takes three lanes in three zones; a lane has one trailer at a time, on the doors by
    turns.
    """
    planned: list[Departure] = []
    left: dict[int, int] = {}
    for cpt, turn in pulls(site_index, start - 2 * 86_400, end):
        for lane in (turn + 1, turn + 5, turn + 9):
            plan = max(cpt - TRAILER_LEAD_S, left.get(lane, 0) + TURNAROUND_S)
            planned.append(
                Departure(
                    site=site_index,
                    lane=lane,
                    # told by the pull itself: where the asked span begins must not matter
                    door=2 * lane - (cpt // 3600) % 2,
                    cpt=cpt,
                    plan=plan,
                    carrier=1 + (lane + cpt // 86_400) % CARRIERS,
                )
            )
            left[lane] = cpt
    return [departure for departure in planned if departure.cpt >= start]


def _minute_of(at: int, start: int) -> int:
    return (at - start) // 60


def rhythm(site_index: int, start: int, minutes: int) -> Floats:
    """Planned parcels a minute from `start` on, constant within a slot; blind to breaks."""
    clock = zone(site_index)
    slots = np.arange(start - start % (60 * SLOT), start + 60 * minutes, 60 * SLOT)
    level = np.empty(len(slots))
    for index, at in enumerate(slots.tolist()):
        wall = dt.datetime.fromtimestamp(at + 30 * SLOT, clock)
        level[index] = _HOURLY[wall.hour] * _WEEKDAY[wall.weekday()]
    wave = np.zeros(len(slots))
    for cpt, _ in pulls(site_index, start - 86_400, start + 60 * minutes + 86_400):
        lead = (cpt - (slots + 30 * SLOT)) / 60  # minutes
        wave = np.maximum(wave, np.clip(1 - np.abs(lead - 75) / 60, 0, 1))
    rate = MODEL_RATE * SITES[site_index].volume * level * (0.88 + 0.24 * wave)
    offset = _minute_of(start, int(slots[0]))
    return np.round(np.repeat(rate, SLOT)[offset : offset + minutes])


def cells_on(site_index: int, forecast: Floats) -> NDArray[np.bool_]:
    """Which cells are switched on for what is planned, [minute, cell]; those off go round by days.

    `forecast` is the rhythm from midnight UTC on, so that an hour's busiest slot decides for it.
    """
    minutes = len(forecast)
    cells = LAYOUT["cells"]
    hours = np.pad(forecast, (0, -minutes % 60), mode="edge").reshape(-1, 60).max(axis=1)
    busiest = np.repeat(hours, 60)[:minutes]
    count = np.ceil(0.93 * busiest / (CELL_RATE * SITES[site_index].volume))
    turn = np.arange(minutes) // 1440 + site_index
    rank = (np.arange(cells)[None, :] + turn[:, None]) % cells
    on: NDArray[np.bool_] = rank < np.clip(count, FEWEST_CELLS, cells)[:, None]
    return on


def presence(site_index: int, start: int, minutes: int) -> Floats:
    """Share of the planned packing that goes on, minute by minute: breaks and handovers."""
    share = np.ones(minutes)
    end = start + 60 * minutes

    def lower(begin: int, until: int, to: float) -> None:
        first, last = max(_minute_of(begin, start), 0), max(_minute_of(until, start), 0)
        share[first:last] = np.minimum(share[first:last], to)

    for shift in shifts(site_index, start - 86_400, end + 86_400):
        lower(shift.start - HANDOVER_S, shift.start + HANDOVER_S, HANDOVER_FLOW)
    for pause in breaks(site_index, start, end):
        lower(pause.start, pause.end, BREAK_FLOW)
    return share
