"""More held-out cases than the annotator's sample has, for what a sample hardly meets.

The annotator draws from the world as it truly was, so it knows nothing of counters that restart
where they are served and of rows that are written twice, nor of the second in which a window holds
a single sample; and it asks about assets that the SOP's alarms name today. Its rules answer these
cases as they do all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.annotator.candidates import Places
from bench.annotator.cases import Case
from bench.annotator.settings import Settings
from bench.cases.edges import EdgeFinder
from bench.world.catalogue import SERIES, TABLES, Kind
from bench.world.chance import stream, uniforms
from bench.world.layout import ASSETS, SITES, spell
from bench.world.served import ServedSeries
from bench.world.warehouse_rows import TWICE, canonical_name
from bench.world.world import World

ENTITIES = (
    "LS-1",
    "RC-02",
    "CH-017",
    "STG-04",
    "DD-09",
    "ZN-2",
    "INF-3",
    "PE-23",
    "ST-2",
    "DRV-12",
)
OF_ENTITIES = 3  # cases for each kind of asset
OF_DROPS = 8
OF_LONELY = 6
OF_HEARD = 8
OF_DOUBLED = 10
OF_TABLES = 8  # of all sites
OF_TICKETS = 6  # of each site
HALF_MINUTE_S = 30
BEHIND_S = 60  # seconds behind a drop: within every window
LOOKED_AT_S = 10 * 86_400  # of a counter, for its drops


class MoreCases:
    def __init__(self, world: World, settings: Settings, finder: EdgeFinder) -> None:
        self._finder = finder
        self._served = ServedSeries(world.series, world.seed)
        self._places = Places(world, "heldout")
        self._settings = settings
        self._world = world

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """For the held-out cases of one node, the most telling first."""
        found = [
            *self._of_others(cases),
            *self._behind_drops(cases),
            *self._lonely(cases),
            *self._first_heard(cases),
            *self._doubled(cases),
            *self._on_the_second(cases),
            *self._odd_tickets(cases),
        ]
        return list(dict.fromkeys(found))

    def _of_others(self, cases: Sequence[Case]) -> Iterator[Case]:
        """The same instants, asked about assets of every kind."""
        for number, entity in enumerate(ENTITIES):
            for place in range(OF_ENTITIES):
                if cases:
                    case = cases[(number + place * len(ENTITIES)) % len(cases)]
                    spelled = spell(entity, SITES[case.site].spelling)
                    yield self._judged(case, case.t, spelled, "another kind of asset")

    def _behind_drops(self, cases: Sequence[Case]) -> Iterator[Case]:
        """A minute after a counter that the rule reads began again, or wrapped."""
        left = OF_DROPS
        seen: set[tuple[int, str, str]] = set()
        for case in cases:
            for series, asset, _ in self._counters(case):
                if left and (case.site, series, asset) not in seen and len(seen) < 2 * OF_DROPS:
                    seen.add((case.site, series, asset))
                    drops = self._drops(case.site, series, asset)
                    for at in drops[:2]:
                        left -= left > 0
                        yield self._judged(case, at + BEHIND_S, case.entity, f"{series} dropped")

    def _lonely(self, cases: Sequence[Case]) -> Iterator[Case]:
        """So late in a silence that one sample of a counter is left in the window."""
        left = OF_LONELY
        for case in cases:
            windows = {(SERIES[name].grain_s, length) for name, _, length in self._counters(case)}
            for place in self._silences(case.site):
                for grain_s, length_s in sorted(windows):
                    t = place[0] - grain_s + length_s
                    if left and t <= place[1]:
                        left -= 1
                        yield self._judged(case, t, case.entity, "one sample left")
            if not left:
                return

    def _first_heard(self, cases: Sequence[Case]) -> Iterator[Case]:
        """The very second that the warehouse is heard again, and the last that it is not silent."""
        left = OF_HEARD
        for case in cases:
            site = self._settings.site(self._world.sites[case.site])
            lag_s, heartbeat_s = site.seconds("warehouse_lag_s"), site.seconds("heartbeat_s")
            beats = self._world.table(case.site, "feed_heartbeat")["at"]
            beats = beats[beats > self._places.start]
            for place in np.flatnonzero(np.diff(beats) > heartbeat_s).tolist():
                for t in (beats[place + 1] + lag_s, beats[place] + heartbeat_s + lag_s):
                    if left:
                        left -= 1
                        yield self._judged(case, int(t), case.entity, "heard again")
            if not left:
                return

    def _doubled(self, cases: Sequence[Case]) -> Iterator[Case]:
        """Half a minute after the warehouse got a row twice."""
        left = OF_DOUBLED
        for number, case in enumerate(cases[: 2 * OF_DOUBLED]):
            lag_s = self._settings.site(self._world.sites[case.site]).seconds("warehouse_lag_s")
            for table in self._finder.tables_of(case):
                if left and table not in ("feed_heartbeat", "ticket", "roster"):
                    at = self._twice(case.site, table)
                    if len(at):
                        left -= 1
                        t = int(at[(7 * number) % len(at)]) + lag_s + HALF_MINUTE_S
                        yield self._judged(case, t, case.entity, f"{table} doubled")

    def _on_the_second(self, cases: Sequence[Case]) -> Iterator[Case]:
        """The very second that a row of the warehouse tells of, about the row's own asset."""
        asked: set[tuple[int, str]] = set()
        for case in cases:
            site = self._settings.site(self._world.sites[case.site])
            lag_s = site.seconds("warehouse_lag_s")
            for table in self._finder.tables_of(case) if len(asked) < OF_TABLES else ():
                if (case.site, table) in asked or table == "feed_heartbeat":
                    continue
                asked.add((case.site, table))
                rows = self._world.table(case.site, table)
                for column, values in rows.items():
                    if values.dtype.kind != "i":
                        continue
                    told = np.flatnonzero(values > self._places.start)  # of times, and they alone
                    for row in told[:: max(1, len(told) // 3)].tolist():
                        entity = _asset(rows, row) or case.entity
                        for t in (int(values[row]), int(values[row]) + lag_s):
                            if t < self._places.end:
                                yield self._judged(case, t, entity, f"{table}.{column}")

    def _odd_tickets(self, cases: Sequence[Case]) -> Iterator[Case]:
        """Tickets that nobody closed, whatever their status, about the asset that they name."""
        for case in cases[:1]:
            if "ticket" not in self._finder.tables_of(case):
                return
            for site in range(len(self._world.sites)):
                rows = self._world.table(site, "ticket")
                never = (rows["closed"] < 0) & (rows["opened"] > self._places.start)
                for row in np.flatnonzero(never)[:OF_TICKETS].tolist():
                    t = min(int(rows["opened"][row]) + 3600, self._places.end)
                    asset = _asset(rows, row) or case.entity
                    yield self._judged(replace(case, site=site), t, asset, "ticket never closed")

    def _twice(self, site: int, table: str) -> NDArray[np.int64]:
        """When the rows were told of that are written twice."""
        column = self._world.table(site, table)[canonical_name(TABLES[table].at)]
        rows = np.arange(len(column), dtype=np.int64)
        again = column[uniforms(stream(site, "written twice", table), rows) < TWICE]
        inside = (again > self._places.start) & (again < self._places.end - 3600)
        found: NDArray[np.int64] = again[inside]
        return found

    def _silences(self, site: int) -> list[tuple[int, int]]:
        return [
            (place.start, place.end)
            for kind, places in sorted(self._places.by_kind.items())
            if kind.startswith("silence metrics")
            for place in places
            if place.site == site and self._places.start < place.start
        ]

    def _counters(self, case: Case) -> list[tuple[str, str, int]]:
        """Series, asset and window in seconds of the counters that the rule reads."""
        return [
            (series, asset, length)
            for series, asset, length in self._finder.windows_of(case)
            if SERIES[series].kind is Kind.COUNTER and asset in ASSETS[SERIES[series].assets]
        ]

    def _drops(self, site: int, series: str, asset: str) -> list[int]:
        row = ASSETS[SERIES[series].assets].index(asset)
        end = self._places.end - 3600
        start = max(self._places.start, end - LOOKED_AT_S)
        (found,) = self._served.read(site, series, [row], start, end)
        return [int(at) for at in found.times[1:][np.diff(found.values) < 0]]

    def _judged(self, case: Case, t: int, entity: str, near: str) -> Case:
        moved = replace(case, t=t, entity=entity, near=near)
        judged = self._finder.judge(moved)
        return replace(moved, expected=judged.value, subject=judged.subject, margin=judged.margin)


def _asset(rows: Mapping[str, NDArray[Any]], row: int) -> str:
    """The asset that a row speaks of, "" when it names none."""
    column = next((name for name in ("lane", "zone", "asset_text") if name in rows), "")
    return str(rows[column][row]) if column else ""
