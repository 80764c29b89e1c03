"""What the metrics backend of a site holds: the canonical samples with the site's quirks.

Units, spellings, sentinels, cumulative counters. A reader that knows the site's configuration gets
the canonical samples back: those that are not valid are served as nothing or as a sentinel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np

from bench.world.canonical import Times, Values
from bench.world.catalogue import PREFIX, SERIES, SERVED_UNITS, Kind
from bench.world.layout import ASSETS, SITES, spell
from bench.world.series import MINUTE, CanonicalSeries
from bench.world.series_block import rows_of
from bench.world.served_counters import ServedCounters

SENTINELS: Mapping[str, float] = {
    "merge_gap": -1.0,  # no gap: the belt is empty
    "cell_leak": 9999.0,  # the seal failed
    "drive_temp": 9999.0,  # off
    "drive_load": 9999.0,  # off
    "recirc_pct": nan,  # stopped
    "double_pct": nan,  # too little flow
}
"""What is served for a sample that was taken and has nothing to tell; other series serve none."""

BAR_OF_PSI = 0.0689475729
METRES_OF_FOOT = 0.3048

_TO_SERVED: Mapping[str, Callable[[Values], Values]] = {
    "fraction": lambda percent: percent / 100.0,
    "ms": lambda seconds: seconds * 1000.0,
    "ft/min": lambda metres: metres * 60.0 / METRES_OF_FOOT,
    "psi": lambda bar: bar / BAR_OF_PSI,
    "fahrenheit": lambda celsius: celsius * 1.8 + 32.0,
}


class Served(NamedTuple):
    """The samples there are, ascending; no two of one time."""

    times: Times
    values: Values


@dataclass(frozen=True, slots=True)
class Held:
    """One series as the backend knows it. `row` is the asset's place in the order of numbers."""

    site: int
    series: str
    row: int
    labels: Mapping[str, str]


class ServedSeries:
    """All sites' samples as they are served. `seed` is of the restarts."""

    def __init__(self, canonical: CanonicalSeries, seed: int) -> None:
        self.canonical = canonical
        self.counters = ServedCounters(canonical, seed)

    def prepare(self, site: int) -> None:
        """Makes what the first read of each counter and state makes otherwise: so that no answer
        is slow for being the first. A few seconds for 90 days."""
        moment = self.canonical.start
        for spec in SERIES.values():
            if spec.kind is not Kind.GAUGE:
                rows = range(len(ASSETS[spec.assets]))
                self.read(site, spec.name, rows, moment, moment + MINUTE)

    def held(self, site: int) -> Iterator[Held]:
        """Every series of a site, in the order of the catalogue and of numbers."""
        style = SITES[site]
        for spec in SERIES.values():
            metric, _, state = spec.name.partition(":")
            for row, asset in enumerate(ASSETS[spec.assets]):
                labels = {
                    "__name__": PREFIX + metric,
                    "asset": spell(asset, style.spelling),
                    "site": style.facts.name,
                }
                if state:
                    labels["state"] = state
                yield Held(site, spec.name, row, labels)

    def read(
        self, site: int, series: str, rows: Sequence[int], start: int, end: int
    ) -> list[Served]:
        """The samples in (start, end] of the assets at these places in the order of numbers."""
        match SERIES[series].kind:
            case Kind.GAUGE:
                return self._gauges(site, series, rows, start, end)
            case Kind.COUNTER:
                times, values, valid = self.counters.read(site, series, rows, start, end)
                return [
                    Served(times[there], one[there])
                    for one, there in zip(values, valid, strict=True)
                ]
            case Kind.STATE:
                assets = ASSETS[SERIES[series].assets]
                changes = (
                    self.canonical.changes(site, series, assets[row], start, end) for row in rows
                )
                return [Served(times, values.astype(np.float64)) for times, values in changes]

    def _gauges(
        self, site: int, series: str, rows: Sequence[int], start: int, end: int
    ) -> list[Served]:
        found = self.canonical.read(site, series, rows_of(rows), start, end)
        values, there = to_served(site, series, found.values), found.valid
        if found.odd is not None and series in SENTINELS:
            values = np.where(found.odd, SENTINELS[series], values)
            there = there | found.odd
        if there.all():
            return [Served(found.times, one) for one in values]
        return [
            Served(found.times[taken], one[taken]) for one, taken in zip(values, there, strict=True)
        ]


def to_served(site: int, series: str, values: Values) -> Values:
    """Values in the unit the site reports in. Sentinels are not values."""
    unit = unit_of(site, series)
    return _TO_SERVED[unit](values) if unit in _TO_SERVED else values


def unit_of(site: int, series: str) -> str:
    """The unit a site reports a series in."""
    metric = series.partition(":")[0]
    default = SERVED_UNITS.get(metric, (SERIES[series].unit,))[0]
    return SITES[site].units.get(metric, default)
