from __future__ import annotations

import pytest

from tests.unit.bench_annotator.dock import DAY_S, Dock, T, ask, cycled, settings, verdict

WEEK_S = 7 * DAY_S


# --- loop and tunnels -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "value"), [(1.79, "true"), (1.8, "false"), (1.81, "false"), (0.0, "true")]
)
def test_a_loop_is_slow_below_nine_tenths_of_its_setpoint(speed: float, value: str) -> None:
    dock = Dock()
    dock.fill("sorter_speed", "LS-1", speed, last_s=60)
    dock.fill("sorter_setpoint", "LS-1", 2.0, last_s=60)
    assert verdict(dock, "obs_sorter_slow", "LS-1") == (value, "LS-1")


@pytest.mark.parametrize(("missing_s", "value"), [(20, "true"), (25, "no_data")])
def test_a_loop_needs_three_fifths_of_its_pairs(missing_s: int, value: str) -> None:
    dock = Dock()
    dock.fill("sorter_speed", "LS-1", 1.0, last_s=60)
    dock.fill("sorter_setpoint", "LS-1", 2.0, last_s=60)
    dock.fill("sorter_setpoint", "LS-1", None, last_s=missing_s)
    assert verdict(dock, "obs_sorter_slow", "LS-1")[0] == value


def test_a_loop_that_should_stand_is_no_pair() -> None:
    dock = Dock()
    dock.fill("sorter_speed", "LS-1", 0.0, last_s=60)
    dock.fill("sorter_setpoint", "LS-1", 0.0, last_s=60)
    assert verdict(dock, "obs_sorter_slow", "LS-1")[0] == "no_data"


@pytest.mark.parametrize(
    ("share", "inducted", "value"),
    [
        (6.0, 500, "true"),
        (5.99, 500, "false"),
        (6.0, 499, "no_data"),
        (5.0, 499, "no_data"),
    ],
)
def test_recirculation_without_a_baseline(share: float, inducted: int, value: str) -> None:
    dock = Dock()
    dock.fill("recirc_pct", "LS-1", share, last_s=900)
    dock.count("inducted_total", "LS-1", inducted, last_s=900)
    assert verdict(dock, "obs_recirc_elevated", "LS-1") == (value, "LS-1")


@pytest.mark.parametrize(
    ("usual", "weeks", "value"),
    [(4.0, 4, "true"), (4.01, 4, "false"), (4.01, 3, "false"), (4.01, 2, "true")],
)
def test_recirculation_against_three_of_four_weeks(usual: float, weeks: int, value: str) -> None:
    dock = Dock()
    dock.fill("recirc_pct", "LS-1", 6.0, last_s=900)
    dock.count("inducted_total", "LS-1", 900, last_s=900)
    for week in range(1, weeks + 1):
        dock.fill("recirc_pct", "LS-1", usual, last_s=900, end=T - week * WEEK_S)
    assert verdict(dock, "obs_recirc_elevated", "LS-1")[0] == value


def test_recirculation_with_too_few_samples() -> None:
    dock = Dock()
    dock.fill("recirc_pct", "LS-1", 9.0, last_s=8 * 60)
    dock.count("inducted_total", "LS-1", 900, last_s=900)
    assert verdict(dock, "obs_recirc_elevated", "LS-1")[0] == "no_data"


@pytest.mark.parametrize(
    ("entity", "no_reads", "scans", "value"),
    [
        ("ST-1", 25, 1000, "true"),
        ("ST-1", 24, 1000, "false"),
        ("ST-1", 25, 299, "no_data"),
        ("ST-1", 3, 300, "false"),
        ("LS-1", 25, 1000, "false"),  # the other tunnel is clean
        ("LS-1", 50, 1000, "true"),
    ],
)
def test_no_reads(entity: str, no_reads: int, scans: int, value: str) -> None:
    dock = Dock()
    for tunnel, missed in (("ST-1", no_reads), ("ST-2", 0)):
        dock.count("tunnel_scans_total", tunnel, scans, last_s=900)
        dock.count("tunnel_no_reads_total", tunnel, missed, last_s=900)
    assert verdict(dock, "obs_no_read_elevated", entity) == (value, entity)


@pytest.mark.parametrize(("missed", "value"), [(20, "true"), (19, "false")])
def test_no_reads_above_a_low_baseline(missed: int, value: str) -> None:
    dock = Dock()
    for week in range(5):
        dock.count("tunnel_scans_total", "ST-2", 1000, last_s=900, end=T - week * WEEK_S)
        dock.count(
            "tunnel_no_reads_total",
            "ST-2",
            missed if week == 0 else 5,
            last_s=900,
            end=T - week * WEEK_S,
        )
    assert verdict(dock, "obs_no_read_elevated", "ST-2")[0] == value


