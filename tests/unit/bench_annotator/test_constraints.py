"""Whether the costly actions are safe: what the nodes answer at and beside each boundary."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.bench_annotator.dock import T2, Dock, T, verdict

HOUR_S = 3600
SLOT = T2 // 900 * 900


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ({}, "true"),
        ({"asset_text": "jam behind eye 22 again"}, "true"),
        ({"asset_text": "INF-2"}, "true"),  # the parent
        ({"asset_text": "PE-23"}, "false"),
        ({"asset_text": "photo eye no. 22"}, "false"),
        ({"status": "In-Progress"}, "true"),
        ({"status": "resolved"}, "false"),
        ({"status": "resolved", "closed": T2 + 1}, "true"),
        ({"status": "resolved", "closed": T2}, "false"),
        ({"opened": T - 72 * HOUR_S}, "true"),
        ({"opened": T - 72 * HOUR_S - 1}, "false"),
        ({"opened": T2}, "true"),
        ({"opened": T2 + 1}, "false"),
    ],
)
def test_a_ticket_for_the_asset_or_its_parent(columns: dict[str, Any], value: str) -> None:
    dock = Dock()
    ticket = {"asset_text": "PE_22", "status": "open", "opened": T - HOUR_S, "closed": -1}
    dock.row("ticket", ticket_id="TK-1", **{**ticket, **columns})
    assert verdict(dock, "con_ticket_open", "PE-22") == (value, "PE-22")


def _crew(priority: str = "P1", assignee: str = "p1", **shift: int) -> Dock:
    dock = Dock()
    on, off = shift.get("on", T2), shift.get("off", T2 + 1)
    for person, skill in (("p1", "mechatronics"), ("p2", "controls")):
        dock.row("roster", person_id=person, role="technician", skill=skill, on=on, off=off)
    dock.row(
        "ticket", ticket_id="TK-1", status="assigned", priority=priority, opened=T2 - 999 * HOUR_S,
        closed=-1, assignee=assignee, asset_text="CH-001",
    )  # fmt: skip
    return dock


@pytest.mark.parametrize(
    ("dock", "value"),
    [
        (_crew(), "false"),
        (_crew(priority="P3"), "true"),
        (_crew(assignee="p2"), "true"),
        (_crew(priority="P3", off=T2), "false"),
        (_crew(priority="P3", on=T2 + 1, off=T2 + 2), "false"),
    ],
)
def test_a_free_technician(dock: Dock, value: str) -> None:
    assert verdict(dock, "con_tech_free", "LS-1") == (value, "LS-1")


@pytest.mark.parametrize(
    ("cpt", "loaded", "value"),
    [
        (T + 3600, 99, "true"),
        (T + 3599, 99, "false"),
        (T + 3599, 100, "true"),
        (T + 3599, None, "false"),
        (T + 43201, 0, "true"),
    ],
)
def test_time_before_the_next_pull(cpt: int, loaded: int | None, value: str) -> None:
    dock = Dock()
    dock.row("departure", departure_id="D1", lane="STG-01", cpt=cpt, planned=100)
    dock.row("loading", departure_id="D1", at=T2 + 1, loaded=100)
    if loaded is not None:
        dock.row("loading", departure_id="D1", at=T2, loaded=loaded)
    assert verdict(dock, "con_cpt_slack", "LS-1") == (value, "LS-1")


@pytest.mark.parametrize(
    ("entity", "on_hand", "reserved", "at", "value"),
    [
        ("RC-01", 2, 1, T2, "true"),
        ("RC-01", 2, 2, T2, "false"),
        ("RC-01", 1, -1, T2, "true"),
        ("RC-01", 9, 0, T2 + 1, "false"),
        ("LS-1", 9, 0, T2, "no_data"),
    ],
)
def test_the_part_in_the_crib(
    entity: str, on_hand: int, reserved: int, at: int, value: str
) -> None:
    dock = Dock()
    dock.row("spare_stock", part="GRIPPER-KIT", at=at, on_hand=on_hand, reserved=reserved)
    assert verdict(dock, "con_spare_on_hand", entity) == (value, entity)


@pytest.mark.parametrize(
    ("trailer", "driver_off", "value"),
    [
        ({}, T2 + 1, "true"),
        ({}, T2, "false"),
        ({"kind": "dolly"}, T2 + 1, "false"),
        ({"status": "loaded"}, T2 + 1, "false"),
        ({"inspected": 0}, T2 + 1, "false"),
        ({"arrived": T2 + 1}, T2 + 1, "false"),
        ({"left": T2}, T2 + 1, "false"),
        ({"left": T2 + 1}, T2 + 1, "true"),
    ],
)
def test_another_trailer_and_a_driver(trailer: dict[str, Any], driver_off: int, value: str) -> None:
    dock = Dock()
    usable = {"kind": "carrier", "status": "empty", "inspected": 1, "arrived": T2, "left": -1}
    dock.row("yard_trailer", trailer_id="TR-1", **{**usable, **trailer})
    dock.row("roster", person_id="p1", role="yard_driver", on=T2 - 9, off=driver_off)
    assert verdict(dock, "con_yard_trailer", "STG-01") == (value, "STG-01")


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ({"resets": [T, T - 3599, T - 3600]}, "true"),
        ({"resets": [T, T - 1, T - 3599]}, "false"),
        ({"protective": True}, "false"),
        ({"code": -1}, "no_data"),
        ({"as_of": T - 61}, "no_data"),
    ],
)
def test_resets(content: dict[str, Any], value: str) -> None:
    dock = Dock()
    dock.answer("resets", "DRV-1", **{"code": 7, "protective": False, "resets": [], **content})
    assert verdict(dock, "con_reset_allowed", "DRV-1") == (value, "DRV-1")


def _routes(full_s: int | None, **other: Any) -> Dock:
    dock = Dock()
    dock.answer(
        "routes",
        "LS-1",
        other.pop("as_of", T),
        routes=[
            {"chute": "CH-001", "cpt": T, "alternate": "CH-002", "enabled": True},
            {"chute": "CH-002", "cpt": T, "alternate": None, "enabled": True, **other},
        ],
    )
    if full_s is not None:
        dock.state("chute_full", "CH-002", (999, 0), (full_s, 1))
    return dock


@pytest.mark.parametrize(
    ("dock", "value"),
    [
        (_routes(89), "true"),
        (_routes(90), "false"),
        (_routes(None), "no_data"),
        (_routes(89, enabled=False), "false"),
        (_routes(89, cpt=T + 1), "false"),
        (_routes(89, as_of=T - 61), "no_data"),
    ],
)
def test_the_alternate_chute(dock: Dock, value: str) -> None:
    assert verdict(dock, "con_alt_chute_free", "CH-001") == (value, "CH-001")


def test_without_an_alternate_and_without_a_chute() -> None:
    assert verdict(_routes(89), "con_alt_chute_free", "CH-002") == ("false", "CH-002")
    assert verdict(_routes(None), "con_alt_chute_free", "LS-1") == ("no_data", "LS-1")
    assert verdict(_routes(900), "con_alt_chute_free", "LS-1") == ("false", "CH-002")


def _cells(*, arrivals: float | None, cells: int = 3, off_s: float = 0, fails: int = 0) -> Dock:
    """Cells of 1,000 parcels/h each and a station of 150."""
    dock = Dock()
    for number in range(cells):
        cell = f"RC-0{number}"
        dock.fill("cell_rate", cell, 1000.0, last_s=3600)
        dock.fill("cell_state_seconds:off", cell, off_s if number == 2 else 0, last_s=900)
        dock.fill("cell_state_seconds:maintenance", cell, 0, last_s=900)
    dock.count("cell_picks_total", "RC-00", 100, last_s=3600)
    dock.count("cell_fails_total", "RC-00", fails, last_s=3600)
    dock.fill("manual_rate", "MS-1", 100.0, last_s=900)
    dock.fill("manual_rate", "MS-2", 999.0, last_s=480)  # too few samples
    dock.fill("arrivals_rate", "LS-1", arrivals, last_s=900)
    return dock


@pytest.mark.parametrize(
    ("dock", "value"),
    [
        (_cells(arrivals=2000), "true"),
        (_cells(arrivals=2001), "false"),
        (_cells(arrivals=2000, off_s=29), "true"),
        (_cells(arrivals=2000, off_s=30), "false"),
        (_cells(arrivals=9000, fails=25), "true"),
        (_cells(arrivals=9000, fails=24), "false"),
        (_cells(arrivals=None, fails=25), "true"),
        (_cells(arrivals=None, fails=24), "false"),
        (_cells(arrivals=100, cells=0), "false"),
        (_cells(arrivals=100, cells=1), "false"),
    ],
)
def test_what_the_other_inducts_carry(dock: Dock, value: str) -> None:
    assert verdict(dock, "con_induct_headroom", "RC-00") == (value, "RC-00")


def test_headroom_when_no_cell_is_the_worst() -> None:
    def without_picks(dock: Dock) -> Dock:
        dock.fill("cell_picks_total", "RC-00", None, last_s=1200)
        return dock

    dock = _cells(arrivals=2000)
    assert verdict(dock, "con_induct_headroom", "LS-1") == ("true", "RC-00")
    assert verdict(without_picks(dock), "con_induct_headroom", "LS-1") == ("true", "LS-1")
    dock = without_picks(_cells(arrivals=None, fails=99))
    assert verdict(dock, "con_induct_headroom", "LS-1") == ("no_data", "LS-1")


def _slot(dock: Dock, area: str, planned: int, actual: int, **columns: int) -> None:
    rest = {"shift_start": T2 - 900, "shift_end": T + 2701, "trained_outbound": 9, **columns}
    dock.row("labor_slot", slot=SLOT, area=area, planned=planned, actual=actual, **rest)


@pytest.mark.parametrize(
    ("actual", "trained", "end", "value"),
    [
        (23, 2, T + 2701, "true"),
        (22, 9, T + 2701, "false"),
        (23, 1, T + 2701, "false"),
        (23, 2, T + 2700, "false"),
        (-1, 2, T + 2701, "no_data"),
    ],
)
def test_people_to_spare(actual: int, trained: int, end: int, value: str) -> None:
    dock = Dock()
    _slot(dock, "pack", 20, actual, trained_outbound=trained, shift_end=end)
    _slot(dock, "sort", 10, 90)
    assert verdict(dock, "con_labor_movable", "CH-001") == (value, "CH-001")
