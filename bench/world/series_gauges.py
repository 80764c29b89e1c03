"""The readings of each gauge, made from the minutes.

Series that rules take the mean of are on a grid of a power of two, so that their sums are exact in
any order; the others are on a decimal grid. See `series_block.OFF_GRID` for sites with other units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bench.world.canonical import Values
from bench.world.catalogue import CELL_STATES
from bench.world.layout import LAYOUT
from bench.world.series_block import Block, Made
from bench.world.series_hash import Hashes, unit

Gauge = Callable[[Block, Hashes], Made]

FULL_BELT = 60.0  # parcels a minute from which on there is always a gap to measure
SEAL_FAILS = 0.02
FREEFLOW_MEASURED = 0.6  # of the samples of a minute with picks; the others repeat the last value
FREEFLOW_HOLD_MIN = 30  # minutes that a value is repeated; behind that there is none
FREEFLOW_LOW = 0.01  # of measurements: the cup was not free, and what is read is below 5 mbar
LOWEST_FREEFLOW = 5.0  # mbar


def _about(field: str, width: float, per_unit: float, *, highest: float = np.inf) -> Gauge:
    """The minute's value, `width` of the unit around it."""

    def made(block: Block, numbers: Hashes) -> Made:
        level = block.floats(field)
        values = block.spread(numbers, width)
        values += level
        np.maximum(values, 0.0, out=values)
        if highest < np.inf:
            np.minimum(values, highest, out=values)
        unknown = np.isnan(level)
        if not unknown.any():
            return Made(block.rounded(values, per_unit))
        silent = np.broadcast_to(unknown, values.shape)
        return Made(block.rounded(values, per_unit), ~silent, silent)

    return made


def _moving(field: str, width: float, per_unit: float, slip: str = "") -> Gauge:
    """The minute's value and a share of it, so that what stands still reads as that; `slip` is a
    field of relative deviations."""

    def made(block: Block, numbers: Hashes) -> Made:
        level = block.floats(field)
        if slip:
            level *= 1.0 + block.floats(slip)
        values = block.spread(numbers, width)
        values += 1.0
        values *= level
        unknown = np.isnan(level)
        if not unknown.any():
            return Made(block.rounded(values, per_unit))
        silent = np.broadcast_to(unknown, values.shape)
        return Made(block.rounded(values, per_unit), ~silent, silent)

    return made


def _setpoint(block: Block, numbers: Hashes) -> Made:
    # On the grid at every site: the speed beside it keeps their ratio off the round numbers.
    values = np.rint(block.floats("setpoint") * 1000.0) / 1000.0
    return Made(np.broadcast_to(values, numbers.shape))


def _whole(field: str, factor: float = 1.0) -> Gauge:
    """The minute's value as it is."""

    def made(block: Block, numbers: Hashes) -> Made:
        return Made(np.broadcast_to(block.floats(field) * factor, numbers.shape))

    return made


def _cell_rate(block: Block, numbers: Hashes) -> Made:
    placed = block.floats("picks") - block.floats("fails")
    return Made(np.broadcast_to(np.maximum(placed, 0.0) * 60.0, numbers.shape))


def _merge_gap(block: Block, numbers: Hashes) -> Made:
    level = block.floats("gap_mm")
    part = unit(numbers)
    # At part 0.1 the factor is 1: a tenth of the gaps is shorter than the minute's value.
    values = level * (0.75 + part * (2.3 + 2.0 * part))
    flow = block.of_rows("inducted", slice(0, 1)).astype(np.float64) / FULL_BELT
    usable = (block.second_unit(numbers) < flow) & ~np.isnan(level)
    return Made(block.rounded(values, 1.0), usable, ~usable)


def _leak(block: Block, numbers: Hashes) -> Made:
    level = block.floats("leak")
    values = block.spread(numbers, 0.2)
    values += 1.0
    values *= level
    held = (block.minute("picks") > 0) & ~np.isnan(level)
    sealed = block.second_unit(numbers) >= SEAL_FAILS
    return Made(block.rounded(values, 10.0), held & sealed, held & ~sealed)


def _freeflow(block: Block, numbers: Hashes) -> Made:
    """Sample and hold. How far back a value may come from is bounded, so that a reading does not
    depend on the window that is asked for: the block begins earlier than what is used of it."""
    before = min(FREEFLOW_HOLD_MIN, block.first)
    block = replace(block, first=block.first - before)
    numbers = block.hashes()
    level = block.floats("freeflow")
    values = block.spread(numbers, 0.12)
    values += 1.0
    values *= level
    part = block.second_unit(numbers)
    low = part < FREEFLOW_LOW * FREEFLOW_MEASURED
    values = np.where(low, part * (LOWEST_FREEFLOW / (FREEFLOW_LOW * FREEFLOW_MEASURED)), values)
    np.minimum(values, np.where(low, LOWEST_FREEFLOW - 0.1, np.inf), out=values)
    measured = (part < FREEFLOW_MEASURED) & (block.minute("picks") > 0) & ~np.isnan(level)
    values = block.rounded(values, 10.0)

    assets, minutes, per_minute = measured.shape
    places = np.arange(minutes * per_minute)
    newest = np.where(measured.reshape(assets, -1), places, -1)
    np.maximum.accumulate(newest, axis=1, out=newest)
    used = slice(before * per_minute, None)
    source = newest[:, used]
    held = (source >= 0) & (places[used] - source <= FREEFLOW_HOLD_MIN * per_minute)
    values = np.take_along_axis(values.reshape(assets, -1), np.maximum(source, 0), axis=1)
    shape = (assets, minutes - before, per_minute)
    return Made(values.reshape(shape), held.reshape(shape))


def _state_seconds(state: str) -> Gauge:
    place = CELL_STATES.index(state)
    cells = LAYOUT["cells"]

    def made(block: Block, numbers: Hashes) -> Made:
        columns = np.arange(cells)[block.rows] * len(CELL_STATES) + place
        seconds: Values = block.of_rows("state_s", columns).astype(np.float64)
        return Made(np.broadcast_to(seconds, numbers.shape))

    return made


GAUGES: Mapping[str, Gauge] = {
    "infeed_occupancy": _about("occupancy", 1.5, 8.0, highest=100.0),
    "motor_on": _whole("motor_on"),
    "merge_gap": _merge_gap,
    "double_pct": _about("double_pct", 0.2, 64.0),
    **{f"cell_state_seconds:{state}": _state_seconds(state) for state in CELL_STATES},
    "cell_leak": _leak,
    "cell_freeflow": _freeflow,
    "cell_no_grasp": _about("no_grasp", 0.8, 16.0, highest=100.0),
    "cell_rate": _cell_rate,
    "manual_rate": _whole("manual", 60.0),
    "arrivals_rate": _whole("arrivals", 60.0),
    "sorter_speed": _moving("speed", 0.004, 1000.0),
    "sorter_setpoint": _setpoint,
    "encoder_speed": _moving("speed", 0.003, 1000.0, slip="slip"),
    "recirc_pct": _about("recirc_pct", 0.3, 64.0, highest=100.0),
    "air_pressure": _about("air", 0.05, 100.0),
    "drive_load": _about("load", 2.5, 8.0),
    "drive_temp": _about("temp", 0.6, 10.0),
}
