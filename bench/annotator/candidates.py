"""Where to look for cases: instants around faults, silences, special times and anywhere else.

A place is a stretch of time at a site with something to it. Every place has a kind (the fault's
name, `silence metrics cells`, `midnight`, …), and no place of the train part is in the held-out
part, which lies behind it, a gap between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Literal, NamedTuple, Protocol, runtime_checkable
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bench.annotator.ids import LOOP, Layout
from bench.world.canonical import Canonical
from bench.world.minutes import SILENT_GROUPS, Minutes

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, Split] = ("train", "heldout")

DAY_S = 86_400
BASELINE_DAYS = 28  # before that no baseline is known
GAP_S = 2 * DAY_S
AROUND_S = 1800  # before an episode's start and behind its end that is still of it
EDGE_S = 900
SPECIAL_TIMES = ("midnight", "clocks", "shift", "restart")

ALARM_ENTITIES: Mapping[str, tuple[str, ...]] = {
    "al_pick_fail_high": ("RC",),
    "al_chute_full": ("CH",),
    "al_jam_repeat": ("PE",),
    "al_recirc_high": ("LS",),
    "al_no_read_high": ("ST",),
    "al_induct_rate_low": ("LS",),
    "al_robot_cell_down": ("RC",),
    "al_infeed_backup": ("INF",),
    "al_divert_fail_high": ("CH", "LS"),
    "al_staging_over": ("STG",),
    "al_departure_risk": ("STG",),
    "al_container_lag": ("CH",),
    "al_drive_warning": ("DRV",),
    "al_sorter_stopped": ("LS",),
}
"""What kinds of assets the raw alarms name."""


@runtime_checkable
class World(Canonical, Protocol):
    @property
    def minutes(self) -> Minutes: ...


class Place(NamedTuple):
    """`episode` is a fault's episode, or a negative number of its own. `asset` may be empty."""

    kind: str
    site: int
    asset: str
    start: int
    end: int
    episode: int


class Spans(NamedTuple):
    """(start, end] of both parts of the world's time."""

    train: tuple[int, int]
    heldout: tuple[int, int]

    def of(self, split: Split) -> tuple[int, int]:
        return self.train if split == "train" else self.heldout


def spans(world: Canonical) -> Spans:
    """Half each of what lies behind the first four weeks, or the first third of a small world."""
    days = (world.end - world.start) / DAY_S
    first = world.start + round(min(BASELINE_DAYS, days / 3) * DAY_S)
    gap_s = round(min(GAP_S, (world.end - first) / 10))
    middle = first + (world.end - first - gap_s) // 2
    return Spans((first, middle), (middle + gap_s, world.end))


