"""What one site plans and staffs, minute by minute, and when its trailers come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.world import calendar
from bench.world.layout import LAYOUT, SITES
from bench.world.minutes import Episode

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STATION_RATE = 13.3  # likewise of a manual station: 800 an hour
CONTAINER = 36  # parcels
BASE_SHARE = 0.3  # of a lane between its waves, against 1 in a wave
PLAN_MARGIN = 0.94  # a trailer's planned parcels, of those expected: it should be done in time
AHEAD = 960  # minutes planned behind the world's end
COLUMNS = (
    *("site", "number", "lane", "door", "cpt", "plan", "arrival", "docked", "planned"),
    "carrier",
)
BEFORE = 1440  # and before its start, when the dock fills


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """Minutes run from `BEFORE` before the world's start to its end, [minute] or [minute, n]."""

    forecast: Floats  # parcels a minute as told to all
    expected: Floats  # parcels a minute with breaks and handovers
    lane_share: Floats  # of the parcels, per lane
    chute_share: Floats  # of a lane's parcels, per chute; [chute]
    cells_on: NDArray[np.bool_]
    stations: Ints  # staffed
    docked: NDArray[np.bool_]  # per door
    pulled: NDArray[np.bool_]  # per lane: its open containers are closed in this minute
    rush: NDArray[np.bool_]  # per lane: the last three quarters of an hour before its pull
    departures: dict[str, Ints]  # columns, those that leave after the world's start


def _lane_share(site: int, begin: int, minutes: int) -> Floats:
    at = begin + 60 * np.arange(minutes, dtype=np.int64)
    weight = np.full((minutes, LAYOUT["lanes"]), BASE_SHARE)
    ramp = 15 * 60
    for departure in calendar.departures(site, begin, begin + 60 * minutes + 86_400):
        first = max((departure.cpt - calendar.WAVE_FROM_S - ramp - begin) // 60, 0)
        last = min(max((departure.cpt - calendar.WAVE_TO_S - begin) // 60, 0), minutes)
        lead = departure.cpt - at[first:last]
        rise = (calendar.WAVE_FROM_S + ramp - lead) / ramp
        fall = (lead - calendar.WAVE_TO_S) / ramp
        weight[first:last, departure.lane - 1] += np.clip(np.minimum(rise, fall), 0, 1)
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


def _columns(
    seed: int, site: int, start: int, end: int, begin: int, lanes: Floats, absent: dict[int, int]
) -> dict[str, Ints]:
    """The departures as they came about; `absent` is planned arrival x 100 + lane to docking."""
    rng = np.random.Generator(np.random.PCG64([seed, site, 0xDE]))
    total = np.concatenate((np.zeros((1, lanes.shape[1])), np.cumsum(lanes, axis=0)))
    gone: dict[int, int] = {}
    rows = []
    for number, one in enumerate(calendar.departures(site, begin, end + 60 * AHEAD - 60)):
        early, handling, odd = rng.random(3).tolist()
        previous = gone.get(one.lane, begin)
        arrival = one.plan + 60 * int(-22 + 30 * early + (9 * odd if odd > 0.85 else 0))
        docked = max(arrival + 60 * int(3 + 5 * handling), previous + 300)
        late = absent.get(100 * one.plan + one.lane)
        if late is not None:
            docked = late if late < one.cpt else -1
            arrival = docked - 360 if docked > 0 else -1
        cut = [
            min(max((at - calendar.WAVE_TO_S - begin) // 60, 0), len(lanes))
            for at in (previous, one.cpt)
        ]
        parcels = float(total[cut[1], one.lane - 1] - total[cut[0], one.lane - 1])
        gone[one.lane] = one.cpt
        if one.cpt >= start:
            row = (site, number, one.lane, one.door, one.cpt, one.plan, arrival, docked)
            rows.append((*row, int(PLAN_MARGIN * parcels), one.carrier))
    table = np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS))
    return {name: table[:, column].copy() for column, name in enumerate(COLUMNS)}


def _before(seed: int, site: int, start: int, begin: int, lanes: Floats) -> dict[str, Ints]:
    """Those that leave before the world begins: the dock is warmed up with them."""
    return _columns(seed, site, begin, start - 60 * AHEAD + 60, begin, lanes, {})


def site_plan(
    seed: int, site: int, start: int, minutes: int, episodes: Sequence[Episode]
) -> SitePlan:
    begin = start - 60 * BEFORE
    span = BEFORE + minutes + AHEAD
    forecast = calendar.rhythm(site, begin, span)
    expected = forecast * calendar.presence(site, begin, span)
    share = _lane_share(site, begin, span)
    lanes = expected[:, None] * share * 0.985  # less what the hospital lane gets
    absent = {
        100 * one.onset + int(one.asset.partition("-")[2]): one.end
        for one in episodes
        if one.fault == "trailer_absent" and one.site == site
    }
    table = _columns(seed, site, start, start + 60 * minutes, begin, lanes, absent)
    earlier = _before(seed, site, start, begin, lanes)
    kept = span - AHEAD
    docked = np.zeros((kept, LAYOUT["doors"]), dtype=np.bool_)
    pulled = np.zeros((kept, LAYOUT["lanes"]), dtype=np.bool_)
    rush = np.zeros((kept, LAYOUT["lanes"]), dtype=np.bool_)
    for rows in (earlier, table):
        for lane, door, cpt, dock in zip(
            rows["lane"], rows["door"], rows["cpt"], rows["docked"], strict=True
        ):
            leaves = max(int(cpt - begin) // 60, 0)
            if dock >= 0:
                docked[max(-(-int(dock - begin) // 60), 0) : leaves, door - 1] = True
            rush[max(leaves - 45, 0) : leaves, lane - 1] = True
            pulled[max(leaves - 18, 0) : max(leaves - 17, 0), lane - 1] = True
    on = calendar.cells_on(site, forecast)[:kept]
    volume = SITES[site].volume
    robots = on.sum(axis=1)
    rest = 1.22 * forecast[:kept] - robots * calendar.CELL_RATE * volume * 0.94
    stations = np.clip(np.ceil(rest / (STATION_RATE * volume)), 1, LAYOUT["stations"])
    rng = np.random.Generator(np.random.PCG64([seed, site, 0xC4]))
    chutes = 0.75 + 0.5 * rng.random((LAYOUT["lanes"], LAYOUT["chutes_per_lane"]))
    return SitePlan(
        forecast=forecast[:kept],
        expected=expected[:kept],
        lane_share=share[:kept],
        chute_share=(chutes / chutes.sum(axis=1, keepdims=True)).reshape(-1),
        cells_on=on,
        stations=stations.astype(np.int64),
        docked=docked,
        pulled=pulled,
        rush=rush,
        departures=table,
    )
