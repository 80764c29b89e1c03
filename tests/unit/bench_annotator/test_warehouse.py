"""The causes that the warehouse tells of: what the nodes answer at and beside each boundary."""

from __future__ import annotations

from typing import Any

import pytest

from bench.annotator.judge import RULES, judge
from tests.unit.bench_annotator.dock import DAY_S, T2, Dock, T, settings, verdict

HOUR_S = 3600
SLOT = T2 // 900 * 900
WEEK_S = 7 * DAY_S


def test_without_a_sign_of_life_every_warehouse_node_says_so() -> None:
    dock = Dock()
    dock.beat(1800)
    nodes = {
        "obs_staging_crowded", "obs_departure_short", "rc_label_print_poor", "rc_no_destination",
        "rc_item_mix_hard", "rc_container_short", "rc_trailer_absent", "rc_labor_short",
        "rc_volume_over_plan", "rc_upstream_stop", "con_ticket_open", "con_tech_free",
        "con_cpt_slack", "con_spare_on_hand", "con_labor_movable", "con_yard_trailer",
    }  # fmt: skip
    for node in nodes:
        assert verdict(dock, node, "CH-007") == ("no_data", "CH-007"), node
    assert len(RULES) == 44
    assert set(RULES) == set(settings().nodes)


# --- labels, routes, mix ----------------------------------------------------------------------


def _labels(unread: dict[str, int], labels: dict[str, int]) -> Dock:
    dock = Dock()
    for printer, count in unread.items():
        for number in range(count):
            dock.row("no_read", at=T2 - number, printer=printer)
    for printer, count in labels.items():
        dock.row("label_count", at=T2, printer=printer, labels=count)
    return dock


EVEN = {f"PR-0{number}": 100 for number in range(1, 9)}


@pytest.mark.parametrize(
    ("unread", "labels", "value", "subject"),
    [
        ({"PR-02": 15, "PR-03": 10, "PR-04": 5, "": 70}, EVEN, "true", "PR-02"),
        ({"PR-02": 15, "PR-03": 15}, EVEN, "true", "PR-02"),
        ({"PR-02": 15, "PR-03": 16}, EVEN, "true", "PR-03"),
        ({"PR-02": 15, "PR-03": 10, "PR-04": 6}, EVEN, "false", "PR-02"),
        ({"PR-02": 15, "PR-03": 14, "": 70}, EVEN, "no_data", "ST-1"),
        ({"PR-02": 30}, {}, "no_data", "PR-02"),
        ({"PR-02": 30}, {"PR-02": 100, "PR-01": 200}, "true", "PR-02"),
        ({"PR-02": 30}, {"PR-02": 101, "PR-01": 200}, "false", "PR-02"),
    ],
)
def test_labels_of_one_printer(
    unread: dict[str, int], labels: dict[str, int], value: str, subject: str
) -> None:
    assert verdict(_labels(unread, labels), "rc_label_print_poor", "ST-1") == (value, subject)


@pytest.mark.parametrize(
    ("reads", "unassigned", "value"),
    [(600, 9, "true"), (600, 8, "false"), (299, 99, "no_data")],
)
def test_reads_without_a_destination(reads: int, unassigned: int, value: str) -> None:
    dock = Dock()
    dock.row("flow_minute", at=T2, reads=reads, unassigned=unassigned)
    dock.row("flow_minute", at=T2 - 900, reads=9000, unassigned=9000)
    dock.row("flow_minute", at=T2 + 1, reads=9000, unassigned=9000)
    assert verdict(dock, "rc_no_destination", "CH-001") == (value, "CH-001")


def _mix(dock: Dock, end: int, hard: int, easy: int, unknown: int = 0) -> None:
    for name, parcels in (("polybag", hard), ("box", easy), ("unknown", unknown)):
        dock.row("item_mix", at=end, **{"class": name, "parcels": parcels})


