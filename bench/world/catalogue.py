"""What the dock's three backends hold: series, tables and equipment calls, with their shapes.

The canonical side (what truly was) and the served side (what a backend answers) share these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "dock_"  # of every metric's name as it is served
METRICS = "metrics"
WAREHOUSE = "warehouse"
EQUIPMENT = "equipment"


class Kind(StrEnum):
    GAUGE = "gauge"
    """One value an instant; canonical values as they are."""
    COUNTER = "counter"
    """Canonical values are what was counted since the sample before, integers."""
    STATE = "state"
    """0 or 1, a sample at each change only; but a chute's state is repeated every three hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSpec:
    """`grain_s`: samples lie on multiples of it, seconds since the epoch; 0 for states. `assets`
    is the prefix of the ids that have this series. Served with the labels `site`, `asset` (spelled
    as the site spells it) and, for `cell_state_seconds`, `state`."""

    name: str
    kind: Kind
    grain_s: int
    assets: str
    unit: str


def _gauge(name: str, grain_s: int, assets: str, unit: str) -> SeriesSpec:
    return SeriesSpec(name=name, kind=Kind.GAUGE, grain_s=grain_s, assets=assets, unit=unit)


def _counter(name: str, grain_s: int, assets: str, unit: str = "parcels") -> SeriesSpec:
    return SeriesSpec(name=name, kind=Kind.COUNTER, grain_s=grain_s, assets=assets, unit=unit)


def _state(name: str, assets: str) -> SeriesSpec:
    return SeriesSpec(name=name, kind=Kind.STATE, grain_s=0, assets=assets, unit="bool")


CELL_STATES = ("running", "starved", "blocked", "fault", "maintenance", "off")

SERIES: Mapping[str, SeriesSpec] = {
    spec.name: spec
    for spec in (
        _gauge("infeed_occupancy", 10, "INF", "percent"),
        _gauge("motor_on", 10, "INF", "bool"),
        _state("eye_blocked", "PE"),
        _counter("parcels_total", 10, "PE"),
        _gauge("merge_gap", 3, "SG", "mm"),
        _gauge("double_pct", 60, "SG", "percent"),
        _counter("cell_picks_total", 15, "RC", "picks"),  # attempts, failed ones included
        _counter("cell_fails_total", 15, "RC", "picks"),
        *(_gauge(f"cell_state_seconds:{state}", 60, "RC", "s") for state in CELL_STATES),
        _gauge("cell_leak", 20, "RC", "mbar/s"),
        _gauge("cell_freeflow", 20, "RC", "mbar"),
        _gauge("cell_no_grasp", 60, "RC", "percent"),
        _gauge("cell_rate", 60, "RC", "parcels/h"),
        _gauge("manual_rate", 60, "MS", "parcels/h"),
        _gauge("arrivals_rate", 60, "LS", "parcels/h"),
        _counter("tunnel_scans_total", 15, "ST", "scans"),
        _counter("tunnel_no_reads_total", 15, "ST", "scans"),
        _gauge("sorter_speed", 5, "LS", "m/s"),
        _gauge("sorter_setpoint", 5, "LS", "m/s"),
        _gauge("encoder_speed", 5, "LS", "m/s"),
        _gauge("recirc_pct", 60, "LS", "percent"),
        _counter("inducted_total", 60, "LS"),
        _counter("tracking_lost_total", 60, "LS"),
        _counter("divert_attempts_total", 60, "CH"),
        _counter("divert_fails_total", 60, "CH"),  # lane-full aborts included
        _counter("divert_lane_full_total", 60, "CH"),
        _state("chute_full", "CH"),
        _gauge("air_pressure", 10, "AIR", "bar"),
        _gauge("drive_load", 10, "DRV", "percent"),
        _gauge("drive_temp", 10, "DRV", "celsius"),
    )
}
"""`cell_state_seconds:running` and so on are one served metric with a label `state`."""

SERVED_UNITS: Mapping[str, tuple[str, ...]] = {
    "infeed_occupancy": ("percent", "fraction"),
    "cell_no_grasp": ("percent", "fraction"),
    "recirc_pct": ("percent", "fraction"),
    "cell_state_seconds": ("s", "ms"),
    "sorter_speed": ("m/s", "ft/min"),
    "sorter_setpoint": ("m/s", "ft/min"),
    "encoder_speed": ("m/s", "ft/min"),
    "air_pressure": ("bar", "psi"),
    "drive_temp": ("celsius", "fahrenheit"),
}
"""Units a site may report in, by the key in `units` of sites.yaml; the first is the default.
1 m/s = 60/0.3048 ft/min; 1 psi = 0.0689475729 bar."""


# --- the warehouse ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Columns in order, name to type (`text`, `integer`, `real`). `key` identifies a row: served
    rows with one key are duplicates. `at` is the column rows are found by."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    at: str


def _table(name: str, columns: str, key: str, at: str) -> TableSpec:
    kinds: dict[str, str] = {}
    for column in columns.split(","):
        column_name, kind = column.split()
        kinds[column_name] = kind
    return TableSpec(
        name=name,
        columns=kinds,
        key=tuple(key.split()),
        at=at,
    )