def test_a_baseline_week_with_few_scans_is_unknown() -> None:
    dock = Dock()
    for week in range(5):
        scans = 1000 if week in (0, 1, 2) else 299
        dock.count("tunnel_scans_total", "ST-2", scans, last_s=900, end=T - week * WEEK_S)
        dock.count(
            "tunnel_no_reads_total",
            "ST-2",
            20 if week == 0 else 0,
            last_s=900,
            end=T - week * WEEK_S,
        )
    assert verdict(dock, "obs_no_read_elevated", "ST-2")[0] == "false"


# --- cells ------------------------------------------------------------------------------------


def _spent(dock: Dock, cells: int, **seconds: float) -> None:
    for number in range(cells):
        for state in ("running", "starved", "blocked", "fault", "maintenance", "off"):
            dock.fill(
                f"cell_state_seconds:{state}",
                f"RC-0{number}",
                seconds.get(state, 0.0),
                last_s=600,
            )


@pytest.mark.parametrize(
    ("node", "state", "seconds", "value"),
    [
        ("obs_induct_starved", "starved", 24.0, "true"),
        ("obs_induct_starved", "starved", 23.9, "false"),
        ("obs_induct_blocked", "blocked", 18.0, "true"),
        ("obs_induct_blocked", "blocked", 17.9, "false"),
    ],
)
def test_cells_in_a_state(node: str, state: str, seconds: float, value: str) -> None:
    dock = Dock()
    _spent(dock, 6, running=60 - seconds, **{state: seconds})
    assert verdict(dock, node, "LS-1") == (value, "LS-1")


def test_cells_out_of_use_do_not_count() -> None:
    dock = Dock()
    _spent(dock, 6, running=18, starved=12, maintenance=20, off=10)
    assert verdict(dock, "obs_induct_starved", "LS-1")[0] == "true"


@pytest.mark.parametrize(("seconds", "value"), [(60.0, "true"), (59.9, "no_data")])
def test_cells_need_enough_seconds_at_work(seconds: float, value: str) -> None:
    dock = Dock()
    _spent(dock, 2, starved=seconds)
    assert verdict(dock, "obs_induct_starved", "LS-1")[0] == value


def _picks(dock: Dock, *cells: tuple[int, int], last_s: int = 1200) -> None:
    """Attempts and fails of RC-00 and so on."""
    for number, (picks, fails) in enumerate(cells):
        dock.count("cell_picks_total", f"RC-0{number}", picks, last_s=last_s)
        dock.count("cell_fails_total", f"RC-0{number}", fails, last_s=last_s)


@pytest.mark.parametrize(
    ("entity", "value"),
    [("RC-00", "true"), ("RC-01", "false"), ("RC-02", "no_data"), ("RC-03", "no_data")],
)
def test_pick_fails_of_one_cell(entity: str, value: str) -> None:
    dock = Dock()
    _picks(dock, (100, 8), (1000, 79), (99, 50))
    assert verdict(dock, "obs_pick_fail_elevated", entity) == (value, entity)


def test_pick_fails_of_all_cells() -> None:
    dock = Dock()
    _picks(dock, (50, 10), (50, 0))
    assert verdict(dock, "obs_pick_fail_elevated", "LS-1") == ("true", "LS-1")


@pytest.mark.parametrize(
    ("cells", "value", "subject"),
    [
        ([(100, 10), (100, 5), (100, 5), (100, 5)], "true", "RC-00"),
        ([(100, 9), (100, 5), (100, 5), (100, 5)], "false", "RC-00"),
        ([(100, 6), (100, 6), (100, 12), (100, 6)], "false", "RC-02"),
        ([(100, 5), (100, 20), (100, 20), (100, 5), (100, 5)], "true", "RC-01"),
        ([(100, 10), (100, 5), (100, 5), (99, 5)], "no_data", "RC-00"),
        ([(99, 10)], "no_data", "RC-05"),
    ],
)
def test_a_single_bad_cell(cells: list[tuple[int, int]], value: str, subject: str) -> None:
    dock = Dock()
    _picks(dock, *cells)
    assert verdict(dock, "obs_pick_fail_single_cell", "RC-05") == (value, subject)


# --- chutes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("full_s", "value"), [(225, "true"), (224, "false"), (900, "true"), (0, "false")]
)
def test_a_chute_full_for_a_quarter_of_the_time(full_s: int, value: str) -> None:
    dock = Dock()
    dock.state("chute_full", "CH-007", (1000, 0), (full_s, 1))
    assert verdict(dock, "obs_chutes_full", "ch7") == (value, "CH-007")