@pytest.mark.parametrize(
    ("hard", "easy", "unknown", "weeks", "value"),
    [
        (120, 180, 0, 4, "true"),
        (119, 181, 0, 4, "false"),
        (120, 180, 0, 3, "true"),
        (120, 180, 0, 2, "no_data"),
        (210, 0, 90, 4, "true"),
        (209, 0, 91, 4, "no_data"),
        (299, 0, 0, 4, "no_data"),
    ],
)
def test_the_mix_against_a_usual_day(
    hard: int, easy: int, unknown: int, weeks: int, value: str
) -> None:
    dock = Dock()
    _mix(dock, T2, hard, easy, unknown)
    for week in range(1, weeks + 1):
        _mix(dock, T2 - week * WEEK_S, 90, 210)
    assert verdict(dock, "rc_item_mix_hard", "RC-01") == (value, "RC-01")


def test_a_baseline_is_the_same_time_of_day_across_a_change_of_the_clock() -> None:
    dock = Dock()
    at = T + 28 * DAY_S  # 2026-11-08, a week after New York's clocks went back
    dock.row("feed_heartbeat", at=at - 120)
    for week in range(5):
        end = at - 120 - week * WEEK_S - (HOUR_S if week >= 2 else 0)
        dock.row("item_mix", at=end, **{"class": "polybag", "parcels": 300 if week == 0 else 60})
        dock.row("item_mix", at=end, **{"class": "box", "parcels": 0 if week == 0 else 240})
    assert judge(dock, settings(), 0, at, "RC-01", "rc_item_mix_hard").value == "true"


# --- containers, trailers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("empties", "used", "value"),
    [(2, 3, "true"), (3, 3, "false"), (0, 2, "false"), (5, 6, "true")],
)
def test_empty_containers(empties: int, used: int, value: str) -> None:
    dock = Dock()
    dock.row("container_zone", at=T2, zone="ZN-2", empties=empties, used_15min=used)
    subject = "ZN-2" if value == "true" else "CH-016"
    assert verdict(dock, "rc_container_short", "CH-016") == (value, subject)
    assert verdict(dock, "rc_container_short", "CH-001") == ("no_data", "CH-001")


def test_the_zone_that_lacks_most() -> None:
    dock = Dock()
    dock.row("container_zone", at=T2, zone="ZN-1", empties=0, used_15min=2)
    dock.row("container_zone", at=T2, zone="ZN-3", empties=2, used_15min=4)
    dock.row("container_zone", at=T2, zone="ZN-4", empties=0, used_15min=2)
    assert verdict(dock, "rc_container_short", "LS-1") == ("true", "ZN-3")


def _trailer(**columns: Any) -> Dock:
    dock = Dock()
    due = {"cpt": T + 10800, "plan": T2 - 900, "arrival": -1, "docked": -1, **columns}
    dock.row("departure", departure_id="D1", lane="STG-03", planned=100, **due)
    return dock


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ({}, "true"),
        ({"plan": T2 - 899}, "false"),
        ({"docked": T2}, "false"),
        ({"docked": T2 + 1}, "true"),
        ({"cpt": T + 10801}, "false"),
        ({"cpt": T}, "false"),
    ],
)
def test_a_trailer_that_is_overdue(columns: dict[str, int], value: str) -> None:
    assert verdict(_trailer(**columns), "rc_trailer_absent", "STG-03") == (value, "STG-03")
    assert verdict(_trailer(**columns), "rc_trailer_absent", "CH-011") == (value, "STG-03")


def test_the_lane_of_the_fullest_chute_and_the_next_departure() -> None:
    dock = _trailer()
    assert verdict(dock, "rc_trailer_absent", "LS-1") == ("no_data", "LS-1")
    dock.state("chute_full", "CH-012", (900, 1))
    assert verdict(dock, "rc_trailer_absent", "LS-1") == ("true", "STG-03")
    dock.row("departure", departure_id="D0", lane="STG-03", cpt=T + 60, plan=T2)
    assert verdict(dock, "rc_trailer_absent", "LS-1") == ("false", "STG-03")


# --- people and volume ------------------------------------------------------------------------


