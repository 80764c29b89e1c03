"""When and where things go wrong, or only look so: the seeded episodes of a world."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.world import calendar
from bench.world.fault_kinds import KINDS
from bench.world.layout import ASSETS, LAYOUT, name
from bench.world.minutes import Episode

WEEK = 7 * 1440  # minutes
ALONE = 0.9  # of the episodes keep clear of others
TRIES = 60
JAMS = (1, 1, 1, 2, 2, 3, 4)  # in one row at one eye
IN_USE = 0.8  # of the time that a cell's fault lasts, the cell is switched on
NEVER = 0.12  # of the absent trailers never come


def _places(prefix: str) -> tuple[str, ...]:
    if prefix == "PE":  # the last eye of an infeed has no next one that could tell a jam
        last = LAYOUT["eyes_per_infeed"]
        return tuple(eye for eye in ASSETS["PE"] if int(eye[-1]) != last)
    if prefix == "DRV-INF":
        return tuple(name("DRV", number) for number in range(1, LAYOUT["infeeds"] + 1))
    if prefix == "DRV-RC":
        return tuple(name("DRV", 10 + number) for number in range(LAYOUT["cells"]))
    return ASSETS.get(prefix, (prefix,))


class _Placer:
    """Places the episodes of one site, minute by minute, most of them clear of each other."""

    def __init__(self, seed: int, site: int, start: int, minutes: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64([seed, site, 0xFA]))
        self._site = site
        self._start = start
        self._minutes = minutes
        rate = calendar.rhythm(site, start, minutes) * calendar.presence(site, start, minutes)
        self._weight = np.clip(rate / rate.max(), 0.08, 1.0)
        # a world begins at midnight UTC, a day of warming-up before; see `site_plan`
        self._on = calendar.cells_on(site, calendar.rhythm(site, start - 86_400, minutes + 1440))[
            1440:
        ]
        self._pulls = calendar.departures(site, start, start + 60 * minutes + 86_400)
        self._taken = np.zeros(minutes, dtype=np.bool_)

    def place(self) -> list[Episode]:
        """Long ones first, so that short ones find the room between them."""
        order = sorted(
            (fault for fault in KINDS if fault not in {"jam", "trailer_absent"}),
            key=lambda fault: (-sum(KINDS[fault].lasts), fault),
        )
        found = list(self._trailers())
        for fault in order:
            found += self._kind(fault)
        found += self._jams()
        return found

    def _count(self, rate: float) -> int:
        return int(rate * self._minutes / WEEK + self._rng.random())

    def _asset(self, fault: str, begin: int, lasts: int) -> str:
        """A place of the kind that is in use at that time, where one is."""
        weights = KINDS[fault].assets
        prefix = list(weights)[
            int(np.searchsorted(np.cumsum(list(weights.values())), self._rng.random()))
        ]
        places = _places(prefix)
        if prefix in {"RC", "DRV-RC"}:
            working = self._on[max(begin, 0) : begin + lasts].mean(axis=0) > IN_USE
            places = tuple(np.array(places)[working].tolist()) or places
        elif prefix == "CH":
            places = self._busy_chutes(begin, lasts) or places
        return places[int(self._rng.integers(len(places)))]

    def _busy_chutes(self, begin: int, lasts: int) -> tuple[str, ...]:
        """Those of the lanes that a wave goes to for most of the time."""
        first = self._start + 60 * begin
        wave = (calendar.WAVE_FROM_S, calendar.WAVE_TO_S)
        lanes = {
            one.lane
            for one in self._pulls
            if one.cpt - wave[0] <= first + 30 * lasts <= one.cpt - wave[1]
        }
        each = LAYOUT["chutes_per_lane"]
        return tuple(
            chute for number, chute in enumerate(ASSETS["CH"]) if number // each + 1 in lanes
        )

    def _room(self, earliest: int, latest: int, lasts: int, alone: bool) -> int:
        """A minute for something to start, more likely a busy one."""
        begin = earliest
        for _ in range(TRIES):
            begin = int(self._rng.integers(earliest, max(latest, earliest + 1)))
            if self._rng.random() > self._weight[min(begin, self._minutes - 1)]:
                continue
            if alone and self._taken[max(begin - 15, 0) : begin + lasts + 15].any():
                continue
            break
        return begin

    def _kind(self, fault: str) -> Iterator[Episode]:
        kind = KINDS[fault]
        count = self._count(kind.rate)
        for index in range(count):
            lasts = int(self._rng.integers(kind.lasts[0], kind.lasts[1] + 1))
            creep = int(self._rng.integers(kind.creep[0], kind.creep[1] + 1))
            share = self._minutes / count
            begin = self._room(
                int(index * share),
                min(int((index + 1) * share), self._minutes - lasts),
                lasts,
                bool(self._rng.random() < ALONE),
            )
            if fault == "labor_short":  # from the start of a slot, to the end of one
                begin -= begin % calendar.SLOT
                lasts -= lasts % calendar.SLOT
            asset = self._asset(fault, begin, lasts)
            yield self._episode(fault, asset, begin - creep, begin, begin + lasts)

    def _episode(self, fault: str, asset: str, onset: int, begin: int, end: int) -> Episode:
        self._taken[max(begin, 0) : max(end, 0)] = True
        return Episode(
            fault=fault,
            site=self._site,
            asset=asset,
            onset=self._start + 60 * onset,
            start=self._start + 60 * begin,
            end=self._start + 60 * end,
            severity=round(float(self._rng.random()), 3),
            episode=0,
        )

    def _trailers(self) -> Iterator[Episode]:
        """Planned departures whose trailer comes 15 to 180 minutes late, or never."""
        planned = [
            departure
            for departure in calendar.departures(
                self._site, self._start, self._start + 60 * self._minutes
            )
            if departure.plan >= self._start
        ]
        count = self._count(KINDS["trailer_absent"].rate)
        chosen = self._rng.choice(len(planned), size=min(count, len(planned)), replace=False)
        for index in sorted(chosen.tolist()):
            departure = planned[index]
            late = int(self._rng.integers(25, 165)) * 60
            docked = departure.plan + late
            if self._rng.random() < NEVER or docked > departure.cpt - 600:
                docked = departure.cpt
            onset, end = ((at - self._start) // 60 for at in (departure.plan, docked))
            yield self._episode(
                "trailer_absent", name("STG", departure.lane), onset, onset + 15, end
            )

    def _jams(self) -> Iterator[Episode]:
        kind = KINDS["jam"]
        rows = self._count(kind.rate / (sum(JAMS) / len(JAMS)))
        for row in range(rows):
            share = self._minutes / rows
            count = JAMS[int(self._rng.integers(len(JAMS)))]
            begin = self._room(
                int(row * share),
                min(int((row + 1) * share), self._minutes - 60),
                15 * count,
                bool(self._rng.random() < ALONE),
            )
            eye = self._asset("jam", begin, 1)
            for _ in range(count):
                lasts = int(self._rng.integers(kind.lasts[0], kind.lasts[1] + 1))
                if begin + lasts < self._minutes:
                    yield self._episode("jam", eye, begin, begin, begin + lasts)
                begin += lasts + int(self._rng.integers(6, 16))


def _breaks(site: int, start: int, end: int) -> Iterator[Episode]:
    for pause in calendar.breaks(site, start, end):
        yield Episode(
            fault="not_break",
            site=site,
            asset="",
            onset=pause.start,
            start=pause.start,
            end=pause.end,
            severity=1.0,
            episode=0,
        )


def episodes(seed: int, start: int, days: int, sites: int) -> tuple[Episode, ...]:
    """Every episode of the first `sites` sites in [start, start + days), ascending by start.

    `start` lies on a whole minute. Each is of whole minutes; creeping ones begin before the world.
    """
    found: list[Episode] = []
    for site in range(sites):
        found += _Placer(seed, site, start, 1440 * days).place()
        found += _breaks(site, start, start + 86_400 * days)
    found.sort(key=lambda one: (one.start, one.site, one.fault, one.asset, one.end))
    return tuple(replace(one, episode=number) for number, one in enumerate(found))
