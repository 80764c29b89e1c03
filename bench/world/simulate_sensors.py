"""What the sensors of the dock see of a stretch of minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.calendar import MODEL_RATE
from bench.world.catalogue import CELL_STATES
from bench.world.layout import LAYOUT, SITES
from bench.world.minutes import EyeMode
from bench.world.simulate_effects import Effects
from bench.world.simulate_flow import USABLE_POSITIONS, Flows, Inputs
from bench.world.simulate_inputs import (
    cell_base,
    cell_capacity,
    fail_percent,
    generator,
    wander,
)
from bench.world.simulate_plan import STATION_RATE, SitePlan

Floats = NDArray[np.float64]

SETPOINT, NIGHT_SETPOINT = 2.0, 1.8  # m/s
QUIET = 30.0  # parcels a minute planned: below it the loop runs slowly
WARMTH = 0.06  # of the way to its temperature a drive goes in a minute
PULSE_FLOW = 10  # parcels a minute below which doubles are not told
STANDING = 0.36  # of an infeed: more than what passes through it stands in it
QUEUED = 82.0  # percent of an infeed: eyes see a standing queue


@dataclass(slots=True, kw_only=True)
class Slow:
    """What lags: the warmth of the drives, degrees, [site, drive]."""

    temp: Floats

    @classmethod
    def of(cls, sites: int) -> Slow:
        drives = LAYOUT["infeeds"] + 1 + LAYOUT["cells"]
        return cls(temp=np.full((sites, drives), 50.0))


def _split(total: Floats, weight: Floats, chance: Floats) -> Floats:
    """Whole parts of a whole total, in proportion; [minute] by [minute, n]."""
    edges = np.cumsum(weight, axis=1)
    edges = edges / np.maximum(edges[:, -1:], 1e-9)
    parts = np.floor(total[:, None] * edges + chance[:, None])
    parts[:, 1:] -= parts[:, :-1].copy()
    return parts


@dataclass(frozen=True, slots=True)
class _Site:
    seed: int
    first: int
    site: int
    doing: Effects
    plan: SitePlan
    window: slice
    inputs: Inputs
    flows: Flows

    @property
    def minutes(self) -> int:
        return int(self.doing.pack.shape[1])

    @property
    def volume(self) -> float:
        return SITES[self.site].volume

    def chances(self, what: int) -> np.random.Generator:
        return generator(self.seed, self.first, self.site, 100 + what)


def _cells(at: _Site) -> dict[str, Floats]:
    rng = at.chances(0)
    site, minutes = at.site, at.minutes
    capacity = cell_capacity(at.seed, site, at.first, at.doing, at.plan, at.window)
    placed = at.flows.robots[:, site]
    success = _split(placed, capacity, rng.random(minutes))
    share = fail_percent(at.seed, site, at.first, at.doing) / 100
    fails = rng.poisson(success * share / (1 - share)).astype(np.float64)
    on = at.plan.cells_on[at.window]
    service, down = at.doing.cell_service[site] & on, at.doing.cell_down[site] & on
    up = on & ~service & ~down
    total = np.maximum(capacity.sum(axis=1), 1)[:, None]
    run = np.where(up, np.rint(60 * success / np.maximum(capacity, 1)), 0)
    held = np.rint(60 * at.flows.blocked[:, site][:, None] / total)
    held = np.where(up, np.minimum(held, 60 - run), 0)
    states = np.zeros((minutes, on.shape[1], len(CELL_STATES)))
    names = list(CELL_STATES)
    states[..., names.index("running")] = run
    states[..., names.index("blocked")] = held
    states[..., names.index("starved")] = np.where(up, 60 - run - held, 0)
    states[..., names.index("fault")] = 60 * (down & ~service)
    states[..., names.index("maintenance")] = 60 * service
    states[..., names.index("off")] = 60 * ~on
    _, grasp, leak, flow = cell_base(at.seed, site)
    cells = on.shape[1]
    doing = at.doing
    return {
        "picks": success + fails,
        "fails": fails,
        "state_s": states,
        "leak": np.clip(leak + 0.4 * wander(rng, minutes, 60, cells) + doing.leak[site], 1, 80),
        "freeflow": np.clip(
            flow + 2.5 * wander(rng, minutes, 90, cells) + doing.freeflow[site], 10, 400
        ),
        "no_grasp": np.clip(
            grasp
            + 0.3 * wander(rng, minutes, 15, cells)
            + 0.35 * rng.standard_normal((minutes, cells))
            + 0.12 * doing.mix[site][:, None]
            + doing.no_grasp[site],
            0,
            60,
        ),
        "manual": _manual(at, rng),
    }


def _manual(at: _Site, rng: np.random.Generator) -> Floats:
    stations = LAYOUT["stations"]
    staffed = np.arange(stations)[None, :] < at.plan.stations[at.window][:, None]
    made = _split(at.flows.manual[:, at.site], staffed.astype(np.float64), rng.random(at.minutes))
    return np.minimum(made, np.ceil(3 * STATION_RATE * at.volume))


def _infeeds(at: _Site) -> dict[str, Any]:
    rng = at.chances(1)
    site, minutes = at.site, at.minutes
    infeeds, eyes = LAYOUT["infeeds"], LAYOUT["eyes_per_infeed"]
    enters, leaves = at.flows.arrivals[:, site], at.flows.released[:, site]
    fill = at.flows.infeed_fill[:, site]
    jam, stop = at.doing.jam[site], at.doing.infeed_stop[site]
    usual = MODEL_RATE * at.volume * 0.25
    # parcels under way, spaced out, take a third or so of the zones; a queue takes the rest
    travel = 27 + 17 * np.minimum(enters / usual, 1.4)
    noise = 1.6 * wander(rng, minutes, 6, infeeds) + 0.9 * rng.standard_normal((minutes, infeeds))
    standing = np.clip((fill - STANDING) * 2.2, 0, 1)
    occupancy = np.clip(travel + (100 - travel) * standing + noise, 0, 100)
    still = (enters == 0) & (leaves == 0) & (fill > 0.5)
    motor = ~stop & (~still | (jam > 0))
    number = np.arange(1, eyes + 1)
    count = np.where(number <= 3, enters[:, :, None], leaves[:, :, None])
    ahead = (jam > 0)[:, :, None] & (number >= jam[:, :, None])
    behind = (jam > 0)[:, :, None] & (number < jam[:, :, None])
    count = np.where(ahead, 0.0, np.where(behind, enters[:, :, None], count))
    shape = (minutes, infeeds * eyes)
    mode = np.full((minutes, infeeds, eyes), EyeMode.CLEAR, dtype=np.uint8)
    mode[at.doing.eye_dense[site].reshape(mode.shape) & (count > 0)] = EyeMode.DENSE
    queue = np.repeat((occupancy >= QUEUED)[:, :, None] & ((jam == 0) | stop)[:, :, None], eyes, 2)
    mode[queue] = EyeMode.QUEUED
    behind_full = behind & (occupancy >= QUEUED)[:, :, None]
    mode[behind_full] = EyeMode.QUEUED
    mode[at.doing.eye_dirty[site].reshape(mode.shape)] = EyeMode.DIRTY
    mode[(jam[:, :, None] == number) & ~stop[:, :, None]] = EyeMode.JAM
    return {
        "occupancy": occupancy,
        "motor_on": motor,
        "eye_count": count.reshape(shape),
        "eye_mode": mode.reshape(shape),
    }


def _gaps(at: _Site) -> dict[str, Floats]:
    rng = at.chances(2)
    minutes, site = at.minutes, at.site
    through = at.flows.released[:, site].sum(axis=1)
    flow = at.flows.robots[:, site] + at.flows.manual[:, site]
    load = np.minimum(flow / (MODEL_RATE * at.volume), 1.4)
    wide = 345 - 45 * load + 12 * wander(rng, minutes, 10)
    gap = np.where(through + flow > 0, wide * (1 - at.doing.gap[site]), np.nan)
    doubles = 0.75 + 0.12 * wander(rng, minutes, 8) + 0.12 * rng.standard_normal(minutes)
    doubles += np.maximum(at.doing.gap[site] - 0.2, 0) * 9
    return {
        "gap_mm": gap,
        "double_pct": np.where(flow >= PULSE_FLOW, np.clip(doubles, 0.05, 30), np.nan),
    }


def _loop(at: _Site) -> dict[str, Floats]:
    rng = at.chances(3)
    site, minutes = at.site, at.minutes
    flow = at.flows.robots[:, site] + at.flows.manual[:, site]
    factor = at.doing.loop_speed[site]
    setpoint = np.where(at.plan.forecast[at.window] < QUIET, NIGHT_SETPOINT, SETPOINT)
    speed = np.where(
        factor > 0, setpoint * np.clip(factor + 0.004 * rng.standard_normal(minutes), 0.02, 1.1), 0
    )
    laps = at.flows.recirc[:, site]
    recirc = 100 * laps / np.maximum(flow + laps, 1)
    recirc = np.clip(recirc * (1 + 0.06 * rng.standard_normal(minutes)) + 0.15, 0, 95)
    slip = at.doing.slip[site]
    lost = 0.0004 + 0.0011 * np.maximum(slip - 0.5, 0)
    return {
        "inducted": flow,
        "recirc_pct": np.where(factor > 0, recirc, np.nan),
        "lost": np.minimum(rng.poisson(flow * lost), flow),
        "speed": speed,
        "setpoint": setpoint,
        "slip": 0.006 * wander(rng, minutes, 15) - slip / 100,
    }


def _drives(at: _Site, slow: Slow) -> dict[str, Floats]:
    """Loads follow the flow, temperatures follow the loads by and by."""
    rng = at.chances(4)
    site, minutes = at.site, at.minutes
    infeeds, cells = LAYOUT["infeeds"], LAYOUT["cells"]
    flow = at.flows.robots[:, site] + at.flows.manual[:, site]
    volume = MODEL_RATE * at.volume
    share = np.empty((minutes, 1 + infeeds + cells))
    share[:, 0] = flow / volume
    share[:, 1 : 1 + infeeds] = at.flows.arrivals[:, site] / (volume * 0.25)
    up = at.plan.cells_on[at.window] & ~at.doing.cell_down[site] & ~at.doing.cell_service[site]
    share[:, 1 + infeeds :] = np.where(up, (at.flows.robots[:, site] / volume)[:, None], 0)
    heat = at.doing.heat[site]
    load = 47 + 20 * np.minimum(share, 1.6) + 1.5 * wander(rng, minutes, 12, share.shape[1])
    load += 1.3 * heat
    on = np.empty(share.shape, dtype=np.bool_)
    on[:, 0] = at.doing.loop_speed[site] > 0
    stopped = at.doing.infeed_stop[site]
    on[:, 1 : 1 + infeeds] = ~stopped
    on[:, 1 + infeeds :] = up
    temp = np.empty(share.shape)
    warm = slow.temp[site]
    goal = np.where(on, 24 + 0.45 * (load - 1.3 * heat), 30)
    for minute in range(minutes):
        warm = warm + WARMTH * (goal[minute] - warm)
        temp[minute] = warm
    slow.temp[site] = warm
    temp = temp + heat + 0.3 * rng.standard_normal(share.shape)
    return {
        "load": np.where(on, np.clip(load, 5, 150), np.nan),
        "temp": np.where(on, temp, np.nan),
    }


def _plant(at: _Site) -> dict[str, Any]:
    rng = at.chances(5)
    site, minutes = at.site, at.minutes
    flow = at.flows.robots[:, site] / (MODEL_RATE * at.volume)
    air = 6.45 - 0.12 * flow + 0.06 * wander(rng, minutes, 20) - at.doing.air[site]
    plan = at.plan.forecast[at.window]
    return {
        "air": air,
        "forecast_arrivals": plan,
        "forecast_pack": plan,
        "metrics_silent": at.doing.silent[site],
        "warehouse_silent": at.doing.warehouse_silent[site],
    }


def _floor(at: _Site) -> dict[str, Floats]:
    site, flows = at.site, at.flows
    return {
        "arrivals": flows.arrivals[:, site].sum(axis=1),
        "pack": flows.pack[:, site],
        "unassigned": flows.unassigned[:, site],
        "reads": flows.scans[:, site].sum(axis=1) - flows.no_reads[:, site].sum(axis=1),
        "scans": flows.scans[:, site],
        "no_reads": flows.no_reads[:, site],
        "attempts": flows.attempts[:, site],
        "divert_fails": flows.failed[:, site] + flows.refused[:, site],
        "lane_full": flows.refused[:, site],
        "full": flows.full[:, site],
        "lane_occupied": np.minimum(flows.staged[:, site], USABLE_POSITIONS),
        "empties": flows.empties[:, site],
        "containers_used": flows.used[:, site],
        "loaded": flows.loaded[:, site],
    }


def sense(
    seed: int,
    first: int,
    doing: Effects,
    plans: Sequence[SitePlan],
    window: slice,
    inputs: Inputs,
    flows: Flows,
    slow: Slow,
) -> dict[str, NDArray[Any]]:
    """The arrays of `Minutes` for this stretch, [site, minute, ...], before they are rounded."""
    each = []
    for site, plan in enumerate(plans):
        at = _Site(seed, first, site, doing, plan, window, inputs, flows)
        each.append(
            {
                **_cells(at),
                **_infeeds(at),
                **_gaps(at),
                **_loop(at),
                **_drives(at, slow),
                **_plant(at),
                **_floor(at),
            }
        )
    return {name: np.stack([one[name] for one in each]) for name in each[0]}