class Places:
    """All places of one part of a world, by kind."""

    def __init__(self, world: World, split: Split) -> None:
        both = spans(world)
        self.start, self.end = both.of(split)
        other = both.heldout if split == "train" else both.train
        self._world = world
        self._episodes: list[NDArray[np.int64]] = []
        self.by_kind: dict[str, list[Place]] = {}
        numbered = sorted(world.minutes.episodes, key=lambda one: one.episode)
        for site in range(len(world.sites)):
            own = [one for one in numbered if one.site == site]
            self._episodes.append(
                np.array(
                    [(one.start - AROUND_S, one.end + AROUND_S, one.episode) for one in own],
                    dtype=np.int64,
                ).reshape(-1, 3)
            )
            for one in own:
                self._add(Place(one.fault, site, one.asset, one.start, one.end, one.episode))
        self._shared = {
            int(episode)
            for rows in self._episodes
            for start, end, episode in rows.tolist()
            if start < other[1] and end > other[0] and start < self.end and end > self.start
        }
        for site, facts in enumerate(world.sites):
            for place in [*_silences(world.minutes, site), *_special(world, site, facts.zone)]:
                self._add(place)
            for day in range(self.start, self.end, DAY_S):
                self._add(Place("any time", site, "", day, min(day + DAY_S, self.end), 0))

    def _add(self, place: Place) -> None:
        if place.start < self.end and place.end > self.start:
            self.by_kind.setdefault(place.kind, []).append(place)

    def episode_at(self, place: Place, t: int) -> int | None:
        """Of which episode a case at `t` would be: the place's own, or else the first that is on;
        without any, a number below zero that is the site's and the day's. None when a case
        there must not be: outside this part, or in an episode that reaches into the other."""
        if not self.start < t <= self.end:
            return None
        rows = self._episodes[place.site]
        on = rows[(rows[:, 0] < t) & (t <= rows[:, 1]), 2].tolist()
        if not self._shared.isdisjoint(on):
            return None
        if place.episode > 0 or place.episode in on:
            return place.episode
        return min(on) if on else -(1 + (t - self._world.start) // DAY_S + 1000 * place.site)


def instants(place: Place, rng: Random) -> int:
    """Just before, near the start, amid, near the end or just behind."""
    phase = rng.choice(("before", "start", "amid", "amid", "amid", "end", "behind"))
    length = place.end - place.start
    match phase:
        case "before":
            return place.start - rng.randrange(1, AROUND_S)
        case "start":
            return place.start + rng.randrange(min(EDGE_S, length) + 1)
        case "end":
            return place.end - rng.randrange(min(EDGE_S, length) + 1)
        case "behind":
            return place.end + rng.randrange(1, AROUND_S)
    return place.start + rng.randrange(length + 1)


# --- silences and special times ---------------------------------------------------------------


def _silences(minutes: Minutes, site: int) -> Iterator[Place]:
    feeds: dict[str, NDArray[np.bool_]] = {
        f"silence metrics {group}": minutes.metrics_silent[site, :, number]
        for number, group in enumerate(SILENT_GROUPS)
    }
    feeds["silence warehouse"] = minutes.warehouse_silent[site]
    for kind, silent in feeds.items():
        edges = np.flatnonzero(np.diff(np.concatenate(([0], silent.astype(np.int8), [0]))))
        for start, end in edges.reshape(-1, 2).tolist():
            yield Place(kind, site, "", minutes.start + 60 * start, minutes.start + 60 * end, 0)


def _special(world: World, site: int, zone: str) -> Iterator[Place]:
    """Midnights, changes of the clock and of shifts, all local; the loop's first minutes."""

    def around(kind: str, instant: int) -> Place:
        return Place(kind, site, "", instant - EDGE_S, instant + EDGE_S, 0)

    local = ZoneInfo(zone)
    day = datetime.fromtimestamp(world.start, local).replace(hour=0, minute=0, second=0)
    while (midnight := round(day.timestamp())) < world.end:
        yield around("midnight", midnight)
        following = day + timedelta(days=1)
        if day.utcoffset() != following.utcoffset():
            yield Place("clocks", site, "", midnight, round(following.timestamp()), 0)
        day = following
    for change in np.unique(world.table(site, "labor_slot")["shift_start"]).tolist():
        yield around("shift", change)
    for one in world.minutes.episodes:
        if one.site == site and one.fault in ("safety_stop", "drive_fault", "telemetry_gap"):
            yield Place("restart", site, one.asset, one.end, one.end + AROUND_S, one.episode)


# --- entities ---------------------------------------------------------------------------------


def entities(layout: Layout, asset: str, kinds: Sequence[str]) -> list[list[str]]:
    """By kind (an id's prefix), the assets that a fault of `asset` shows at; when it shows at
    none of these kinds, all there are."""
    everything = [_all_of(layout, kind) for kind in kinds]
    if any(asset in assets for assets in everything):
        return [[asset]]
    close = [[one for one in assets if _belongs(layout, one, asset)] for assets in everything]
    return [assets for assets in close if assets] or everything


def _all_of(layout: Layout, kind: str) -> list[str]:
    of_kind: Mapping[str, list[str]] = {
        "RC": layout.cells(),
        "CH": layout.chutes(),
        "PE": layout.eyes(),
        "LS": [LOOP],
        "ST": layout.tunnels(),
        "INF": [layout.name("INF", n) for n in range(1, layout.counts["infeeds"] + 1)],
        "STG": layout.lanes(),
        "DRV": [
            layout.name("DRV", n)
            for n in [*range(layout.counts["infeeds"] + 1), *range(10, 10 + len(layout.cells()))]
        ],
    }
    return of_kind[kind]


def _belongs(layout: Layout, one: str, other: str) -> bool:
    """Whether two assets share a lane, a zone or a drive other than the loop's."""
    if layout.lane_of(one) and layout.lane_of(other):
        return layout.lane_of(one) == layout.lane_of(other)
    if layout.zone_of(one) and layout.zone_of(other):
        return layout.zone_of(one) == layout.zone_of(other)
    if "DRV-0" in (one, other):
        return LOOP in (one, other)
    return layout.drive_of(one) == layout.drive_of(other) != layout.drive_of(LOOP)
