"""The robotic cells: picks, states, and what they carry together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.dock_tools.dock_series import grown, picked, points, world_of
from tests.unit.dock_tools.dock_world import Case, World, check, of, params_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triage.model.query import Series


PICKS = of(
    "obs_pick_fail_elevated",
    ("at the limit", world_of(picked("RC-00", 100, 8)), "true", ""),
    ("under it", world_of(picked("RC-00", 1000, 79)), "false", ""),
    ("another site's limit", world_of(picked("rc0", 100, 8), site="FC3"), "false", ""),
    ("all together", world_of(picked("RC-00", 100, 16), picked("RC-01", 100, 0)), "true", ""),
    (
        "its own cell",
        world_of(picked("Cell 0", 100, 1), picked("Cell 1", 100, 50), entity="rc-0"),
        "false",
        "RC-00",
    ),
    ("too few", world_of(picked("RC-00", 99, 50)), "no_data", ""),
    ("few, but of many", world_of(picked("RC-00", 50, 4), picked("RC-01", 50, 4)), "true", ""),
    (
        "a reboot",
        world_of(
            points("cell_picks_total", "RC-00", [900, 950, 50]),
            points("cell_fails_total", "RC-00", [70, 75, 3]),
        ),
        "true",
        "",
    ),
    ("no fails counted", world_of(grown("cell_picks_total", "RC-00", 500)), "no_data", ""),
    (
        "one sample",
        world_of(
            points("cell_picks_total", "RC-00", [500]), points("cell_fails_total", "RC-00", [500])
        ),
        "no_data",
        "",
    ),
    (
        "the window's open end",
        world_of(
            points("cell_picks_total", "RC-00", range(0, 810, 10)),
            points("cell_fails_total", "RC-00", [0] + [500] * 80),
        ),
        "false",
        "",
    ),
)


def row_of_cells(*fails: float, entity: str = "") -> World:
    """Fails of a hundred picks, cell by cell."""
    return world_of(
        *(picked(f"RC-0{cell}", 100, count) for cell, count in enumerate(fails)), entity=entity
    )


SINGLE = of(
    "obs_pick_fail_single_cell",
    ("twice the others", row_of_cells(4, 4, 8, 4), "true", "RC-02"),
    ("less than that", row_of_cells(4, 4, 7, 4), "false", "RC-02"),
    ("the others are as bad", row_of_cells(6, 6, 20, 6), "false", "RC-02"),
    ("the others are hardly better", row_of_cells(5, 5, 20, 5), "true", "RC-02"),
    ("the middle of the others", row_of_cells(1, 5, 11, 30, 2, 3), "true", "RC-03"),
    ("too few others", row_of_cells(4, 4, 20), "no_data", "RC-02"),
    ("none fails", row_of_cells(0, 0, 0, 0), "true", "RC-00"),
    (
        "few picks do not count",
        world_of(
            picked("RC-00", 99, 99),
            *(picked(f"RC-0{cell}", 100, 4) for cell in (1, 2, 3, 4)),
        ),
        "false",
        "RC-01",
    ),
    ("nothing", world_of(entity="Cell 3"), "no_data", "RC-03"),
    ("whatever the alert's cell", row_of_cells(4, 4, 20, 4, entity="RC-00"), "true", "RC-02"),
)


def states(scale: float = 1.0, site: str = "FC1", minutes: int = 10, **seconds: float) -> World:
    """So many seconds of each minute in each state, in four cells."""
    return world_of(
        [
            points("cell_state_seconds", f"RC-0{cell}", [of_minute * scale] * minutes, state=state)
            for cell in range(4)
            for state, of_minute in seconds.items()
        ],
        site=site,
        entity="LS-1",
    )


STARVED = of(
    "obs_induct_starved",
    ("at the limit", states(running=36, starved=24), "true", "LS-1"),
    ("under it", states(running=37, starved=23), "false", "LS-1"),
    ("maintenance does not count", states(running=18, starved=12, maintenance=30), "true", "LS-1"),
    ("nor does off", states(running=18, starved=12, off=30), "true", "LS-1"),
    ("faults do", states(fault=31, starved=20), "false", "LS-1"),
    ("enough cell-seconds", states(starved=30, off=30), "true", "LS-1"),
    ("too few", states(starved=29, off=31), "no_data", "LS-1"),
    ("in milliseconds", states(1000, "FC2", running=37, starved=23), "false", "LS-1"),
    ("too few milliseconds", states(1000, "FC2", starved=29), "no_data", "LS-1"),
    (
        "sentinels",
        world_of(
            points("cell_state_seconds", "RC-01", [60] * 8 + [-1, 9999], state="starved"),
            points("cell_state_seconds", "RC-01", [60] * 10 + [-1] * 2, state="running"),
        ),
        "no_data",
        "",
    ),
    (
        "the window's open end",
        world_of(
            [
                points("cell_state_seconds", f"RC-0{cell}", [9000] + [23] * 10, state="starved")
                for cell in range(4)
            ],
            [
                points("cell_state_seconds", f"RC-0{cell}", [37] * 10, state="running")
                for cell in range(4)
            ],
        ),
        "false",
        "",
    ),
    ("nothing", world_of(entity="loop 1"), "no_data", "LS-1"),
)

BLOCKED = of(
    "obs_induct_blocked",
    ("too few milliseconds", states(1000, "FC2", blocked=29), "no_data", "LS-1"),
    (
        "sentinels",
        world_of(
            points("cell_state_seconds", "RC-01", [60] * 8 + [-1, 9999], state="blocked"),
            points("cell_state_seconds", "RC-01", [60] * 10, state="running"),
        ),
        "no_data",
        "",
    ),
    ("at the limit", states(running=42, blocked=18), "true", "LS-1"),
    ("under it", states(running=43, blocked=17), "false", "LS-1"),
    ("starved is not blocked", states(starved=60), "false", "LS-1"),
    ("off does not count", states(running=21, blocked=9, off=30), "true", "LS-1"),
    ("enough cell-seconds", states(blocked=30), "true", "LS-1"),
    ("too few", states(blocked=29), "no_data", "LS-1"),
    ("in milliseconds", states(1000, "FC2", running=43, blocked=17), "false", "LS-1"),
)


def carried(
    rates: Sequence[float],
    arrivals: float,
    *,
    manual: Sequence[float] = (),
    entity: str = "RC-00",
    more: Sequence[Series] = (),
    minutes: int = 60,
) -> World:
    """Parcels an hour, cell by cell and station by station."""
    return world_of(
        [points("cell_rate", f"RC-0{cell}", [rate] * minutes) for cell, rate in enumerate(rates)],
        [
            points("manual_rate", f"MS-{1 + place}", [rate] * 15)
            for place, rate in enumerate(manual)
        ],
        points("arrivals_rate", "LS-1", [arrivals] * 15),
        more,
        entity=entity,
    )


def idle(cell: str, state: str, seconds: float) -> Series:
    return points("cell_state_seconds", cell, [seconds / 15] * 15, state=state)


HEADROOM = of(
    "con_induct_headroom",
    (
        "in milliseconds",
        replace(carried([1050, 1050], 1000, more=[idle("RC-01", "off", 435_000)]), site="FC2"),
        "true",
        "RC-00",
    ),
    (
        "off in milliseconds",
        replace(carried([1050, 1050], 1000, more=[idle("RC-01", "off", 450_000)]), site="FC2"),
        "false",
        "RC-00",
    ),
    (
        "the worst by its share",
        carried(
            [10, 10],
            1000,
            entity="LS-1",
            more=[*picked("RC-00", 1000, 100), *picked("RC-01", 100, 30)],
        ),
        "true",
        "RC-01",
    ),
    (
        "sentinels",
        world_of(
            [
                points("cell_rate", f"RC-0{cell}", [1050] * 35 + [-1] * 9 + [9999] * 9)
                for cell in range(2)
            ],
            points("arrivals_rate", "LS-1", [1000] * 15),
            entity="RC-00",
        ),
        "no_data",
        "RC-00",
    ),
    ("just enough", carried([1050, 1050], 1000), "true", "RC-00"),
    ("hardly not", carried([1049, 1049], 1000), "false", "RC-00"),
    ("stations help", carried([600, 600], 1000, manual=[200, 250]), "true", "RC-00"),
    ("one cell alone", carried([9000], 1000), "false", "RC-00"),
    ("one is off", carried([1050, 1050], 1000, more=[idle("RC-01", "off", 450)]), "false", "RC-00"),
    (
        "off for a while",
        carried([1050, 1050], 1000, more=[idle("RC-01", "off", 435)]),
        "true",
        "RC-00",
    ),
    (
        "off and in maintenance",
        carried(
            [1050, 1050], 1000, more=[idle("RC-01", "off", 225), idle("RC-01", "maintenance", 225)]
        ),
        "false",
        "RC-00",
    ),
    (
        "starved is enabled",
        carried([1050, 1050], 1000, more=[idle("RC-01", "starved", 900)]),
        "true",
        "RC-00",
    ),
    ("no rate, not enabled", carried([1050, 1050], 1000, minutes=35), "no_data", "RC-00"),
    ("just enough rates", carried([1050, 1050], 1000, minutes=36), "true", "RC-00"),
    ("the high end of the rates", carried([0, 2000, 2000], 2000), "true", "RC-00"),
    (
        "arrivals unknown",
        world_of(
            [points("cell_rate", f"RC-0{cell}", [1050] * 60) for cell in range(2)],
            points("arrivals_rate", "LS-1", [1000] * 8 + [-1] * 7),
            entity="RC-00",
        ),
        "no_data",
        "RC-00",
    ),
    (
        "a station half known",
        carried([600, 600], 1000, more=[points("manual_rate", "MS-1", [450] * 8)]),
        "false",
        "RC-00",
    ),
    (
        "keeping it is worse",
        carried([10, 10], 1000, more=picked("RC-00", 100, 25)),
        "true",
        "RC-00",
    ),
    ("not so bad", carried([10, 10], 1000, more=picked("RC-00", 1000, 249)), "false", "RC-00"),
    (
        "too few picks to say so",
        carried([10, 10], 1000, more=picked("RC-00", 99, 90)),
        "false",
        "RC-00",
    ),
    (
        "bad, and nothing else known",
        world_of(picked("RC-00", 100, 30), entity="cell0"),
        "true",
        "RC-00",
    ),
    (
        "the worst cell",
        carried(
            [10, 10],
            1000,
            entity="LS-1",
            more=[*picked("RC-00", 100, 10), *picked("RC-01", 100, 30)],
        ),
        "true",
        "RC-01",
    ),
    ("no worst cell", carried([1050, 1050], 1000, entity="LS-1"), "true", "LS-1"),
    ("nothing", world_of(entity="LS-1"), "no_data", "LS-1"),
)

CASES = [*PICKS, *SINGLE, *STARVED, *BLOCKED, *HEADROOM]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
