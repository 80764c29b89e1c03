from __future__ import annotations

from typing import Any

import pytest

from tests.unit.bench_annotator.dock import DAY_S, Dock, T, cycled, verdict

# --- controllers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "as_of", "value"),
    [
        ([True, True], T, "false"),
        ([True, False], T - 60, "true"),
        ([True, False], T - 61, "no_data"),
        ([True, -1], T, "no_data"),
        ([False, -1], T, "true"),
    ],
)
def test_safety_inputs(states: list[Any], as_of: int, value: str) -> None:
    dock = Dock()
    inputs = [{"name": f"gate {number}", "ok": ok} for number, ok in enumerate(states)]
    dock.answer("safety_inputs", "RC-02", as_of, inputs=inputs)
    assert verdict(dock, "rc_safety_stop", "Cell 2") == (value, "RC-02")


@pytest.mark.parametrize(
    ("code", "latched", "value"),
    [
        (0, None, "false"),
        (7, None, "true"),
        (-1, T, "no_data"),
        (0, T - 900, "true"),
        (0, T - 901, "false"),
        (0, -1, "false"),
    ],
)
def test_fault_codes(code: int, latched: int | None, value: str) -> None:
    dock = Dock()
    dock.answer("fault_code", "DRV-1", code=code, latched_at=latched)
    assert verdict(dock, "rc_drive_fault", "DRV-1") == (value, "DRV-1")


def test_a_fault_code_heard_too_long_ago() -> None:
    dock = Dock()
    dock.answer("fault_code", "DRV-1", T - 61, code=7, latched_at=T - 61)
    assert verdict(dock, "rc_drive_fault", "DRV-1")[0] == "no_data"


def _doors(*doors: tuple[str, bool, Any, int]) -> dict[str, Any]:
    """Door, docked, whether its leveller is ready, and for how long."""
    return {
        "doors": [
            {
                "door": door,
                "docked": docked,
                "devices": [
                    {"name": "leveller", "ready": ready, "since": T - for_s},
                    {"name": "restraint", "ready": True, "since": T - 9000},
                ],
            }
            for door, docked, ready, for_s in doors
        ]
    }


@pytest.mark.parametrize(
    ("doors", "value", "subject"),
    [
        ([("DD-05", True, False, 300)], "true", "DD-05"),
        ([("DD-05", True, False, 299)], "false", "STG-03"),
        ([("DD-05", False, False, 300)], "false", "STG-03"),
        ([("DD-05", True, -1, 300)], "no_data", "STG-03"),
        ([("DD-05", False, -1, 300)], "false", "STG-03"),
        ([("DD-05", True, -1, 300), ("DD-06", True, False, 300)], "true", "DD-06"),
        ([], "false", "STG-03"),
    ],
)
def test_doors_of_a_lane(doors: list[Any], value: str, subject: str) -> None:
    dock = Dock()
    dock.answer("doors", "STG-03", **_doors(*doors))
    assert verdict(dock, "rc_door_fault", "STG-03") == (value, subject)


def test_doors_are_asked_by_scope_and_must_be_fresh() -> None:
    dock = Dock()
    dock.answer("doors", "STG-01", **_doors(("DD-01", True, False, 900)))
    dock.answer("doors", "LS-1", **_doors(("DD-24", True, False, 900)))
    dock.answer("doors", "DD-09", T - 61, **_doors(("DD-09", True, False, 900)))
    assert verdict(dock, "rc_door_fault", "CH-003") == ("true", "DD-01")
    assert verdict(dock, "rc_door_fault", "RC-03") == ("true", "DD-24")
    assert verdict(dock, "rc_door_fault", "DD-09") == ("no_data", "DD-09")


@pytest.mark.parametrize(
    ("total", "disabled", "value"),
    [(500, 15, "true"), (500, 14, "false"), (500, -1, "no_data"), (0, 0, "no_data")],
)
def test_carriers(total: int, disabled: int, value: str) -> None:
    dock = Dock()
    dock.answer("carriers", "LS-1", total=total, disabled=disabled)
    assert verdict(dock, "rc_carriers_out", "RC-01") == (value, "LS-1")


# --- eyes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("margin", "value"), [(24, "true"), (25, "false"), (-1, "no_data")])
def test_the_margin_of_an_eye(margin: int, value: str) -> None:
    dock = Dock()
    dock.answer("eye_margin", "PE-22", eyes=[{"eye": "PE-22", "margin_pct": margin}])
    assert verdict(dock, "rc_photo_eye_dirty", "PE-22") == (value, "PE-22")


