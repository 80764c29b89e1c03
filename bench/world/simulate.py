"""Builds the minutes of a world: plan, faults, flow, sensors; a day at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world import faults
from bench.world.catalogue import CELL_STATES
from bench.world.layout import ASSETS, SITES
from bench.world.minutes import SILENT_GROUPS, Episode, Minutes
from bench.world.simulate_effects import Effects, effects
from bench.world.simulate_flow import State, run
from bench.world.simulate_inputs import inputs_of
from bench.world.simulate_plan import BEFORE, SitePlan, site_plan
from bench.world.simulate_sensors import Slow, sense

DAY = 1440
WARM_UP = 720  # minutes before the world begins: the lanes fill, the drives get warm
Arrays = dict[str, NDArray[Any]]

_SHAPES: dict[str, tuple[str | int | None, type[np.generic]]] = {
    "arrivals": (None, np.uint16),
    "pack": (None, np.uint16),
    "forecast_arrivals": (None, np.uint16),
    "forecast_pack": (None, np.uint16),
    "inducted": (None, np.uint16),
    "recirc_pct": (None, np.float32),
    "lost": (None, np.uint16),
    "unassigned": (None, np.uint16),
    "reads": (None, np.uint16),
    "occupancy": ("INF", np.float32),
    "motor_on": ("INF", np.bool_),
    "eye_count": ("PE", np.uint16),
    "eye_mode": ("PE", np.uint8),
    "gap_mm": (None, np.float32),
    "double_pct": (None, np.float32),
    "picks": ("RC", np.uint16),
    "fails": ("RC", np.uint16),
    "state_s": ("RC", np.uint8),
    "leak": ("RC", np.float32),
    "freeflow": ("RC", np.float32),
    "no_grasp": ("RC", np.float32),
    "manual": ("MS", np.uint16),
    "scans": ("ST", np.uint16),
    "no_reads": ("ST", np.uint16),
    "speed": (None, np.float32),
    "setpoint": (None, np.float32),
    "slip": (None, np.float32),
    "attempts": ("CH", np.uint8),
    "divert_fails": ("CH", np.uint8),
    "lane_full": ("CH", np.uint8),
    "full": ("CH", np.float32),
    "air": (None, np.float32),
    "load": ("DRV", np.float32),
    "temp": ("DRV", np.float32),
    "lane_occupied": ("STG", np.uint16),
    "empties": ("ZN", np.uint16),
    "containers_used": ("ZN", np.uint8),
    "loaded": ("STG", np.uint16),
    "metrics_silent": (len(SILENT_GROUPS), np.bool_),
    "warehouse_silent": (None, np.bool_),
}
ARRAYS = tuple(_SHAPES)


def _allocate(sites: int, minutes: int) -> Arrays:
    made: Arrays = {}
    for name, (count, dtype) in _SHAPES.items():
        shape: tuple[int, ...] = (sites, minutes)
        if count is not None:
            shape = (*shape, len(ASSETS[count]) if isinstance(count, str) else count)
        if name == "state_s":
            shape = (*shape, len(CELL_STATES))
        made[name] = np.zeros(shape, dtype=dtype)
    return made


def _cast(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if np.issubdtype(dtype, np.integer):
        values = np.clip(values, 0, np.iinfo(dtype).max)
    cast: NDArray[Any] = values.astype(dtype)
    return cast


def _departures(plans: Sequence[SitePlan]) -> dict[str, NDArray[np.int64]]:
    columns = {
        name: np.concatenate([plan.departures[name] for plan in plans])
        for name in plans[0].departures
    }
    order = np.lexsort((columns["lane"], columns["site"], columns["cpt"]))
    return {name: column[order] for name, column in columns.items()}


def simulate(
    seed: int, start: int, days: int, sites: int, episodes: Sequence[Episode] | None = None
) -> Minutes:
    """The first `sites` sites for `days` days from `start`, seconds since the epoch.

    `episodes` replaces the seeded ones. Raises ValueError for a start off the whole minute, for no
    days, and for more sites than there are.
    """
    if start % 60 or days < 1 or not 1 <= sites <= len(SITES):
        raise ValueError(
            f"a world needs a whole minute to start at, a day or more and 1 to {len(SITES)} sites;"
            f" not start={start}, days={days}, sites={sites}"
        )
    minutes = DAY * days
    told = faults.episodes(seed, start, days, sites) if episodes is None else tuple(episodes)
    plans = [site_plan(seed, site, start, minutes, told) for site in range(sites)]
    out = _allocate(sites, minutes)
    state, slow = State(sites=sites), Slow.of(sites)
    for first in (-WARM_UP, *range(0, minutes, DAY)):
        span = WARM_UP if first < 0 else DAY
        doing: Effects = effects(told, start + 60 * first, span, sites)
        window = slice(first + BEFORE, first + BEFORE + span)
        inputs = inputs_of(seed, first, doing, plans, window)
        flows = run(state, inputs)
        made = sense(seed, first, doing, plans, window, inputs, flows, slow)
        if first >= 0:
            for name, values in made.items():
                out[name][:, first : first + span] = _cast(values, out[name].dtype)
    return Minutes(
        start=start,
        sites=sites,
        minutes=minutes,
        departures=_departures(plans),
        episodes=told,
        **out,
    )
