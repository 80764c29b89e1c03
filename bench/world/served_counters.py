"""Counters as they are read: cumulative, with restarts, and two of them of 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from bench.world.canonical import Times, Values
from bench.world.catalogue import SERIES
from bench.world.layout import ASSETS, SITES
from bench.world.series import MINUTE, CanonicalSeries
from bench.world.series_block import Flags, rows_of
from bench.world.series_hash import drawn, stream
from bench.world.served_restarts import MODULUS, NEVER, Numbers, RestartPlan, Restarts

DAY = 86_400  # seconds
PREFIX_EVERY = 60  # minutes between two stored totals
WRAPS = frozenset({"parcels_total", "tracking_lost_total"})
SOON = 400  # parcels; the count of lost ones starts this near to its first wrap


@dataclass(frozen=True, slots=True)
class _Counter:
    """`totals` are of every PREFIX_EVERY minutes, from the world's start."""

    totals: Numbers
    restarts: Restarts


class ServedCounters:
    """Cumulative values for any window. What one counter needs is made when it is first read."""

    def __init__(self, canonical: CanonicalSeries, seed: int) -> None:
        self._canonical = canonical
        self._seed = seed
        self._counters: dict[tuple[int, str, int], _Counter] = {}

    def read(
        self, site: int, series: str, rows: Sequence[int], start: int, end: int
    ) -> tuple[Times, Values, Flags]:
        """Times, then values and valid as [asset, sample]. Values that are not valid are never
        served."""
        world = self._canonical.start
        grain = SERIES[series].grain_s
        # From a stored total on: what is counted in between is little.
        stretch = PREFIX_EVERY * MINUTE
        block = max((start - world) // stretch, 0)
        begin = min(world + block * stretch, start)
        found = self._canonical.read(site, series, rows_of(rows), begin, end)
        cumulative = found.values.cumsum(axis=1)
        skipped = start // grain - begin // grain
        times, valid = found.times[skipped:], found.valid[:, skipped:]
        values = cumulative[:, skipped:]
        if not len(times):
            return times, values, valid
        numbers = times[0] // grain, times[-1] // grain
        for place, row in enumerate(rows):
            counter = self._counter(site, series, row)
            behind = counter.restarts.numbers
            total = counter.totals[min(block, len(counter.totals) - 1)]
            first, last = behind.searchsorted(numbers)
            bases = counter.restarts.bases
            values[place] += total - bases[first]
            for restart in range(first, last):
                passed = int(behind[restart]) - int(numbers[0]) + 1
                values[place, passed:] -= bases[restart + 1] - bases[restart]
        if series in WRAPS:
            values %= MODULUS
        return times, values, valid

    def restarts(self, site: int, series: str, asset: str) -> Times:
        """The times of the samples that a counter restarts right behind."""
        row = ASSETS[SERIES[series].assets].index(asset)
        return self._counter(site, series, row).restarts.numbers * SERIES[series].grain_s

    def _counter(self, site: int, series: str, row: int) -> _Counter:
        counter = self._counters.get((site, series, row))
        if counter is None:
            counter = self._counters[site, series, row] = self._made(site, series, row)
        return counter

    def _made(self, site: int, series: str, row: int) -> _Counter:
        world = self._canonical
        times, values, valid, _ = world.read(
            site, series, slice(row, row + 1), world.start, world.end
        )
        grain = SERIES[series].grain_s
        totals = values[0].astype(np.int64).cumsum()
        asset = ASSETS[SERIES[series].assets][row]
        plan = RestartPlan(
            times[valid[0]] // grain,
            totals[valid[0]],
            initial=self._initial(site, series, asset),
            wraps=series in WRAPS,
        )
        wanted = [-(-moment // grain) for moment in self._moments(site, asset)]
        each = PREFIX_EVERY * (MINUTE // grain)
        stored = np.concatenate([np.zeros(1, dtype=np.int64), totals[each - 1 :: each]])
        return _Counter(totals=stored, restarts=plan.made(wanted))

    def _initial(self, site: int, series: str, asset: str) -> int:
        """Counters ran before the world began."""
        number = drawn(stream(self._seed, site, "initial", series), int(asset.rpartition("-")[2]))
        if series == "tracking_lost_total":
            return MODULUS - 1 - number % SOON
        return number % (NEVER // 2)  # not so near that there is no sample to restart behind

    def _moments(self, site: int, asset: str) -> list[int]:
        """When it restarts, seconds since the epoch, ascending: tunnels at local midnight, a cell
        by itself once a day, the others all of a kind once a day."""
        prefix, _, number = asset.partition("-")
        start, end = self._canonical.start, self._canonical.end
        if prefix == "ST":
            return _midnights(SITES[site].facts.zone, start, end)
        place = (prefix, number) if prefix == "RC" else (prefix,)
        key = stream(self._seed, site, "restart", *place)
        moments = (
            start + DAY * day + drawn(key, day) % DAY for day in range((end - start) // DAY + 1)
        )
        return [moment for moment in moments if moment < end]


def _midnights(zone: str, start: int, end: int) -> list[int]:
    local = ZoneInfo(zone)
    day = datetime.fromtimestamp(start, local).date()
    found: list[int] = []
    while True:
        midnight = datetime(day.year, day.month, day.day, tzinfo=local).astimezone(UTC)
        moment = int(midnight.timestamp())
        if moment >= end:
            return found
        if moment >= start:
            found.append(moment)
        day += timedelta(days=1)
