"""Whole minutes of some assets of one series: what the makers of samples work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.world.series_hash import Hashes, hashes, other_unit, unit

Rows = slice | NDArray[np.int64]
"""Which assets, by their place in the order of numbers."""


def rows_of(places: Sequence[int]) -> Rows:
    """A slice where one does: arrays are read several times faster by it."""
    first, count = places[0], len(places)
    if list(places) == list(range(first, first + count)):
        return slice(first, first + count)
    return np.array(places, dtype=np.int64)


Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

OFF_GRID = 0.37
"""Of a step. A site that measures in another unit has its readings beside the round numbers that
thresholds are: there, no mean, median or quantile of under ten thousand readings can equal one, and
the last bit that a conversion loses decides nothing. Everywhere else readings are round, and a
threshold is sometimes met exactly."""


class Made(NamedTuple):
    """[asset, minute, sample of the minute]. `usable` is False where the sensor had nothing to
    tell; `odd` where, of those, it said so. None: usable everywhere, odd nowhere."""

    values: NDArray[Any]
    usable: Flags | None = None
    odd: Flags | None = None


@dataclass(slots=True, kw_only=True)
class Block:
    """Minutes `first` up to `last` of `rows` of one series. `keys` are [asset, 1]."""

    fields: Mapping[str, NDArray[Any]]
    """[site, minute, asset], of the whole world."""
    site: int
    rows: Rows
    first: int
    last: int
    per_minute: int
    start_number: int
    """The number of the world's first sample: time / grain."""
    keys: Hashes
    off_grid: float

    def minute(self, name: str) -> NDArray[Any]:
        """[asset, minute, 1], as the simulation left it."""
        return self.of_rows(name, self.rows)

    def of_rows(self, name: str, rows: Rows) -> NDArray[Any]:
        columns: NDArray[Any] = self.fields[name][self.site][self.first : self.last, rows]
        return columns.T[:, :, np.newaxis]

    def floats(self, name: str) -> Floats:
        return self.minute(name).astype(np.float64)

    def hashes(self) -> Hashes:
        """[asset, minute, sample of the minute]."""
        first = self.start_number + self.first * self.per_minute
        last = self.start_number + self.last * self.per_minute
        counters = np.arange(first, last, dtype=np.uint64)
        return hashes(self.keys, counters).reshape(len(self.keys), -1, self.per_minute)

    def rounded(self, values: Floats, per_unit: float) -> Floats:
        """On the grid of 1/per_unit; in place."""
        values *= per_unit
        np.rint(values, out=values)
        if self.off_grid:
            values += self.off_grid
        values /= per_unit
        return values

    def spread(self, numbers: Hashes, width: float) -> Floats:
        """Evenly in [-width, width)."""
        noise = unit(numbers)
        noise -= 0.5
        noise *= 2 * width
        return noise

    def second_unit(self, numbers: Hashes) -> Floats:
        return other_unit(numbers)
