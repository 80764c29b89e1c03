"""The raw alarms of a site, as a plain alert rule raises them from what it is served.

The rules look at a few minutes and at no volume; a counter's restart, a sentinel or a silent feed
trips one now and then. That is what triage is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.world.chance import below, belows, stream, uniforms
from bench.world.layout import ASSETS, LAYOUT
from bench.world.minutes import SILENT_GROUPS, EyeMode, Minutes
from bench.world.simulate_flow import USABLE_POSITIONS

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

HOLD_OFF = 30  # minutes before a condition that lasts raises the alarm again
HOLD = 5  # minutes that most conditions must last


class RawAlarm(NamedTuple):
    """`site` is an index, `entity` a normalised id, `at` seconds since the epoch."""

    alarm: str
    site: int
    entity: str
    at: int
    severity: str


SEVERITIES: Mapping[str, str] = {
    "al_pick_fail_high": "warning",
    "al_chute_full": "warning",
    "al_jam_repeat": "warning",
    "al_recirc_high": "warning",
    "al_no_read_high": "warning",
    "al_induct_rate_low": "warning",
    "al_robot_cell_down": "critical",
    "al_infeed_backup": "warning",
    "al_divert_fail_high": "warning",
    "al_staging_over": "warning",
    "al_departure_risk": "critical",
    "al_container_lag": "info",
    "al_drive_warning": "info",
    "al_sorter_stopped": "critical",
}

# of the stretches of `HOLD_OFF` minutes and assets: how many a restart or a sentinel trips
SPURIOUS: Mapping[str, float] = {
    "al_pick_fail_high": 0.0015,  # a counter of picks restarts, that of fails does not
    "al_chute_full": 0.0002,  # an empty reading taken as full
    "al_recirc_high": 0.003,  # 9999
    "al_no_read_high": 0.002,  # the nightly restart
    "al_divert_fail_high": 0.0002,
    "al_drive_warning": 0.0004,  # 9999 from a drive that is off
    "al_sorter_stopped": 0.0008,  # -1
    "al_infeed_backup": 0.0006,
}
GAP_TRIPS: Mapping[str, tuple[str, float]] = {
    "al_sorter_stopped": ("loop", 0.5),
    "al_induct_rate_low": ("loop", 0.6),
    "al_robot_cell_down": ("cells", 0.2),
    "al_recirc_high": ("loop", 0.25),
    "al_no_read_high": ("tunnels", 0.3),
    "al_divert_fail_high": ("chutes", 0.02),
    "al_chute_full": ("chutes", 0.02),
    "al_pick_fail_high": ("cells", 0.15),
}
"""A silent feed read as zero, or as a last value that stands: the group, and how often."""


def _sum(values: NDArray[Any], minutes: int) -> Floats:
    """Sum of the last `minutes`, fewer at the beginning; along the first axis."""
    total = np.cumsum(values, axis=0, dtype=np.float64)
    late = total.copy()
    late[minutes:] -= total[:-minutes]
    return late


def _lasting(condition: Flags, minutes: int) -> Flags:
    """True where the condition has held for this many minutes."""
    return _sum(condition, minutes) >= minutes


def _ratio(part: NDArray[Any], whole: NDArray[Any], minutes: int) -> Floats:
    """Percent, 0 where there is nothing: along the first axis."""
    return 100 * _sum(part, minutes) / np.maximum(_sum(whole, minutes), 1)


def _key(world: Minutes, site: int, *what: str) -> int:
    return stream(world.start, "alarms", site, *what)


def _by_stretch(world: Minutes, site: int, what: str, assets: int, minutes: int) -> Floats:
    """Chance of each minute and asset, one for a stretch of minutes."""
    stretches = -(-world.minutes // minutes)
    cell = np.arange(stretches * assets, dtype=np.int64).reshape(stretches, assets)
    each = uniforms(_key(world, site, what), cell)
    return np.repeat(each, minutes, axis=0)[: world.minutes]


def _cells(world: Minutes, site: int) -> Iterator[tuple[str, str, Flags]]:
    fails = _ratio(world.fails[site], world.picks[site], 2 * HOLD)
    yield "al_pick_fail_high", "RC", _lasting(fails >= 8, HOLD)
    states = world.state_s[site]
    down = (states[..., 3] + states[..., 4] >= 55) & (states[..., 5] == 0)
    # now and then one that only waits is taken for one that stands
    taken = _by_stretch(world, site, "waits", states.shape[1], HOLD_OFF) < 0.05
    idle = (states[..., 0] < 6) & (states[..., 5] == 0) & taken
    yield "al_robot_cell_down", "RC", _lasting(down | idle, 3)


def _infeeds(world: Minutes, site: int) -> Iterator[tuple[str, str, Flags]]:
    yield "al_infeed_backup", "INF", _lasting(world.occupancy[site] >= 85, HOLD)
    mode = world.eye_mode[site]
    long_runs = np.isin(mode, (EyeMode.JAM, EyeMode.DIRTY, EyeMode.DENSE))
    fresh = long_runs.copy()
    fresh[1:] &= ~long_runs[:-1]
    # an eye that flickers counts as jammed anew, again and again
    flicker = _by_stretch(world, site, "flicker", mode.shape[1], 1)
    fresh |= np.isin(mode, (EyeMode.DIRTY, EyeMode.DENSE)) & (flicker < 0.12)
    fresh |= (mode == EyeMode.QUEUED) & (flicker < 0.04)
    recent = np.zeros_like(fresh)
    recent[...] = _sum(fresh, 60) >= 3
    yield "al_jam_repeat", "PE", recent & fresh


def _loop(world: Minutes, site: int) -> Iterator[tuple[str, str, Flags]]:
    recirc = np.nan_to_num(world.recirc_pct[site], nan=0.0)[:, None]
    yield "al_recirc_high", "LS", _lasting(recirc >= 6, HOLD)
    plan = world.forecast_arrivals[site].astype(np.float64)[:, None]
    done = world.inducted[site].astype(np.float64)[:, None]
    yield "al_induct_rate_low", "LS", _lasting(_ratio(done, plan, HOLD) < 70, HOLD)
    slow = world.speed[site] < 0.5 * world.setpoint[site]
    yield "al_sorter_stopped", "LS", slow[:, None]
    reads = _ratio(world.no_reads[site], world.scans[site], 2 * HOLD)
    yield "al_no_read_high", "ST", _lasting(reads >= 2.5, HOLD)
    hot = (world.load[site] >= 90) | (world.temp[site] >= 74)
    yield "al_drive_warning", "DRV", _lasting(hot, 3)


def _chutes(world: Minutes, site: int) -> Iterator[tuple[str, str, Flags]]:
    full = world.full[site] >= 0.5
    yield "al_chute_full", "CH", _lasting(world.full[site] >= 0.999, 3)
    fails = world.divert_fails[site].astype(np.float64)
    tries = world.attempts[site]
    # refusals of a full lane are in the count where a chute's controller does not tell them apart
    mixed = _by_stretch(world, site, "mixed", fails.shape[1], 4 * HOLD_OFF) < 0.06
    bad = (_ratio(fails, tries, 10) >= 1) & (_sum(fails, 10) >= 3) & mixed
    fails -= world.lane_full[site]
    bad |= (_ratio(fails, tries, 60) >= 2) & (_sum(fails, 60) >= 3)
    yield "al_divert_fail_high", "CH", bad
    pooled = _ratio(world.divert_fails[site].sum(axis=1)[:, None], tries.sum(axis=1)[:, None], 10)
    yield "al_divert_fail_high", "LS", _lasting(pooled >= 1, 10)
    lanes = world.lane_occupied[site].repeat(LAYOUT["chutes_per_lane"], axis=1)
    yield "al_container_lag", "CH", _lasting(full & (lanes < USABLE_POSITIONS), 10)
    over = 100 * world.lane_occupied[site] >= 90 * USABLE_POSITIONS
    yield "al_staging_over", "STG", _lasting(over, 3)


def _departures(world: Minutes, site: int) -> Flags:
    """Lanes whose next departure looks short; asked each five minutes."""
    short = np.zeros(world.loaded[site].shape, dtype=np.bool_)
    total = np.concatenate(
        (np.zeros((1, short.shape[1])), np.cumsum(world.loaded[site], axis=0, dtype=np.float64))
    )
    table = world.departures
    for row in np.flatnonzero(table["site"] == site).tolist():
        lane, cpt, docked = (int(table[name][row]) for name in ("lane", "cpt", "docked"))
        pull = (cpt - world.start) // 60
        first = max(pull - 110, 15)
        minute = np.arange(first, min(pull - 10, world.minutes), 5)
        if not len(minute):
            continue
        dock = min(max((docked - world.start) // 60, 0), world.minutes) if docked >= 0 else pull
        begin = total[min(dock, world.minutes), lane - 1]
        loaded = np.maximum(total[minute, lane - 1] - begin, 0)
        before = np.maximum(total[minute - 15, lane - 1] - begin, 0)
        hope = loaded + (loaded - before) / 15 * (pull - minute)
        less = hope < 0.97 * table["planned"][row]
        less[1:] &= less[:-1].copy()  # twice in a row
        short[minute[1:], lane - 1] |= less[1:]
    return short


_GROUP = {
    "al_pick_fail_high": "cells",
    "al_robot_cell_down": "cells",
    "al_infeed_backup": "infeed",
    "al_jam_repeat": "infeed",
    "al_recirc_high": "loop",
    "al_induct_rate_low": "loop",
    "al_sorter_stopped": "loop",
    "al_no_read_high": "tunnels",
    "al_drive_warning": "loop",
    "al_chute_full": "chutes",
    "al_divert_fail_high": "chutes",
}


def _spoiled(world: Minutes, site: int, alarm: str, condition: Flags) -> Flags:
    """Without what a silent feed hides, and with what sentinels and restarts bring."""
    seen = condition.copy()
    silent = world.metrics_silent[site]
    group = _GROUP.get(alarm)
    if group is not None:
        seen &= ~silent[:, SILENT_GROUPS.index(group), None]
    count, assets = seen.shape
    if alarm in SPURIOUS:
        stretches = -(-count // HOLD_OFF)
        cell = np.arange(stretches * assets, dtype=np.int64).reshape(stretches, assets)
        trips = uniforms(_key(world, site, alarm, "trips"), cell) < SPURIOUS[alarm]
        inside = belows(HOLD_OFF, _key(world, site, alarm, "inside"), cell)
        rows, columns = np.nonzero(trips)
        at = np.minimum(rows * HOLD_OFF + inside[rows, columns], count - 1)
        seen[at, columns] = True
    if alarm in GAP_TRIPS:
        name, share = GAP_TRIPS[alarm]
        begun = _lasting(silent[:, SILENT_GROUPS.index(name)], HOLD)
        begun[1:] &= ~begun[:-1].copy()
        for minute in np.flatnonzero(begun).tolist():
            cell = minute * assets + np.arange(assets, dtype=np.int64)
            seen[minute] |= uniforms(_key(world, site, alarm, "gap"), cell) < share
    return seen


def _fired(condition: NDArray[np.bool_]) -> Iterator[int]:
    """Minutes at which an alarm is raised: at once, then each `HOLD_OFF` while it lasts."""
    minutes = np.flatnonzero(condition)
    index = 0
    while index < len(minutes):
        minute = int(minutes[index])
        yield minute
        index = int(np.searchsorted(minutes, minute + HOLD_OFF))


def raw_alarms(minutes: Minutes, site: int) -> list[RawAlarm]:
    """Every raw alarm of a site, ascending by time. A minute's condition is known at its end; the
    alarm comes within the minute after."""
    found = []
    named = [
        *_cells(minutes, site),
        *_infeeds(minutes, site),
        *_loop(minutes, site),
        *_chutes(minutes, site),
        ("al_departure_risk", "STG", _departures(minutes, site)),
    ]
    for alarm, prefix, condition in named:
        seen = _spoiled(minutes, site, alarm, condition)
        for index in np.flatnonzero(seen.any(axis=0)).tolist():
            entity = ASSETS[prefix][index]
            for minute in _fired(seen[:, index]):
                second = below(60, _key(minutes, site, alarm, entity), minute)
                at = minutes.start + 60 * (minute + 1) + second
                found.append(RawAlarm(alarm, site, entity, at, SEVERITIES[alarm]))
    found.sort(key=lambda one: (one.at, one.alarm, one.entity))
    return found