def _slot(dock: Dock, area: str, planned: int, actual: int, **columns: int) -> None:
    rest = {"shift_start": T2 - 900, "shift_end": T + 2701, "trained_outbound": 9, **columns}
    dock.row("labor_slot", slot=SLOT, area=area, planned=planned, actual=actual, **rest)


@pytest.mark.parametrize(
    ("planned", "actual", "started_s", "value"),
    [
        (20, 16, 900, "true"),
        (20, 17, 900, "false"),
        (20, 16, 899, "no_data"),
        (3, 0, 900, "no_data"),
        (4, 3, 900, "true"),
        (20, -1, 900, "no_data"),
    ],
)
def test_heads_against_plan(planned: int, actual: int, started_s: int, value: str) -> None:
    dock = Dock()
    _slot(dock, "sort", planned, actual, shift_start=T2 - started_s)
    _slot(dock, "pack", 20, 0)
    assert verdict(dock, "rc_labor_short", "CH-001") == (value, "CH-001")


def _flow(arrivals: int, pack: int, forecast: int) -> Dock:
    dock = Dock()
    dock.row("flow_minute", at=T2, arrivals=arrivals, pack_completions=pack)
    for back in range(4):
        dock.row("forecast", slot=SLOT - 900 * back, arrivals=forecast, pack=forecast)
    return dock


@pytest.mark.parametrize(
    ("arrivals", "forecast", "value"),
    [(600, 250, "true"), (599, 250, "false"), (9999, 249, "no_data")],
)
def test_volume_against_plan(arrivals: int, forecast: int, value: str) -> None:
    assert verdict(_flow(arrivals, 0, forecast), "rc_volume_over_plan", "INF-1")[0] == value


@pytest.mark.parametrize(
    ("packed", "forecast", "value"),
    [(49, 100, "true"), (50, 100, "false"), (0, 99, "no_data")],
)
def test_packing_against_plan(packed: int, forecast: int, value: str) -> None:
    assert verdict(_flow(0, packed, forecast), "rc_upstream_stop", "LS-1")[0] == value


@pytest.mark.parametrize(
    ("start", "end", "value"),
    [
        (T2, T2 + 1, "false"),
        (T2 - 300, T2, "true"),
        (T2 - 900, T2, "no_data"),
        (T2 + 1, T2 + 900, "true"),
    ],
)
def test_a_break_is_no_stop(start: int, end: int, value: str) -> None:
    dock = _flow(0, 0, 1000)
    dock.row("break_plan", start=start, end=end)
    assert verdict(dock, "rc_upstream_stop", "LS-1")[0] == value


@pytest.mark.parametrize(("packed_at", "value"), [(T2 - 600, "false"), (T2 - 60, "true")])
def test_minutes_of_a_break_count_on_neither_side(packed_at: int, value: str) -> None:
    dock = Dock()
    dock.row("flow_minute", at=packed_at, arrivals=0, pack_completions=200)
    for back in range(4):
        dock.row("forecast", slot=SLOT - 900 * back, arrivals=0, pack=900)
    dock.row("break_plan", start=T2 - 600, end=T2)
    assert verdict(dock, "rc_upstream_stop", "LS-1")[0] == value


def test_a_plan_counts_each_minute_by_its_own_slot() -> None:
    dock = Dock()
    # The window's 30 minutes end at 10:29..10:58: one lies in the slot of 10:15 and before.
    dock.row("flow_minute", at=T2, arrivals=1200)
    for back, arrivals in ((0, 0), (1, 0), (2, 15_000)):
        dock.row("forecast", slot=SLOT - 900 * back, arrivals=arrivals)
    minutes = sum(1 for ends in range(T2 - 1740, T2 + 1, 60) if ends - 60 < SLOT - 900)
    assert minutes == 2
    assert verdict(dock, "rc_volume_over_plan", "LS-1")[0] == "false"
    dock.row("flow_minute", at=T2, arrivals=1200)
    assert verdict(dock, "rc_volume_over_plan", "LS-1")[0] == "true"
