"""The samples of every series, second by second, made from the minutes when they are asked for.

A sample at time T, a multiple of the series' grain, belongs to the minute that T-1 lies in. What it
is depends on its place alone, so a window can be asked for whole or in parts. About one sample in
200 of gauges and counters is missing, and all of them in minutes in which the feed was silent.
States are written when they change, see `series_states.written`; a chute's every three hours too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Changes, Times, Values, Window
from bench.world.catalogue import SERIES, SERVED_UNITS, Kind
from bench.world.layout import ASSETS, LAYOUT, SITES
from bench.world.minutes import SILENT_GROUPS, Minutes
from bench.world.series_block import OFF_GRID, Block, Flags, Made, Rows
from bench.world.series_counters import FIELDS, counted
from bench.world.series_gauges import GAUGES
from bench.world.series_hash import Hashes, below, drawn, hashes, stream
from bench.world.series_states import (
    SLOTS,
    Silence,
    eye_runs,
    full_runs,
    level_of,
    repeated,
    silences,
    within,
    written,
)

MINUTE = 60  # seconds
MISSING = 328  # of 65,536 samples: 0.5 %
REPEAT_S = 10_800
"""Seconds after which a chute's state is written again though it has not changed. Without that a
chute that seldom fills would hardly ever be known: states are carried for four hours."""
GROUP_OF: Mapping[str, str] = {
    "INF": "infeed",
    "PE": "infeed",
    "SG": "infeed",
    "RC": "cells",
    "MS": "cells",
    "ST": "tunnels",
    "LS": "loop",
    "CH": "chutes",
    "AIR": "plant",
}
"""Prefix to feed, but for drives: those of the robots are on the cells' feed."""
_ROBOT_DRIVES = 10  # from this number on


class Read(NamedTuple):
    """A window of several assets: values, valid and odd are [asset, sample]. `odd` samples are not
    valid, but were taken: the sensor said that it had nothing to tell. Gauges that are not valid
    are NaN."""

    times: Times
    values: Values
    valid: Flags
    odd: Flags | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """One series at one site."""

    grain_s: int
    assets: Mapping[str, int]
    keys: Hashes
    groups: NDArray[np.int64]
    off_grid: float


