"""Capacities, probabilities and chances of one stretch, from plan and effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.world.calendar import CELL_RATE
from bench.world.layout import LAYOUT, SITES
from bench.world.simulate_effects import OUTBOUND, Effects
from bench.world.simulate_flow import CHUTES, LOOP, Inputs
from bench.world.simulate_plan import CONTAINER, STATION_RATE, SitePlan

Floats = NDArray[np.float64]

INFEED_SHARES = np.array([0.27, 0.26, 0.24, 0.23])
BASE_NO_READ = (0.85, 1.0)  # percent, per tunnel
BASE_UNROUTED = 0.2  # percent
BASE_DIVERT = 0.25  # percent
BASE_CARRIERS = 0.008  # share out of use on an ordinary day
LABOR_MARGIN = 1.27  # of what is planned: heads are planned with some spare
HARD_PICK = 0.035  # failed picks that a cell's nameplate rate already counts on
EYE_SLOWS = 0.85  # an infeed whose eye reads blocked holds back now and then


def generator(seed: int, first: int, site: int, what: int) -> np.random.Generator:
    """One of its own for every site and stretch: no site's chances hang on another's."""
    return np.random.Generator(np.random.PCG64([seed, first + 1_000_000, site, what]))


def cell_base(seed: int, site: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Fails and no-grasps in percent, leak and free-flow of each cell when it is well."""
    rng = np.random.Generator(np.random.PCG64([seed, site, 0xCE]))
    cells = LAYOUT["cells"]
    return (
        2.4 + 1.6 * rng.random(cells),
        1.5 + 1.2 * rng.random(cells),
        4.5 + 3.0 * rng.random(cells),
        42.0 + 14.0 * rng.random(cells),
    )


def wander(rng: np.random.Generator, minutes: int, every: int, *count: int) -> Floats:
    """Slow noise about 0 of deviation near 1, [minute, ...]: straight lines between draws."""
    knots = rng.standard_normal((minutes // every + 2, *count))
    at = np.arange(minutes) / every
    low = at.astype(np.int64)
    part = (at - low).reshape(-1, *(1 for _ in count))
    noise: Floats = knots[low] * (1 - part) + knots[low + 1] * part
    return noise


def fail_percent(seed: int, site: int, first: int, doing: Effects) -> Floats:
    """Percent of a cell's picks that fail, [minute, cell]."""
    minutes = doing.pack.shape[1]
    rng = generator(seed, first, site, 1)
    base = cell_base(seed, site)[0]
    noise = 0.35 * wander(rng, minutes, 20, len(base))
    percent: Floats = np.clip(base + noise + doing.cell_fail[site], 0.3, 60)
    return percent


def running(doing: Effects, plan: SitePlan, site: int, window: slice) -> NDArray[np.bool_]:
    """Cells that are switched on, whole and not in service, [minute, cell]."""
    down = doing.cell_down[site] | doing.cell_service[site]
    up: NDArray[np.bool_] = plan.cells_on[window] & ~down
    return up


def cell_capacity(
    seed: int, site: int, first: int, doing: Effects, plan: SitePlan, window: slice
) -> Floats:
    """Parcels of this minute that each cell could place, whole, [minute, cell]."""
    rng = generator(seed, first, site, 2)
    fails = fail_percent(seed, site, first, doing) / 100
    rate = CELL_RATE * SITES[site].volume * doing.cell_rate[site] * (1 - fails) / (1 - HARD_PICK)
    # whole parcels, the rest by chance
    made: Floats = np.floor(rate + rng.random(rate.shape)) * running(doing, plan, site, window)
    return made


def _site_inputs(
    seed: int, first: int, doing: Effects, plan: SitePlan, site: int, window: slice
) -> dict[str, NDArray[np.generic]]:
    minutes = doing.pack.shape[1]
    volume = SITES[site].volume
    rng = generator(seed, first, site, 0)
    swell = 1 + 0.045 * wander(rng, minutes, 45)
    rate = plan.expected[window] * doing.pack[site] * np.clip(swell, 0.85, 1.15)
    want = rng.poisson(rate[:, None] * INFEED_SHARES)
    jammed = (doing.jam[site] > 0) | doing.infeed_stop[site]
    dirty = doing.eye_dirty[site].reshape(minutes, LAYOUT["infeeds"], -1).any(axis=2)
    flow = 52.0 * volume * np.where(dirty, EYE_SLOWS, 1.0)
    share = np.repeat(plan.lane_share[window], LAYOUT["chutes_per_lane"], axis=1)
    share = share * plan.chute_share * doing.surge[site]
    edges = np.cumsum(share, axis=1)
    edges /= edges[:, -1:]
    base = plan.expected[window][:, None] * plan.lane_share[window]  # parcels, per lane
    planned = plan.forecast[window][:, None] * plan.lane_share[window]
    zones = planned.reshape(minutes, LAYOUT["zones"], -1).sum(axis=2)
    labor = {area: doing.labor[site][:, index, None] for index, area in enumerate(OUTBOUND)}
    doors = (plan.docked[window] & ~doing.door[site]).reshape(minutes, LAYOUT["lanes"], -1)
    loaders = LABOR_MARGIN * base / CONTAINER + 0.18 + 0.35 * plan.rush[window]
    noise = np.exp(0.18 * wander(rng, minutes, 20, 2))
    no_read = np.array(BASE_NO_READ) * noise + doing.no_read[site]
    air = 1 + 2.0 * doing.air[site][:, None]
    tilt = 0.75 + 0.5 * np.random.Generator(np.random.PCG64([seed, site, 0xD1])).random(CHUTES)
    stations = plan.stations[window] * STATION_RATE * volume * labor["induct"][:, 0]
    return {
        "want": want,
        "infeed_out": np.where(jammed, 0.0, np.floor(flow)),
        "infeed_in": np.where(doing.infeed_stop[site], 0.0, np.floor(flow)),
        "robots": cell_capacity(seed, site, first, doing, plan, window).sum(axis=1),
        "manual": np.floor(stations + rng.random(minutes)),
        "speed": doing.loop_speed[site],
        "usable": np.floor(LOOP * (1 - BASE_CARRIERS - doing.carriers[site])),
        "no_read": np.clip(no_read / 100, 0, 0.6),
        "unrouted": (BASE_UNROUTED + doing.unrouted[site]) / 100,
        "edges": edges,
        "divert": np.clip((BASE_DIVERT * tilt * air + doing.divert[site]) / 100, 0, 0.5),
        "aborted": np.repeat(doing.aborted[site][:, None] / 100, CHUTES, axis=1),
        "shut": doing.chute_shut[site],
        "unload": (LABOR_MARGIN * zones + 2) * labor["sort"],
        "move": (LABOR_MARGIN * zones / CONTAINER + 0.12) * labor["stage"],
        "supply": doing.supply[site],
        "borrowed": doing.borrowed[site],
        "load": loaders * labor["load"] * doors.any(axis=2),
        "pulled": plan.pulled[window],
        "chance": rng.random((minutes, 4, CHUTES)),
        "luck": rng.random((minutes, 8)),
    }


def inputs_of(
    seed: int, first: int, doing: Effects, plans: Sequence[SitePlan], window: slice
) -> Inputs:
    """Those of the stretch of minutes from `first` on; `window` is the same in the plans."""
    each = [_site_inputs(seed, first, doing, plan, site, window) for site, plan in enumerate(plans)]
    axis = {"chance": 2}
    return Inputs(
        **{
            name: np.ascontiguousarray(
                np.stack([one[name] for one in each], axis=axis.get(name, 1))
            )
            for name in each[0]
        }
    )
