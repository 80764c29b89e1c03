"""One site at one instant: the figures that several nodes share, each worked out once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bench.annotator.figures import (
    baseline_times,
    covered,
    increase,
    lowest_of_greatest,
    mean,
    percent,
    share_of_one,
    valid,
)
from bench.annotator.ids import Layout
from bench.annotator.settings import SiteSettings
from bench.annotator.tables import SiteTables
from bench.world.canonical import Canonical, Changes, Values, Window
from bench.world.catalogue import SERIES

T = TypeVar("T")
Rows = Mapping[str, NDArray[Any]]

NOTHING = Window(np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))


class Diverts(NamedTuple):
    """Of one chute or many, parcels aborted at a full lane not counted."""

    attempts: int
    fails: int


class Picks(NamedTuple):
    picks: int
    fails: int


class Instant:
    """`t` and every other time are seconds since the epoch; percent figures are 0..100.

    Whatever cannot be told is None. An asset that does not exist has no samples.
    """

    def __init__(
        self,
        canonical: Canonical,
        settings: SiteSettings,
        tables: SiteTables,
        site: int,
        t: int,
    ) -> None:
        self.settings = settings
        self.tables = tables
        self.t = t
        self.t2 = t - settings.seconds("warehouse_lag_s")
        self._canonical = canonical
        self._site = site
        self._once: dict[tuple[Any, ...], Any] = {}

    @property
    def layout(self) -> Layout:
        return self.settings.layout

    def number(self, name: str) -> float:
        return self.settings.number(name)

    def seconds(self, name: str) -> int:
        return self.settings.seconds(name)

    def once(self, key: tuple[Any, ...], compute: Callable[[], T]) -> T:
        if key not in self._once:
            self._once[key] = compute()
        found: T = self._once[key]
        return found

    # --- series -------------------------------------------------------------------------------

    def window(self, series: str, asset: str, window_s: int, end: int | None = None) -> Window:
        """(end-window_s, end], `end` being t unless it is said; nothing from before the world."""
        to = self.t if end is None else end
        from_ = max(to - window_s, self._canonical.start)
        if to <= from_:
            return NOTHING
        try:
            return self._canonical.window(self._site, series, asset, from_, to)
        except KeyError:
            return NOTHING

    def valid(self, series: str, asset: str, window_s: int, end: int | None = None) -> Values:
        return valid(self.window(series, asset, window_s, end))

    def covered(self, samples: int, series: str, window_s: int) -> bool:
        return covered(samples, SERIES[series].grain_s, window_s, self.number("min_coverage"))

    def mean(self, series: str, asset: str, window_s: int, end: int | None = None) -> float | None:
        """Of a gauge, with coverage."""
        values = self.valid(series, asset, window_s, end)
        return mean(values) if self.covered(len(values), series, window_s) else None

    def increase(
        self, series: str, asset: str, window_s: int, end: int | None = None
    ) -> int | None:
        return increase(self.window(series, asset, window_s, end))

    def pairs(self, series: str, by: str, asset: str, window_s: int) -> tuple[Values, Values]:
        """Values of both series at the instants when both are valid."""
        one, other = self.window(series, asset, window_s), self.window(by, asset, window_s)
        _, mine, its = np.intersect1d(
            one.times[one.valid], other.times[other.valid], return_indices=True
        )
        return valid(one)[mine], valid(other)[its]

    def changes(self, series: str, asset: str, window_s: int, carry_s: int) -> Changes:
        """From as far back as a state is carried into (t-window_s, t]."""
        from_ = max(self.t - window_s - carry_s, self._canonical.start)
        try:
            return self._canonical.changes(self._site, series, asset, from_, self.t)
        except KeyError:
            return Changes(np.empty(0, np.int64), np.empty(0, np.int8))

    def baseline_times(self, t: int) -> list[int]:
        return baseline_times(t, ZoneInfo(self.settings.zone))

    # --- chutes -------------------------------------------------------------------------------

    def full_share(self, chute: str) -> float | None:
        """Percent of the time that the chute was full lately."""
        window_s, carry_s = self.seconds("chute_window_s"), self.seconds("chute_carry_s")
        return self.once(
            ("full", chute),
            lambda: share_of_one(
                self.changes("chute_full", chute, window_s, carry_s),
                self.t - window_s,
                self.t,
                self.number("min_coverage"),
            ),
        )

    def full_shares(self, chutes: Iterable[str]) -> dict[str, float]:
        """Of those known."""
        shares = {chute: self.full_share(chute) for chute in chutes}
        return {chute: share for chute, share in shares.items() if share is not None}

    def fullest_chute(self, entity: str) -> str | None:
        """A chute speaks for itself, also when it is not known how full it was."""
        if entity.startswith("CH-"):
            return entity
        return greatest(self.full_shares(self.layout.chutes_in_scope(entity)))

    def diverts(self, chute: str, window_s: int) -> Diverts | None:
        return self.once(("diverts", chute, window_s), lambda: self._diverts(chute, window_s))

    def _diverts(self, chute: str, window_s: int) -> Diverts | None:
        counts = [
            self.increase(f"divert_{what}_total", chute, window_s)
            for what in ("attempts", "fails", "lane_full")
        ]
        attempts, fails, lane_full = counts
        if attempts is None or fails is None or lane_full is None:
            return None
        return Diverts(attempts - lane_full, fails - lane_full)

    # --- cells --------------------------------------------------------------------------------

    def picks(self, cell: str, window_s: int) -> Picks | None:
        return self.once(("picks", cell, window_s), lambda: self._picks(cell, window_s))

    def _picks(self, cell: str, window_s: int) -> Picks | None:
        picks = self.increase("cell_picks_total", cell, window_s)
        fails = self.increase("cell_fails_total", cell, window_s)
        return None if picks is None or fails is None else Picks(picks, fails)

    def fail_percents(self, cells: Iterable[str], window_s: int) -> dict[str, float]:
        """Of those with enough attempts."""
        least = self.number("pick_min_attempts")
        found: dict[str, float] = {}
        for cell in cells:
            counted = self.picks(cell, window_s)
            if counted is None or counted.picks < least:
                continue
            share = percent(counted.fails, counted.picks)
            if share is not None:
                found[cell] = share
        return found

    def worst_cell(self, entity: str) -> str | None:
        if self.layout.split(entity)[0] == "RC":
            return entity
        return greatest(self.fail_percents(self.layout.cells(), self.seconds("pick_window_s")))

    # --- equipment ----------------------------------------------------------------------------

    def call(self, name: str, asset: str) -> Mapping[str, Any] | None:
        """The controller's answer; None when it was last heard too long ago."""
        answer = self.once(("call", name, asset), lambda: self._call(name, asset))
        stale = self.t - answer["as_of"] > self.seconds("state_max_age_s")
        return None if stale else answer

    def _call(self, name: str, asset: str) -> Mapping[str, Any]:
        controllers = self._canonical.equipment(self._site)
        if name == "routes":
            return controllers.routes(self.t)
        calls: Mapping[str, Callable[[str, int], Mapping[str, Any]]] = {
            "safety_inputs": controllers.safety_inputs,
            "fault_code": controllers.fault_code,
            "resets": controllers.resets,
            "carriers": controllers.carriers,
            "doors": controllers.doors,
            "eye_margin": controllers.eye_margin,
        }
        return calls[name](asset, self.t)

    # --- warehouse ----------------------------------------------------------------------------

    def warehouse_heard(self) -> bool:
        beats = self.tables.between(
            "feed_heartbeat", self.t2 - self.seconds("heartbeat_s"), self.t2
        )
        return len(beats["at"]) > 0

    def counted(self, name: str, window_s: int, end: int | None = None) -> Rows:
        """Rows in (end-window_s, end], `end` being t2 unless it is said."""
        to = self.t2 if end is None else end
        return self.tables.between(name, to - window_s, to)

    def snapshots(self, name: str, column: str) -> dict[str, dict[str, int]]:
        """By what stands in `column`, the latest row up to t2 that is young enough at t."""
        oldest = self.t - self.seconds("snapshot_max_age_s")
        rows = self.tables.between(name, oldest - 1, self.t2)
        return {
            str(asset): {key: int(rows[key][index]) for key in rows if rows[key].dtype.kind == "i"}
            for index, asset in enumerate(rows[column])
        }

    def on_shift(self, role: str) -> NDArray[np.int64]:
        """Indices of the rows of the roster."""
        roster = self.tables.whole("roster")
        there = (roster["on"] <= self.t2) & (self.t2 < roster["off"])
        return np.flatnonzero(there & (roster["role"] == role))


def greatest(figures: Mapping[str, float]) -> str | None:
    """The asset with the greatest figure, of several the first; None of none."""
    if not figures:
        return None
    return list(figures)[lowest_of_greatest(list(figures.values()))]


def least(figures: Mapping[str, float]) -> str | None:
    """The asset with the least figure, of several the first; None of none."""
    return greatest({asset: -figure for asset, figure in figures.items()})