class CanonicalSeries:
    """What the sensors of all sites truly read. `minutes.start` has to be a whole minute."""

    def __init__(self, minutes: Minutes, seed: int) -> None:
        if minutes.start % MINUTE:
            raise ValueError(f"the world starts at {minutes.start}, which is no whole minute")
        self.start = minutes.start
        self.end = minutes.start + MINUTE * minutes.minutes
        self.sites = minutes.sites
        self._seed = seed
        self._minutes = minutes.minutes
        shape = (minutes.sites, minutes.minutes)
        self._fields: dict[str, NDArray[Any]] = {
            field.name: np.asarray(array).reshape(*shape, -1)
            for field in fields(minutes)
            if isinstance(array := getattr(minutes, field.name), np.ndarray)
            and array.shape[:2] == shape
        }
        self._silent = self._fields["metrics_silent"]
        self._ever_silent: Flags = np.logical_or.reduce(self._silent, axis=1)
        self._plans: dict[tuple[int, str], _Plan] = {}
        self._full: dict[tuple[int, int], Changes] = {}
        self._silences: dict[tuple[int, int], tuple[Silence, ...]] = {}

    def window(self, site: int, series: str, asset: str, start: int, end: int) -> Window:
        """See `Canonical.window`. Samples outside of the world are not valid."""
        row = self._plan(site, series).assets[asset]
        times, values, valid, _ = self.read(site, series, slice(row, row + 1), start, end)
        return Window(times, values[0], valid[0])

    def windows(self, site: int, series: str, start: int, end: int) -> tuple[Times, Values, Flags]:
        """The windows of all assets in the order of their numbers: times, then values and valid
        as [asset, sample]."""
        times, values, valid, _ = self.read(site, series, slice(None), start, end)
        return times, values, valid

    def read(self, site: int, series: str, rows: Rows, start: int, end: int) -> Read:
        """The windows of the assets at these places in the order of numbers."""
        plan = self._plan(site, series)
        grain = plan.grain_s
        low, high = start // grain + 1, end // grain  # sample numbers, both in the window
        times = np.arange(low, high + 1, dtype=np.int64) * grain
        per_minute, first_number = MINUTE // grain, self.start // grain + 1
        first = max((low - first_number) // per_minute, 0)
        last = min((high - first_number) // per_minute + 1, self._minutes)
        keys = plan.keys[rows]
        if high < low or last <= first:
            return _nothing(times, len(keys), SERIES[series].kind)
        block = Block(
            fields=self._fields,
            site=site,
            rows=rows,
            first=first,
            last=last,
            per_minute=per_minute,
            start_number=first_number,
            keys=keys,
            off_grid=plan.off_grid,
        )
        numbers = block.hashes()
        made = (
            counted(block, FIELDS[series], numbers)
            if series in FIELDS
            else GAUGES[series](block, numbers)
        )
        there = ~below(numbers, MISSING)
        groups = plan.groups[rows]
        if self._ever_silent[site, groups].any():
            there &= ~self._silent[site][first:last, groups].T[:, :, np.newaxis]
        begin = low - first_number - first * per_minute
        return _cut(times, made, there, begin, keep_values=series in FIELDS)

    def changes(self, site: int, series: str, asset: str, start: int, end: int) -> Changes:
        """See `Canonical.changes`: what was written, see `series_states.written`."""
        plan = self._plan(site, series)
        row = plan.assets[asset]
        if series == "chute_full":
            return within(self._chute(site, row), start, end)
        raw = within(self._eye(site, row, start, end), start, end)
        silent = [
            stretch
            for stretch in self.silences(site, int(plan.groups[row]))
            if stretch[0] < end and stretch[1] + 1 > start
        ]
        changes = written(
            raw, silent, lambda at: level_of(self._eye(site, row, at - 1, at), at), self.end
        )
        return within(changes, start, end) if silent else changes

    def all_changes(self, site: int, series: str, start: int, end: int) -> tuple[Changes, ...]:
        """Of every asset, in the order of their numbers."""
        assets = self._plan(site, series).assets
        return tuple(self.changes(site, series, asset, start, end) for asset in assets)

    def silences(self, site: int, group: int) -> tuple[Silence, ...]:
        """When a feed was silent, ascending."""
        found = self._silences.get((site, group))
        if found is None:
            found = silences(self._silent[site][:, group], self.start)
            self._silences[site, group] = found
        return found

    def group(self, site: int, series: str, asset: str) -> int:
        """Which of SILENT_GROUPS carries a series."""
        plan = self._plan(site, series)
        return int(plan.groups[plan.assets[asset]])

    def _eye(self, site: int, row: int, start: int, end: int) -> Changes:
        """All of (start, end] and some beside it, silences apart."""
        first = max((start - self.start) // MINUTE - 1, 0)
        last = min((end - self.start) // MINUTE + 2, self._minutes)
        if last <= first:
            return Changes(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8))
        modes = self._fields["eye_mode"][site][first:last, row]
        counts = self._fields["eye_count"][site][first:last, row]
        origin = self.start // MINUTE
        counters = np.arange((origin + first) * SLOTS, (origin + last) * SLOTS, dtype=np.uint64)
        key = self._plan(site, "eye_blocked").keys[row]
        is_last = (row + 1) % LAYOUT["eyes_per_infeed"] == 0
        following = self._fields["eye_count"][site][first:last, row if is_last else row + 1]
        numbers = hashes(key, counters).reshape(-1, SLOTS)
        times, values = eye_runs(modes, counts, following, numbers)
        return Changes(times + (self.start + MINUTE * first), values)

    def _chute(self, site: int, row: int) -> Changes:
        """Of the whole world. Chutes fill seldom enough for that to be kept."""
        found = self._full.get((site, row))
        if found is None:
            plan = self._plan(site, "chute_full")
            origin = self.start // MINUTE
            counters = np.arange(origin, origin + self._minutes, dtype=np.uint64)
            shares = self._fields["full"][site][:, row]
            times, values = full_runs(shares, hashes(plan.keys[row], counters))
            raw = Changes(times + self.start, values)
            group = int(plan.groups[row])
            changes = written(
                raw, self.silences(site, group), lambda at: level_of(raw, at), self.end
            )
            phase = 1 + drawn(int(plan.keys[row, 0]), self.start) % REPEAT_S
            again = np.arange(self.start + phase, self.end + 1, REPEAT_S, dtype=np.int64)
            silent = self._silent[site][(again - 1 - self.start) // MINUTE, group]
            found = repeated(changes, raw, again[~silent])
            self._full[site, row] = found
        return found

    def _plan(self, site: int, series: str) -> _Plan:
        """Raises KeyError for a series or a site that there is not."""
        plan = self._plans.get((site, series))
        if plan is None:
            plan = self._plans[site, series] = self._planned(site, series)
        return plan

    def _planned(self, site: int, series: str) -> _Plan:
        spec = SERIES[series]
        if not 0 <= site < self.sites:
            raise KeyError(f"site {site}: the world has sites 0 to {self.sites - 1}")
        # States of one metric share their misses: they come with one scrape.
        metric = series.partition(":")[0]
        assets = ASSETS[spec.assets]
        unit = SITES[site].units.get(metric)
        return _Plan(
            grain_s=spec.grain_s,
            assets={asset: row for row, asset in enumerate(assets)},
            keys=np.array(
                [[stream(self._seed, site, metric, asset)] for asset in assets], dtype=np.uint64
            ),
            groups=np.array([SILENT_GROUPS.index(_group(asset)) for asset in assets]),
            off_grid=OFF_GRID if unit not in {None, SERVED_UNITS.get(metric, (None,))[0]} else 0.0,
        )


def _group(asset: str) -> str:
    prefix, _, number = asset.partition("-")
    if prefix == "DRV":
        return "cells" if int(number) >= _ROBOT_DRIVES else "loop"
    return GROUP_OF[prefix]


def _cut(times: Times, made: Made, there: Flags, begin: int, *, keep_values: bool) -> Read:
    """The samples of the window out of whole minutes; `begin` is its first one's place in them,
    negative when the window starts before the world."""
    assets, count = there.shape[0], len(times)
    valid = there if made.usable is None else there & made.usable
    odd = None if made.odd is None else (there & made.odd).reshape(assets, -1)
    values = made.values.astype(np.float64).reshape(assets, -1)
    valid = valid.reshape(assets, -1)
    if begin < 0 or begin + count > valid.shape[1]:
        before = max(-begin, 0)
        behind = max(begin + count - valid.shape[1], 0)
        margin = ((0, 0), (before, behind))
        valid, values = np.pad(valid, margin), np.pad(values, margin)
        odd = None if odd is None else np.pad(odd, margin)
        begin = max(begin, 0)
    part = slice(begin, begin + count)
    values, valid = values[:, part], valid[:, part]
    if not keep_values:
        values[~valid] = np.nan
    return Read(times, values, valid, None if odd is None else odd[:, part])


def _nothing(times: Times, assets: int, kind: Kind) -> Read:
    shape = (assets, len(times))
    values = np.zeros(shape) if kind is Kind.COUNTER else np.full(shape, np.nan)
    return Read(times, values, np.zeros(shape, dtype=np.bool_), None)
