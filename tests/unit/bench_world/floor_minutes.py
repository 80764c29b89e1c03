"""Hand-made minutes with departures, silence of the warehouse and an episode of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bench.world import calendar
from bench.world.canonical import Times
from bench.world.catalogue import TABLES
from bench.world.layout import EPOCH
from bench.world.minutes import Episode, Minutes
from bench.world.warehouse_rows import canonical_name
from tests.unit.bench_world.small_minutes import DEPARTURES, small_minutes

DAY_S = 86_400
SEED = 5
SILENT = slice(600, 645)  # minutes
FAULTS = (
    ("safety_stop", "INF-2", 100, 100, 112),
    ("safety_stop", "LS-1", 300, 300, 310),
    ("drive_fault", "DRV-0", 400, 400, 420),
    ("drive_fault", "DRV-13", 1000, 1000, 1025),
    ("carriers_out", "LS-1", 700, 760, 900),
    ("photo_eye_dirty", "PE-23", -1000, 500, 700),
    ("photo_eye_dirty", "CH-031", 0, 1200, 1400),
    ("label_print_poor", "PR-04", 1500, 1500, 1700),
    ("labor_short", "", 1080, 1080, 1260),
    ("item_mix_hard", "", 2000, 2003, 2100),
    ("cup_worn", "RC-02", 2100, 2300, 2400),
)
"""fault, asset, and the minutes of onset, start and end."""


def floor_minutes(*, sites: int = 1, days: int = 3, start: int = EPOCH) -> Minutes:
    """The same arguments give the same minutes. Every third trailer never comes, and every
    fifth departure has a door fault while its trailer is docked."""
    made = small_minutes(sites=sites, minutes=1440 * days, silence=False, start=start)
    planned = sorted(
        (
            departure
            for site in range(sites)
            for departure in calendar.departures(site, start, start + (days + 1) * DAY_S)
        ),
        key=lambda one: (one.cpt, one.site, one.lane),
    )
    rows: list[tuple[int, ...]] = []
    episodes: list[Episode] = []

    def happened(fault: str, site: int, asset: str, onset: int, begin: int, end: int) -> None:
        episodes.append(
            Episode(
                fault=fault,
                site=site,
                asset=asset,
                onset=onset,
                start=begin,
                end=end,
                severity=0.8,
                episode=len(episodes),
            )
        )

    for number, one in enumerate(planned):
        comes = number % 3 != 0
        docked = one.plan + 600 if comes else -1
        arrival = one.plan if comes else -1
        row = (one.site, number, one.lane, one.door, one.cpt, one.plan, arrival, docked)
        rows.append((*row, 400, one.carrier))
        if comes and number % 5 == 0:
            fault_at = docked + 1800
            happened("door_fault", one.site, f"DD-{one.door:02d}", fault_at, fault_at, one.cpt)
    for site in range(sites):
        for fault, asset, onset, begin, end in FAULTS:
            at = (start + 60 * minute for minute in (onset, begin, end))
            happened(fault, site, asset, *at)
    silent = made.warehouse_silent.copy()
    silent[:, SILENT] = True
    table = np.array(rows, dtype=np.int64)
    return replace(
        made,
        warehouse_silent=silent,
        departures={name: table[:, column] for column, name in enumerate(DEPARTURES)},
        episodes=tuple(episodes),
    )


def canonical_columns(table: str) -> dict[str, str]:
    """Canonical name to `text` or `integer`, of a table of the catalogue."""
    return {
        canonical_name(column): "integer" if column.endswith(("_utc", "_local")) else kind
        for column, kind in TABLES[table].columns.items()
        if not column.endswith("fold")
    }


def silent_times(minutes: Minutes) -> tuple[int, int]:
    """(start, end] of the silence."""
    return minutes.start + 60 * SILENT.start, minutes.start + 60 * SILENT.stop


def within(times: Times, start: int, end: int) -> int:
    """How many lie in (start, end]."""
    return int(np.count_nonzero((times > start) & (times <= end)))
