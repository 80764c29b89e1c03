"""The whole dock in one place: what truly was, of every site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bench.world.cache import load_minutes
from bench.world.canonical import Changes, SiteFacts, Window
from bench.world.equipment import CanonicalEquipment
from bench.world.layout import DAYS, EPOCH, SITES
from bench.world.minutes import Minutes
from bench.world.series import CanonicalSeries
from bench.world.tables import CanonicalTables

OPEN_SEED = 20261129
"""The world that tools may be developed on."""
SEALED_SEED = 77003141
"""The world that no tool, rule or threshold was developed on: it is scored, and nothing else."""

HISTORY_DAYS = 28  # four weeks of usual days lie before the first alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a world: `start` in seconds since the epoch, and the first `sites` sites."""

    start: int = EPOCH
    days: int = DAYS
    sites: int = len(SITES)

    @property
    def alerts_from(self) -> int:
        return self.start + HISTORY_DAYS * 86_400

    @property
    def end(self) -> int:
        return self.start + self.days * 86_400


WHOLE = Extent()


class World:
    """Implements `Canonical`."""

    def __init__(self, minutes: Minutes, seed: int) -> None:
        self.minutes = minutes
        self.seed = seed
        self.series = CanonicalSeries(minutes, seed)
        self.tables = CanonicalTables(minutes, seed)
        self._equipment: dict[int, CanonicalEquipment] = {}

    @classmethod
    def load(cls, seed: int, folder: Path, extent: Extent = WHOLE) -> World:
        """Built when `folder` does not have it: a minute for the whole, then seconds. Raises
        OSError when the folder cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(load_minutes(seed, extent.start, extent.days, extent.sites, folder), seed)

    @property
    def sites(self) -> tuple[SiteFacts, ...]:
        return tuple(style.facts for style in SITES[: self.minutes.sites])

    @property
    def start(self) -> int:
        return self.minutes.start

    @property
    def end(self) -> int:
        return self.minutes.start + 60 * self.minutes.minutes

    def window(self, site: int, series: str, asset: str, start: int, end: int) -> Window:
        return self.series.window(site, series, asset, start, end)

    def changes(self, site: int, series: str, asset: str, start: int, end: int) -> Changes:
        return self.series.changes(site, series, asset, start, end)

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        return self.tables.table(site, name)

    def equipment(self, site: int) -> CanonicalEquipment:
        if site not in self._equipment:
            self._equipment[site] = CanonicalEquipment(self.minutes, self.seed, site)
        return self._equipment[site]
