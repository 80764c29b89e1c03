"""Jams, staging and departures."""

from __future__ import annotations

import pytest

from tests.unit.bench_annotator.dock import T2, Dock, T, ask, verdict

# --- jams -------------------------------------------------------------------------------------


def _jam(*, run: tuple[int, int] = (300, 250), passed: int = 0, motor: float | None = 1.0) -> Dock:
    """PE-22 blocked in a run; at 270 s before T PE-23 has counted."""
    dock = Dock()
    for eye in ("PE-21", "PE-22", "PE-23", "PE-24"):
        dock.state("eye_blocked", eye, (700, 0))
    dock.state("eye_blocked", "PE-22", (700, 0), (run[0], 1), (run[1], 0))
    for eye in ("PE-22", "PE-23", "PE-24", "PE-25"):
        dock.fill("parcels_total", eye, 0, last_s=600)
    dock.fill("parcels_total", "PE-23", passed, last_s=10, end=T - 270)
    dock.fill("motor_on", "INF-2", motor, last_s=600)
    return dock


@pytest.mark.parametrize("entity", ["PE-22", "INF-2", "LS-1", "Eye 22"])
def test_a_jam_is_found_from_every_scope(entity: str) -> None:
    assert verdict(_jam(), "obs_jam_real", entity) == ("true", "PE-22")


def test_no_jam_when_parcels_pass_or_the_motor_stands() -> None:
    assert verdict(_jam(passed=1), "obs_jam_real", "PE-22") == ("false", "PE-22")
    assert verdict(_jam(motor=0.0), "obs_jam_real", "PE-22") == ("false", "PE-22")
    assert verdict(_jam(motor=None), "obs_jam_real", "PE-22") == ("false", "PE-22")


@pytest.mark.parametrize(
    ("run", "value"),
    [
        ((300, 290), "true"),  # both ends are samples
        ((300, 291), "false"),  # one sample only
        ((10, -5), "true"),  # still on at t
        ((9, -5), "false"),
        ((700, 590), "false"),  # ten seconds in the window, whose left edge is no sample of it
        ((700, 580), "true"),
    ],
)
def test_the_run_of_a_jam(run: tuple[int, int], value: str) -> None:
    assert verdict(_jam(run=run), "obs_jam_real", "PE-22")[0] == value


def test_what_counted_before_the_run_is_no_passing() -> None:
    dock = _jam()
    dock.fill("parcels_total", "PE-23", 5, last_s=10, end=T - 300)
    assert verdict(dock, "obs_jam_real", "PE-22")[0] == "true"


def test_an_unknown_eye_or_counter() -> None:
    dock = _jam()
    dock.fill("parcels_total", "PE-23", None, last_s=600)
    assert verdict(dock, "obs_jam_real", "PE-22") == ("no_data", "PE-22")
    assert verdict(dock, "obs_jam_real", "INF-2") == ("false", "INF-2")
    assert verdict(dock, "obs_jam_real", "PE-25") == ("no_data", "PE-25")  # none behind it
    dock = _jam()
    dock.state("eye_blocked", "PE-22", (359, 1))
    assert verdict(dock, "obs_jam_real", "PE-22")[0] == "no_data"
    dock.state("eye_blocked", "PE-22", (360, 1))
    assert verdict(dock, "obs_jam_real", "PE-22")[0] == "true"


# --- staging and departures -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("occupied", "at", "value"),
    [
        (20, T2, "true"),
        (19, T2, "false"),
        (20, T - 600, "true"),
        (20, T - 601, "no_data"),
        (20, T2 + 1, "no_data"),
    ],
)
def test_a_crowded_lane(occupied: int, at: int, value: str) -> None:
    dock = Dock()
    # Of 22 positions 2 are closed and counted as occupied.
    dock.row("staging_lane", at=at, lane="STG-03", positions=22, occupied=occupied, closed=2)
    assert verdict(dock, "obs_staging_crowded", "STG-03") == (value, "STG-03")


def test_the_most_crowded_lane_and_the_latest_row() -> None:
    dock = Dock()
    dock.row("staging_lane", at=T2 - 300, lane="STG-05", positions=20, occupied=20, closed=0)
    dock.row("staging_lane", at=T2, lane="STG-05", positions=20, occupied=1, closed=0)
    dock.row("staging_lane", at=T2, lane="STG-02", positions=20, occupied=19, closed=0)
    dock.row("staging_lane", at=T2, lane="STG-01", positions=4, occupied=4, closed=4)
    assert verdict(dock, "obs_staging_crowded", "LS-1") == ("true", "STG-02")
    assert verdict(dock, "obs_staging_crowded", "STG-05") == ("false", "STG-05")
    assert verdict(dock, "obs_staging_crowded", "STG-01") == ("no_data", "STG-01")


@pytest.mark.parametrize(("before_s", "value"), [(1799, "false"), (1800, "no_data")])
def test_the_warehouses_sign_of_life(before_s: int, value: str) -> None:
    dock = Dock()
    dock.beat(before_s)
    assert verdict(dock, "obs_departure_short", "STG-03") == (value, "STG-03")


def _departure(*, planned: int, cpt: int = T + 3600, last: int = T2, first: int = T2 - 900) -> Dock:
    """500 parcels loaded by `last`, 400 by `first`."""
    dock = Dock()
    dock.row("departure", departure_id="D1", lane="STG-03", cpt=cpt, planned=planned)
    dock.row("loading", departure_id="D1", at=first, loaded=400)
    dock.row("loading", departure_id="D1", at=last, loaded=500)
    return dock


@pytest.mark.parametrize(
    ("planned", "value"),
    [(918, "false"), (919, "true")],  # 500 + 3600/9 = 900 of 918.4
)
def test_a_departure_at_this_pace(planned: int, value: str) -> None:
    assert verdict(_departure(planned=planned), "obs_departure_short", "STG-03")[0] == value


def test_a_departure_beyond_what_can_be_told() -> None:
    def value(dock: Dock, entity: str = "STG-03") -> str:
        return ask(dock, "obs_departure_short", entity).value

    assert value(_departure(planned=9999)) == "true"
    assert value(_departure(planned=9999), "STG-04") == "false"
    assert verdict(_departure(planned=9999), "obs_departure_short", "LS-1")[1] == "STG-03"
    assert value(_departure(planned=9999, cpt=T)) == "false"
    assert value(_departure(planned=99999, cpt=T + 7200)) == "true"
    assert value(_departure(planned=99999, cpt=T + 7201)) == "false"
    assert value(_departure(planned=9999, first=T2 - 899)) == "no_data"
    assert value(_departure(planned=9999, last=T - 600, first=T - 1500)) == "true"
    assert value(_departure(planned=9999, last=T - 601, first=T - 1501)) == "no_data"