@pytest.mark.parametrize(("before_s", "value"), [(540, "true"), (539, "no_data"), (4000, "true")])
def test_a_chute_is_known_from_its_first_change_on(before_s: int, value: str) -> None:
    dock = Dock()
    dock.state("chute_full", "CH-007", (before_s, 1))
    assert verdict(dock, "obs_chutes_full", "CH-007")[0] == value


def test_how_long_a_chutes_last_change_is_carried() -> None:
    dock = Dock()
    carry_s = settings().site(dock.sites[0]).seconds("chute_carry_s")
    dock.state("chute_full", "CH-007", (900 + carry_s - 1, 1))
    assert verdict(dock, "obs_chutes_full", "CH-007") == ("true", "CH-007")
    dock.state("chute_full", "CH-007", (900 + carry_s, 1))
    assert verdict(dock, "obs_chutes_full", "CH-007") == ("no_data", "CH-007")


def test_the_fullest_chute_of_the_scope() -> None:
    dock = Dock()
    dock.state("chute_full", "CH-003", (1000, 1))
    dock.state("chute_full", "CH-008", (1000, 0), (300, 1))
    dock.state("chute_full", "CH-009", (1000, 0), (300, 1))
    assert verdict(dock, "obs_chutes_full", "LS-1") == ("true", "CH-003")
    assert verdict(dock, "obs_chutes_full", "STG-02") == ("true", "CH-008")
    assert verdict(dock, "obs_chutes_full", "Door 4") == ("true", "CH-008")
    assert verdict(dock, "obs_chutes_full", "STG-07") == ("no_data", "STG-07")


@pytest.mark.parametrize(
    ("full", "value", "subject"),
    [
        ([1, 2, 3, 16, 31], "true", "ZN-1"),  # three of five
        ([1, 2, 3, 16, 31, 46], "false", "CH-001"),
        ([16, 17], "false", "CH-001"),
        ([16, 17, 18], "true", "ZN-2"),
        ([], "false", "CH-001"),
    ],
)
def test_full_chutes_of_one_zone(full: list[int], value: str, subject: str) -> None:
    dock = Dock()
    for number in range(1, 61):
        changes = [(1000, 0), (225, 1)] if number in full else [(1000, 0)]
        dock.state("chute_full", f"CH-{number:03d}", *changes)
    assert verdict(dock, "obs_chutes_clustered", "CH-001") == (value, subject)


def test_no_chute_known_is_no_cluster() -> None:
    assert verdict(Dock(), "obs_chutes_clustered", "LS-1") == ("no_data", "LS-1")


def _diverts(dock: Dock, chute: int, attempts: int, fails: int, lane_full: int, s: int) -> None:
    asset = f"CH-{chute:03d}"
    dock.count("divert_attempts_total", asset, attempts, last_s=s)
    dock.count("divert_fails_total", asset, fails, last_s=s)
    dock.count("divert_lane_full_total", asset, lane_full, last_s=s)


@pytest.mark.parametrize(
    ("attempts", "fails", "lane_full", "value"),
    [
        (110, 11, 10, "true"),
        (111, 11, 10, "false"),
        (69, 11, 10, "no_data"),
        (70, 20, 10, "true"),
    ],
)
def test_divert_fails_of_a_chute(attempts: int, fails: int, lane_full: int, value: str) -> None:
    dock = Dock()
    _diverts(dock, 7, attempts, fails, lane_full, 3600)
    assert verdict(dock, "obs_divert_fail_elevated", "CH-007") == (value, "CH-007")


@pytest.mark.parametrize(("attempts", "value"), [(100, "true"), (101, "false"), (99, "no_data")])
def test_divert_fails_of_all_chutes(attempts: int, value: str) -> None:
    dock = Dock()
    _diverts(dock, 7, attempts, 2, 0, 1200)
    _diverts(dock, 8, 100, 0, 0, 1200)
    assert verdict(dock, "obs_divert_fail_elevated", "LS-1")[0] == value


def test_margins_are_relative_to_the_threshold() -> None:
    dock = Dock()
    dock.state("chute_full", "CH-007", (1000, 0), (270, 1))
    assert ask(dock, "obs_chutes_full", "CH-007").margin == pytest.approx(0.2)
    assert ask(dock, "obs_chutes_full", "CH-009").margin is None


def test_the_median_of_uneven_samples() -> None:
    dock = Dock()
    dock.fill("sorter_speed", "LS-1", cycled(1.0, 1.9, 1.9), last_s=60)
    dock.fill("sorter_setpoint", "LS-1", 2.0, last_s=60)
    assert verdict(dock, "obs_sorter_slow", "LS-1")[0] == "false"
