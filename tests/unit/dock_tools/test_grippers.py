"""What is wrong with one cell: its cups, its vacuum, its camera."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.unit.dock_tools.dock_series import picked, points, world_of
from tests.unit.dock_tools.dock_world import NOW, Case, World, check, of, params_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from triage.model.query import Series


def leaks(
    now: Sequence[float],
    *days: float,
    cell: str = "RC-02",
    entity: str = "RC-02",
    more: Sequence[Series] = (),
) -> World:
    """A day's figure is of all its holds, one day ago first."""
    before = [
        points("cell_leak", cell, [day] * 60, end=NOW - timedelta(days=1 + number))
        for number, day in enumerate(days)
    ]
    return world_of(points("cell_leak", cell, now), before, more, entity=entity)


CUP = of(
    "rc_cup_worn",
    (
        "seven days ago counts",
        leaks(
            [29] * 60,
            20,
            20,
            20,
            more=[points("cell_leak", "RC-02", [20] * 60, end=NOW - timedelta(days=7))],
        ),
        "false",
        "RC-02",
    ),
    (
        "eight days ago does not",
        leaks(
            [29] * 60,
            20,
            20,
            20,
            more=[points("cell_leak", "RC-02", [20] * 60, end=NOW - timedelta(days=8))],
        ),
        "true",
        "RC-02",
    ),
    (
        "the worst by its share",
        leaks(
            [30] * 60, entity="LS-1", more=[*picked("RC-01", 1000, 90), *picked("RC-02", 100, 10)]
        ),
        "true",
        "RC-02",
    ),
    ("at the limit", leaks([20] * 60), "true", "RC-02"),
    ("under it", leaks([19.9] * 60), "false", "RC-02"),
    ("half as much again as its week", leaks([30] * 60, 20, 20, 20, 20), "true", "RC-02"),
    ("less than that", leaks([29.9] * 60, 20, 20, 20, 20), "false", "RC-02"),
    ("three days are no week", leaks([29.9] * 60, 20, 20, 20), "true", "RC-02"),
    ("the middle of its days", leaks([30] * 60, 90, 20, 20, 20, 1), "true", "RC-02"),
    ("too few holds", leaks([30] * 59), "no_data", "RC-02"),
    ("seals that failed are no holds", leaks([30] * 59 + [9999] * 9), "no_data", "RC-02"),
    ("the middle of the holds", leaks([90] * 30 + [10] * 31), "false", "RC-02"),
    (
        "the worst cell",
        leaks(
            [30] * 60,
            entity="LS-1",
            more=[*picked("RC-01", 100, 9), *picked("RC-02", 100, 10), *picked("RC-03", 99, 90)],
        ),
        "true",
        "RC-02",
    ),
    (
        "of two alike the first",
        leaks([30] * 60, entity="", more=[*picked("RC-03", 100, 10), *picked("RC-02", 100, 10)]),
        "true",
        "RC-02",
    ),
    ("no worst cell", leaks([30] * 60, entity="LS-1"), "no_data", "LS-1"),
    ("spelled otherwise", leaks([30] * 60, cell="Cell 2", entity="rc 2"), "true", "RC-02"),
)


def suction(
    flow: Sequence[float], leak: Sequence[float], entity: str = "RC-02", more: Sequence[Series] = ()
) -> World:
    return world_of(
        points("cell_freeflow", "RC-02", flow),
        points("cell_leak", "RC-02", leak),
        more,
        entity=entity,
    )


def around(middle: float, count: int = 21) -> list[float]:
    """Different values whose middle is this."""
    return [middle + place - (count - 1) / 2 for place in range(count)]