TABLES: Mapping[str, TableSpec] = {
    table.name: table
    for table in (
        _table("feed_heartbeat", "site text, at_utc text", "site at_utc", "at_utc"),
        _table(
            "flow_minute",
            "site text, batch_id integer, at_local text, fold integer, arrivals integer,"
            " pack_completions integer, reads integer, unassigned integer",
            "site batch_id",
            "at_local",
        ),
        _table(
            "no_read",
            "site text, parcel_id text, at_local text, fold integer, tunnel text, printer text",
            "site parcel_id",
            "at_local",
        ),
        _table(
            "label_count",
            "site text, batch_id integer, at_local text, fold integer, printer text,"
            " labels integer",
            "site batch_id printer",
            "at_local",
        ),
        _table(
            "item_mix",
            "site text, batch_id integer, at_local text, fold integer, class text, parcels integer",
            "site batch_id class",
            "at_local",
        ),
        _table(
            "forecast",
            "site text, slot_utc text, arrivals integer, pack integer",
            "site slot_utc",
            "slot_utc",
        ),
        _table(
            "break_plan",
            "site text, start_local text, start_fold integer, end_local text, end_fold integer",
            "site start_local start_fold",
            "start_local",
        ),
        _table(
            "staging_lane",
            "site text, at_utc text, lane text, positions integer, occupied integer,"
            " closed integer",
            "site at_utc lane",
            "at_utc",
        ),
        _table(
            "container_zone",
            "site text, at_utc text, zone text, empties integer, used_15min integer",
            "site at_utc zone",
            "at_utc",
        ),
        _table(
            "departure",
            "site text, departure_id text, lane text, door text, cpt_utc text, plan_local text,"
            " plan_fold integer, arrival_local text, arrival_fold integer, docked_local text,"
            " docked_fold integer, planned integer, carrier text",
            "site departure_id",
            "cpt_utc",
        ),
        _table(
            "loading",
            "site text, departure_id text, at_utc text, loaded integer",
            "site departure_id at_utc",
            "at_utc",
        ),
        _table(
            "yard_trailer",
            "site text, trailer_id text, kind text, status text, inspected integer,"
            " arrived_local text, arrived_fold integer, left_local text, left_fold integer",
            "site trailer_id arrived_local",
            "arrived_local",
        ),
        _table(
            "roster",
            "site text, person_id text, role text, skill text, on_local text, on_fold integer,"
            " off_local text, off_fold integer",
            "site person_id on_local on_fold",
            "on_local",
        ),
        _table(
            "labor_slot",
            "site text, slot_utc text, area text, planned integer, actual integer,"
            " trained_outbound integer, shift_start_utc text, shift_end_utc text",
            "site slot_utc area",
            "slot_utc",
        ),
        _table(
            "ticket",
            "site text, ticket_id text, asset_text text, status text, priority text,"
            " opened_utc text, closed_utc text, assignee text",
            "site ticket_id",
            "opened_utc",
        ),
        _table(
            "spare_stock",
            "site text, part text, at_utc text, on_hand integer, reserved integer",
            "site part at_utc",
            "at_utc",
        ),
    )
}
"""As served. `*_utc` is text `2026-11-02T07:45:00Z`; `*_local` is `2026-11-02 08:45:00` in the
site's zone, without offset, its `fold` beside it. Rows of counts (`flow_minute`: one a minute;
`label_count`, `item_mix`: one each five minutes) are stamped with the end of what they count.
`forecast` and `labor_slot` are stamped with the start of a quarter of an hour. Snapshots
(`staging_lane`, `container_zone`, `loading`, `feed_heartbeat`) come each five minutes. Lanes,
zones, doors and printers are spelled as in `STG-03`; tickets name assets in free text.
`departure` and `ticket` rows are history: at time t what is later than t had not happened.
`staging_lane.positions` and `.occupied` count closed positions. `item_mix.class` is box, flat,
polybag, irregular or unknown.

Canonical columns are the same without `fold`s, each `X_utc` or `X_local` as `X`: int64 seconds
since the epoch, -1 for null; text as a numpy array of str ("" for null); integers as int64, and
-1 for a null `actual` or `reserved`. No duplicates. Rows ascend by `at`.
"""


# --- equipment --------------------------------------------------------------------------------

EQUIPMENT_CALLS = """
Every call takes `site`, `at` (ISO 8601 UTC, `2026-11-02T07:45:00Z`) and, but for `routes`, `asset`
(a normalised id), and answers one JSON object with `as_of` (ISO 8601 UTC): when the controller
was last heard, at or before `at`. -1 stands for a lost link.

safety_inputs(site, asset, at)  {"asset", "as_of", "inputs": [{"name", "ok": true|false|-1}]}
                                of the asset and of its zone
fault_code(site, asset, at)     {"asset", "as_of", "code": 0|7|"F0007"|-1,
                                 "latched_at": ISO|null}     the newest latch, cleared or not
resets(site, asset, at)         {"asset", "as_of", "code": as above, "protective": bool,
                                 "resets": [ISO, ...]}       resets of that code, last 24 h
carriers(site, asset, at)       {"asset", "as_of", "total": 480, "disabled": n|-1}
doors(site, asset, at)          {"asset", "as_of", "doors": [{"door", "docked": bool,
                                 "devices": [{"name", "ready": true|false|-1, "since": ISO}]}]}
                                asset: a door, a lane, or LS-1 for all; doors in order
eye_margin(site, asset, at)     {"asset", "as_of", "eyes": [{"eye", "margin_pct": n|-1}]}
                                asset: an eye, an infeed (its eyes), a chute (its own eye, under
                                the chute's id), or LS-1 for all chutes' eyes
routes(site, at)                {"as_of", "routes": [{"chute", "cpt": ISO, "alternate": id|null,
                                 "enabled": bool}]}          one a chute
"""
