"""Chutes, their diverts and their alternates."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.unit.dock_tools.dock_series import changes, each, full, points, world_of
from tests.unit.dock_tools.dock_world import NOW, Case, World, check, of, params_of, utc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from triage.model.query import Series


def chutes(shares: Mapping[str, float], entity: str = "", site: str = "FC1") -> World:
    """Percent of the last 900 s that each chute was full."""
    return world_of(
        [full(chute, 9 * share) for chute, share in shares.items()], entity=entity, site=site
    )


DAY = 86_400
FULL = of(
    "obs_chutes_full",
    ("at the limit", chutes({"CH-007": 25}, "CH-007"), "true", "CH-007"),
    ("under it", chutes({"CH-007": 24}, "CH-007"), "false", "CH-007"),
    ("another site's limit", chutes({"Chute 7": 29}, "Chute 7", "FC5"), "false", "CH-007"),
    ("its own", chutes({"ch7": 10, "ch8": 90}, "Chute 7"), "false", "CH-007"),
    ("the lane's", chutes({"CH-011": 30, "CH-016": 90}, "STG-03"), "true", "CH-011"),
    ("the door's lane's", chutes({"CH-015": 30, "CH-016": 90}, "DD-05"), "true", "CH-015"),
    ("the zone's", chutes({"CH-015": 30, "CH-016": 90}, "ZN-1"), "true", "CH-015"),
    ("all of the site", chutes({"CH-015": 30, "CH-060": 90}, "LS-1"), "true", "CH-060"),
    ("of two alike the first", chutes({"CH-015": 30, "CH-002": 30}), "true", "CH-002"),
    (
        "full since long",
        world_of(changes("chute_full", "CH-007", (DAY + 899, 1))),
        "true",
        "CH-007",
    ),
    ("since too long", world_of(changes("chute_full", "CH-007", (DAY + 900, 1))), "no_data", ""),
    ("just enough known", world_of(changes("chute_full", "CH-007", (540, 1))), "true", "CH-007"),
    ("too little", world_of(changes("chute_full", "CH-007", (539, 1))), "no_data", ""),
    (
        "of what is known",
        world_of(changes("chute_full", "CH-007", (600, 0), (150, 1))),
        "true",
        "CH-007",
    ),
    (
        "told again",
        world_of(changes("chute_full", "CH-007", (900, 0), (225, 1), (100, 1))),
        "true",
        "CH-007",
    ),
    (
        "clear again",
        world_of(changes("chute_full", "CH-007", (2000, 1), (676, 0))),
        "false",
        "CH-007",
    ),
    ("odd spelling", chutes({"CH-015": 30}, "STG-A"), "true", "CH-015"),
    ("no sample is not clear", world_of(entity="chute-07"), "no_data", "CH-007"),
)

CLUSTERED = of(
    "obs_chutes_clustered",
    (
        "three of five",
        chutes({"CH-001": 25, "CH-007": 25, "CH-015": 25, "CH-016": 25, "CH-060": 25}),
        "true",
        "ZN-1",
    ),
    (
        "three of six",
        chutes(
            {"CH-001": 25, "CH-007": 25, "CH-015": 25, "CH-016": 25, "CH-060": 25, "CH-050": 25}
        ),
        "false",
        "",
    ),
    ("two of two", chutes({"CH-001": 90, "CH-002": 90}), "false", ""),
    (
        "one is hardly full",
        chutes({"CH-001": 90, "CH-002": 90, "CH-003": 24}, "CH-001"),
        "false",
        "CH-001",
    ),
    (
        "whatever the alert's lane",
        chutes({"CH-031": 90, "CH-032": 90, "CH-045": 90}, "CH-001"),
        "true",
        "ZN-3",
    ),
    (
        "the last of one zone, the first of the next",
        chutes({"CH-015": 90, "CH-016": 90, "CH-030": 90, "CH-017": 90}),
        "true",
        "ZN-2",
    ),
    ("none is full", chutes({"CH-001": 1}), "false", ""),
    ("nothing known", world_of(entity="ch1"), "no_data", "CH-001"),
)


def diverts(chute: str, attempts: float, fails: float, lane_full: float = 0) -> list[Series]:
    """Fails with those that found the lane full."""
    return each("divert_attempts,fails,lane_full", chute, attempts, fails, lane_full)


DIVERTS = of(
    "obs_divert_fail_elevated",
    ("all fails met full lanes", world_of(diverts("CH-001", 1100, 100, 100)), "false", ""),
    ("at the limit", world_of(diverts("CH-001", 200, 2)), "true", ""),
    ("under it", world_of(diverts("CH-001", 1000, 9)), "false", ""),
    ("full lanes do not count", world_of(diverts("CH-001", 1000, 109, 100)), "true", ""),
    ("nor do they as attempts", world_of(diverts("CH-001", 299, 109, 100)), "no_data", ""),
    ("all together", world_of(diverts("CH-001", 100, 2), diverts("CH-002", 100, 0)), "true", ""),
    (
        "its own chute",
        world_of(diverts("ch1", 60, 0), diverts("ch2", 900, 90), entity="Chute 1"),
        "false",
        "CH-001",
    ),
    ("its own, just enough", world_of(diverts("ch1", 60, 1), entity="Chute 1"), "true", "CH-001"),
    ("its own, too few", world_of(diverts("CH-001", 59, 9), entity="CH-001"), "no_data", "CH-001"),
    ("too few", world_of(diverts("CH-001", 199, 9)), "no_data", ""),
    ("a counter is missing", world_of(diverts("CH-001", 900, 90)[:2]), "no_data", ""),
    (
        "a restart",
        world_of(
            points("divert_attempts_total", "CH-001", [9000, 100, 200]),
            points("divert_fails_total", "CH-001", [50, 1, 2]),
            points("divert_lane_full_total", "CH-001", [10, 0, 0]),
        ),
        "true",
        "",
    ),
    (
        "the longer window is for a chute",
        world_of(
            points("divert_attempts_total", "CH-001", [0] * 30 + [1000] * 30),
            points("divert_fails_total", "CH-001", [0] * 30 + [900] * 30),
            points("divert_lane_full_total", "CH-001", [0] * 60),
        ),
        "no_data",
        "",
    ),
)


def worn(own: tuple[float, float], *others: tuple[float, float], entity: str = "CH-009") -> World:
    """Attempts and fails of CH-009, then of CH-011, CH-012 and so on."""
    return world_of(
        diverts("CH-009", *own),
        *(diverts(f"CH-0{11 + place}", *one) for place, one in enumerate(others)),
        entity=entity,
    )


WORN = of(
    "rc_divert_worn",
    (
        "all fails met full lanes",
        world_of(
            diverts("CH-009", 1100, 100, 100),
            *(diverts(f"CH-01{one}", 1000, 4) for one in (1, 2, 3)),
            entity="CH-009",
        ),
        "false",
        "CH-009",
    ),
    (
        "full lanes do not count",
        world_of(
            diverts("CH-009", 1100, 116, 100),
            *(diverts(f"CH-01{one}", 1000, 4) for one in (1, 2, 3)),
            entity="CH-009",
        ),
        "true",
        "CH-009",
    ),
    (
        "nor do they as attempts",
        world_of(
            diverts("CH-009", 249, 190, 100),
            *(diverts(f"CH-01{one}", 1000, 1) for one in (1, 2, 3)),
            entity="CH-009",
        ),
        "no_data",
        "CH-009",
    ),
    (
        "a counter is missing",
        world_of(
            diverts("CH-009", 1000, 90)[:2],
            *(diverts(f"CH-01{one}", 1000, 1) for one in (1, 2, 3)),
            entity="CH-009",
        ),
        "no_data",
        "CH-009",
    ),
    ("at both limits", worn((1000, 16), *[(1000, 4)] * 3), "true", "CH-009"),
    ("under four times the others", worn((1000, 15), *[(1000, 4)] * 3), "false", "CH-009"),
    ("at the percentage", worn((200, 3), *[(1000, 1)] * 3), "true", "CH-009"),
    ("under it", worn((1000, 14), *[(1000, 1)] * 3), "false", "CH-009"),
    ("too few others", worn((1000, 90), *[(1000, 1)] * 2), "no_data", "CH-009"),
    ("others with too few", worn((1000, 90), *[(1000, 1)] * 2, (149, 1)), "no_data", "CH-009"),
    ("just enough", worn((150, 90), *[(150, 1)] * 3), "true", "CH-009"),
    ("its own too few", worn((149, 90), *[(1000, 1)] * 4), "no_data", "CH-009"),
    ("the worst", worn((1000, 90), *[(1000, 1)] * 3, entity="LS-1"), "true", "CH-009"),
    (
        "of two alike the first",
        worn((1000, 9), (1000, 9), *[(1000, 9)] * 2, entity=""),
        "false",
        "CH-009",
    ),
    ("nothing", world_of(entity="LS-1"), "no_data", "LS-1"),
)


Routes = dict[str, tuple[str | None, bool, int]]
"""By chute: its alternate, whether it is enabled, and which pull it is for."""


def routed(entity: str, shares: Mapping[str, float], routes: Routes, old: float = 0) -> World:
    told = [
        {
            "chute": chute,
            "alternate": alternate,
            "enabled": enabled,
            "cpt": utc(NOW + timedelta(hours=pull)),
        }
        for chute, (alternate, enabled, pull) in routes.items()
    ]
    answer = {"as_of": utc(NOW - timedelta(seconds=old)), "routes": told}
    return world_of(
        [full(chute, 9 * share) for chute, share in shares.items()],
        entity=entity,
        calls={"routes": {"": answer}},
    )


PAIR: Routes = {
    "CH-007": ("CH-008", False, 1),
    "CH-008": (None, True, 1),
}
ALTERNATE = of(
    "con_alt_chute_free",
    (
        "the fullest of the door's lane",
        routed("DD-04", {"ch7": 90, "ch8": 0, "ch1": 99}, PAIR),
        "true",
        "CH-007",
    ),
    (
        "the fullest of the zone",
        routed("ZN-1", {"ch7": 90, "ch8": 0, "ch16": 99}, PAIR),
        "true",
        "CH-007",
    ),
    ("free", routed("CH-007", {"CH-008": 9}, PAIR), "true", "CH-007"),
    ("at the limit", routed("CH-007", {"CH-008": 10}, PAIR), "false", "CH-007"),
    (
        "the alternate is disabled",
        routed("CH-007", {"CH-008": 0}, {**PAIR, "CH-008": (None, False, 1)}),
        "false",
        "CH-007",
    ),
    (
        "another pull",
        routed("CH-007", {"CH-008": 0}, {**PAIR, "CH-008": (None, True, 2)}),
        "false",
        "CH-007",
    ),
    ("none", routed("CH-008", {"CH-008": 0}, PAIR), "false", "CH-008"),
    (
        "none in the list",
        routed("CH-007", {"CH-008": 0}, {"CH-007": ("CH-008", True, 1)}),
        "false",
        "CH-007",
    ),
    ("not in the list itself", routed("CH-009", {"CH-008": 0}, PAIR), "false", "CH-009"),
    ("its state unknown", routed("CH-007", {"CH-007": 90}, PAIR), "no_data", "CH-007"),
    ("the fullest chute's", routed("LS-1", {"ch7": 90, "ch8": 0}, PAIR), "true", "CH-007"),
    (
        "the fullest of the lane",
        routed("STG-02", {"ch7": 90, "ch8": 0, "ch1": 99}, PAIR),
        "true",
        "CH-007",
    ),
    ("no chute known", routed("LS-1", {}, PAIR), "no_data", "LS-1"),
    ("heard a minute ago", routed("Chute 7", {"CH-008": 0}, PAIR, 60), "true", "CH-007"),
    ("not heard since", routed("Chute 7", {"CH-008": 0}, PAIR, 61), "no_data", "CH-007"),
    (
        "not heard, and no alternate",
        routed("CH-008", {"CH-008": 0}, PAIR, 61),
        "no_data",
        "CH-008",
    ),
)

CASES = [*FULL, *CLUSTERED, *DIVERTS, *WORN, *ALTERNATE]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