@pytest.mark.parametrize(
    ("blocked_s", "before", "behind", "value"),
    [
        (540, 20, 20, "true"),
        (539, 20, 20, "false"),
        (540, 19, 20, "false"),
        (540, 20, 19, "false"),
        (540, 20, None, "no_data"),
    ],
)
def test_an_eye_blocked_while_product_passes(
    blocked_s: int, before: int, behind: int | None, value: str
) -> None:
    dock = Dock()
    dock.state("eye_blocked", "PE-22", (601, 1), (600 - blocked_s, 0))
    dock.count("parcels_total", "PE-21", before, last_s=600)
    if behind is not None:
        dock.count("parcels_total", "PE-23", behind, last_s=600)
    assert verdict(dock, "rc_photo_eye_dirty", "PE-22")[0] == value


def test_the_last_eye_has_one_neighbour() -> None:
    dock = Dock()
    dock.state("eye_blocked", "PE-25", (601, 1))
    dock.count("parcels_total", "PE-24", 20, last_s=600)
    assert verdict(dock, "rc_photo_eye_dirty", "INF-2") == ("true", "PE-25")


def test_the_fullest_chutes_own_eye() -> None:
    def eyes(**margins: int) -> list[dict[str, Any]]:
        return [
            {"eye": eye.replace("_", "-"), "margin_pct": margin} for eye, margin in margins.items()
        ]

    dock = Dock()
    assert verdict(dock, "rc_photo_eye_dirty", "LS-1") == ("no_data", "LS-1")
    dock.state("chute_full", "CH-009", (1000, 1))
    assert verdict(dock, "rc_photo_eye_dirty", "LS-1") == ("no_data", "LS-1")
    dock.answer("eye_margin", "LS-1", eyes=eyes(CH_008=10, CH_009=24))
    assert verdict(dock, "rc_photo_eye_dirty", "LS-1") == ("true", "CH-009")
    dock.answer("eye_margin", "LS-1", eyes=eyes(CH_008=10, CH_009=25))
    assert verdict(dock, "rc_photo_eye_dirty", "LS-1") == ("false", "LS-1")


def test_a_chute_is_asked_for_its_own_eye() -> None:
    dock = Dock()
    dock.state("chute_full", "CH-009", (1000, 1))
    dock.answer("eye_margin", "LS-1", eyes=[{"eye": "CH-009", "margin_pct": 90}])
    dock.answer("eye_margin", "CH-009", eyes=[{"eye": "CH-009", "margin_pct": 10}])
    assert verdict(dock, "rc_photo_eye_dirty", "CH-009") == ("true", "CH-009")


# --- drives, air, singulator, loop ------------------------------------------------------------


@pytest.mark.parametrize(
    ("entity", "drive"),
    [("DRV-3", "DRV-3"), ("INF-3", "DRV-3"), ("PE-34", "DRV-3"), ("RC-04", "DRV-14"),
     ("CH-001", "DRV-0")],
)  # fmt: skip
def test_the_drive_of_an_asset(entity: str, drive: str) -> None:
    dock = Dock()
    dock.fill("drive_load", drive, 95.0, last_s=600)
    assert verdict(dock, "rc_drive_overload", entity) == ("true", drive)


@pytest.mark.parametrize(
    ("load", "temp", "seconds", "value"),
    [
        (94.99, None, 600, "false"),
        (95.0, None, 300, "true"),
        (95.0, None, 290, "no_data"),
        (50.0, 80.0, 600, "true"),
        (50.0, 79.99, 600, "false"),
        (None, 80.0, 300, "true"),
    ],
)
def test_a_labouring_drive(
    load: float | None, temp: float | None, seconds: int, value: str
) -> None:
    dock = Dock()
    dock.fill("drive_load", "DRV-0", load, last_s=seconds)
    dock.fill("drive_temp", "DRV-0", temp, last_s=seconds)
    assert verdict(dock, "rc_drive_overload", "LS-1") == (value, "DRV-0")


def test_a_hot_drive_by_the_hottest_twentieth() -> None:
    dock = Dock()
    # Of 60 samples ordered, rank 56.05 lies between the last four, which are hot.
    dock.fill("drive_temp", "DRV-0", cycled(*[60.0] * 56, *[81.0] * 4), last_s=600)
    assert verdict(dock, "rc_drive_overload", "LS-1")[0] == "true"
    dock.fill("drive_temp", "DRV-0", cycled(*[60.0] * 57, *[81.0] * 3), last_s=600)
    assert verdict(dock, "rc_drive_overload", "LS-1")[0] == "false"