FILTER = of(
    "rc_vacuum_filter_clogged",
    (
        "the worst by its share",
        suction(
            around(150),
            [5] * 60,
            "LS-1",
            [*picked("RC-01", 1000, 90), *picked("RC-02", 100, 10), *picked("RC-00", 99, 99)],
        ),
        "true",
        "RC-02",
    ),
    ("at the limit", suction(around(120), [5] * 60), "true", "RC-02"),
    ("under it", suction(around(119.9), [5] * 60), "false", "RC-02"),
    ("leaking too", suction(around(150), [20] * 60), "false", "RC-02"),
    ("hardly leaking", suction(around(150), [19.9] * 60), "true", "RC-02"),
    ("too few readings", suction(around(150, 19), [5] * 60), "no_data", "RC-02"),
    ("just enough", suction(around(150, 20), [5] * 60), "true", "RC-02"),
    (
        "repeats are no readings",
        suction([*around(150, 19), *[150] * 60], [5] * 60),
        "no_data",
        "RC-02",
    ),
    ("repeats do not weigh", suction([*around(120), *[110] * 99], [5] * 60), "true", "RC-02"),
    ("invalid ones", suction([*around(150, 19), 4.9, 1, 9999], [5] * 60), "no_data", "RC-02"),
    ("the least valid one", suction([*around(150, 19), 5], [5] * 60), "true", "RC-02"),
    ("too few holds", suction(around(150), [5] * 59), "no_data", "RC-02"),
    (
        "the worst cell",
        suction(around(150), [5] * 60, "LS-1", picked("RC-02", 100, 0)),
        "true",
        "RC-02",
    ),
    ("no worst cell", suction(around(150), [5] * 60, "LS-1"), "no_data", "LS-1"),
)


def seen(
    percents: Mapping[int, float],
    *,
    entity: str = "RC-02",
    site: str = "FC1",
    samples: int = 30,
    picks: float = 100,
) -> World:
    """Percent of pictures without a grasp, by cell."""
    return world_of(
        [points("cell_no_grasp", f"RC-0{cell}", [one] * samples) for cell, one in percents.items()],
        *(picked(f"RC-0{cell}", picks, 1) for cell in percents),
        entity=entity,
        site=site,
    )


VISION = of(
    "rc_vision_degraded",
    (
        "the worst by its share",
        world_of(
            [points("cell_no_grasp", f"RC-0{cell}", [9.0] * 30) for cell in range(4)],
            picked("RC-00", 1000, 90),
            picked("RC-01", 100, 10),
            picked("RC-02", 99, 99),
            entity="LS-1",
        ),
        "no_data",
        "RC-01",
    ),
    ("sentinels", seen({0: 1, 1: 1, 2: -1, 3: 1, 4: 1}), "no_data", "RC-02"),
    ("at both limits", seen({0: 5, 1: 5, 2: 10, 3: 5}), "true", "RC-02"),
    ("under the percentage", seen({0: 1, 1: 1, 2: 9.9, 3: 1}), "false", "RC-02"),
    ("under twice the others", seen({0: 5.1, 1: 5.1, 2: 10, 3: 5.1}), "false", "RC-02"),
    ("the middle of the others", seen({0: 90, 1: 5, 2: 10, 3: 1}), "true", "RC-02"),
    ("too few others", seen({0: 1, 1: 1, 2: 10}), "no_data", "RC-02"),
    ("its own unknown", seen({0: 1, 1: 1, 3: 10, 4: 1}), "no_data", "RC-02"),
    ("just enough samples", seen({0: 1, 1: 1, 2: 10, 3: 1}, samples=18), "true", "RC-02"),
    ("too few samples", seen({0: 1, 1: 1, 2: 10, 3: 1}, samples=17), "no_data", "RC-02"),
    ("too few picks", seen({0: 1, 1: 1, 2: 10, 3: 1}, picks=99), "no_data", "RC-02"),
    ("as a fraction", seen({0: 0.01, 1: 0.01, 2: 0.11, 3: 0.01}, site="FC2"), "true", "RC-02"),
    (
        "a fraction of a percent",
        seen({0: 0.01, 1: 0.01, 2: 0.09, 3: 0.01}, site="FC2"),
        "false",
        "RC-02",
    ),
    ("the worst cell", seen({0: 9, 1: 1, 2: 1, 3: 1}, entity="LS-1"), "false", "RC-00"),
    ("no worst cell", world_of(entity="LS-1"), "no_data", "LS-1"),
)


CASES = [*CUP, *FILTER, *VISION]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