@pytest.mark.parametrize(
    ("bar", "missing_s", "value"),
    [(5.29, 0, "true"), (5.3, 0, "false"), (5.0, 240, "true"), (5.0, 250, "no_data")],
)
def test_air_pressure(bar: float, missing_s: int, value: str) -> None:
    dock = Dock()
    dock.fill("air_pressure", "AIR-1", bar, last_s=600)
    dock.fill("air_pressure", "AIR-1", None, last_s=missing_s)
    assert verdict(dock, "rc_air_pressure_low", "CH-001") == (value, "AIR-1")


@pytest.mark.parametrize(
    ("gap", "gaps_s", "double", "value"),
    [
        (149.9, 600, None, "true"),
        (150.0, 600, None, "false"),
        (149.9, 597, None, "no_data"),
        (300.0, 600, 3.0, "true"),
        (300.0, 600, 2.99, "false"),
        (149.9, 597, 1.0, "false"),
    ],
)
def test_gaps(gap: float, gaps_s: int, double: float | None, value: str) -> None:
    dock = Dock()
    dock.fill("merge_gap", "SG-1", gap, last_s=gaps_s)
    dock.fill("double_pct", "SG-1", double, last_s=900)
    assert verdict(dock, "rc_gap_loss", "ST-1") == (value, "SG-1")


@pytest.mark.parametrize(
    ("encoder", "drive", "lost", "inducted", "value"),
    [
        (2.1, 2.0, 0, 1000, "true"),
        (1.9, 2.0, 0, 1000, "true"),
        (2.09, 2.0, 0, 1000, "false"),
        (2.0, 2.0, 5, 1000, "true"),
        (2.0, 2.0, 4, 1000, "false"),
        (2.0, 2.0, 5, 499, "false"),
        (0.2, 0.1, 4, 1000, "false"),  # standing: only the count is known
        (0.2, 0.1, 5, 499, "no_data"),
    ],
)
def test_tracking(encoder: float, drive: float, lost: int, inducted: int, value: str) -> None:
    dock = Dock()
    dock.fill("encoder_speed", "LS-1", encoder, last_s=600)
    dock.fill("sorter_speed", "LS-1", drive, last_s=600)
    dock.count("tracking_lost_total", "LS-1", lost, last_s=900)
    dock.count("inducted_total", "LS-1", inducted, last_s=900)
    assert verdict(dock, "rc_tracking_slip", "CH-002") == (value, "LS-1")


# --- tunnels and diverts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "scans", "value", "subject"),
    [
        (25, 12, 1000, "true", "ST-1"),
        (24, 0, 1000, "false", "ST-1"),
        (25, 26, 1000, "false", "ST-2"),
        (15, 30, 1000, "true", "ST-2"),
        (15, 29, 1000, "false", "ST-2"),
        (30, 0, 499, "no_data", "ST-1"),
    ],
)
def test_one_tunnel_against_its_twin(
    one: int, two: int, scans: int, value: str, subject: str
) -> None:
    dock = Dock()
    dock.count("tunnel_scans_total", "ST-1", scans, last_s=3600)
    dock.count("tunnel_scans_total", "ST-2", 1000, last_s=3600)
    dock.count("tunnel_no_reads_total", "ST-1", one, last_s=3600)
    dock.count("tunnel_no_reads_total", "ST-2", two, last_s=3600)
    assert verdict(dock, "rc_scan_lens_dirty", "ST-1") == (value, subject)


def _worn(fails: dict[int, int], attempts: int = 200) -> Dock:
    dock = Dock()
    for chute, failed in fails.items():
        asset = f"CH-{chute:03d}"
        dock.count("divert_attempts_total", asset, attempts + 10, last_s=7200)
        dock.count("divert_fails_total", asset, failed + 10, last_s=7200)
        dock.count("divert_lane_full_total", asset, 10, last_s=7200)
    return dock


@pytest.mark.parametrize(
    ("dock", "value", "subject"),
    [
        (_worn({1: 1, 2: 1, 3: 1, 4: 4}), "true", "CH-004"),
        (_worn({1: 1, 2: 1, 3: 1, 4: 3}), "false", "CH-004"),
        (_worn({1: 0, 2: 0, 3: 0, 4: 3}), "true", "CH-004"),
        (_worn({1: 0, 2: 0, 3: 0, 4: 2}), "false", "CH-004"),
        (_worn({1: 0, 2: 0, 4: 9}), "no_data", "CH-004"),
        (_worn({1: 9, 2: 9, 3: 9, 4: 9}, attempts=149), "no_data", "LS-1"),
    ],
)
def test_one_divert_against_the_others(dock: Dock, value: str, subject: str) -> None:
    assert verdict(dock, "rc_divert_worn", "LS-1") == (value, subject)


def test_the_divert_the_alert_names() -> None:
    dock = _worn({1: 1, 2: 1, 3: 1, 4: 9})
    assert verdict(dock, "rc_divert_worn", "CH-001") == ("false", "CH-001")
    assert verdict(dock, "rc_divert_worn", "CH-009") == ("no_data", "CH-009")


# --- cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leak", "holds", "usual", "days", "value"),
    [
        (20.0, 180, None, 0, "true"),
        (19.9, 180, None, 0, "false"),
        (30.0, 59, None, 0, "no_data"),
        (30.0, 60, 20.0, 7, "true"),
        (30.0, 180, 20.1, 4, "false"),
        (30.0, 180, 20.1, 3, "true"),
    ],
)
def test_leaks(leak: float, holds: int, usual: float | None, days: int, value: str) -> None:
    dock = Dock()
    dock.fill("cell_leak", "RC-03", leak, last_s=20 * holds)
    for day in range(1, days + 1):
        dock.fill("cell_leak", "RC-03", usual, last_s=3600, end=T - day * DAY_S)
    assert verdict(dock, "rc_cup_worn", "RC-03") == (value, "RC-03")


def test_the_worst_cell_when_none_is_named() -> None:
    dock = Dock()
    assert verdict(dock, "rc_cup_worn", "LS-1") == ("no_data", "LS-1")
    for cell, fails in (("RC-01", 9), ("RC-04", 10)):
        dock.count("cell_picks_total", cell, 100, last_s=1200)
        dock.count("cell_fails_total", cell, fails, last_s=1200)
        dock.fill("cell_leak", cell, 25.0, last_s=3600)
    assert verdict(dock, "rc_cup_worn", "LS-1") == ("true", "RC-04")


@pytest.mark.parametrize(
    ("flow", "distinct", "leak", "value"),
    [
        (120.0, 20, 19.9, "true"),
        (119.0, 20, 19.9, "false"),
        (120.0, 19, 19.9, "no_data"),
        (120.0, 20, 20.0, "false"),
        (120.0, 20, None, "no_data"),
    ],
)
def test_free_flow(flow: float, distinct: int, leak: float | None, value: str) -> None:
    dock = Dock()
    spread = [flow - distinct + 1 + 2 * step for step in range(distinct)]  # median is `flow`
    dock.fill("cell_freeflow", "RC-03", cycled(*spread, 4.9, 0.0), last_s=3600)
    dock.fill("cell_leak", "RC-03", leak, last_s=3600)
    assert verdict(dock, "rc_vacuum_filter_clogged", "RC-03") == (value, "RC-03")


@pytest.mark.parametrize(
    ("own", "others", "picks", "value"),
    [
        (10.0, [5.0, 5.0, 5.0], 100, "true"),
        (9.9, [1.0, 1.0, 1.0], 100, "false"),
        (12.0, [6.1, 6.1, 1.0], 100, "false"),
        (12.0, [5.0, 5.0], 100, "no_data"),
        (12.0, [5.0, 5.0, 5.0], 99, "no_data"),
    ],
)
def test_grasps_not_found(own: float, others: list[float], picks: int, value: str) -> None:
    dock = Dock()
    for number, share in enumerate([own, *others]):
        cell = f"RC-0{number}"
        dock.fill("cell_no_grasp", cell, share, last_s=1800)
        dock.count("cell_picks_total", cell, picks if number == 0 else 100, last_s=1800)
        dock.count("cell_fails_total", cell, 0, last_s=1800)
    assert verdict(dock, "rc_vision_degraded", "RC-00") == (value, "RC-00")


def test_an_asset_that_does_not_exist_has_no_samples() -> None:
    dock = Dock()
    assert verdict(dock, "rc_drive_overload", "DRV-9") == ("no_data", "DRV-9")
    assert verdict(dock, "obs_chutes_full", "CH-099") == ("no_data", "CH-099")
