"""Rows as the dock's warehouse serves them; `ago` is seconds before `end`, which is T2."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.unit.dock_tools.dock_world import NOW, T2, Row, utc

ZONE = "America/New_York"


def local(moment: datetime, zone: str = ZONE) -> tuple[str, int]:
    """The wall clock's text, and which of two equal ones it is."""
    shown = moment.astimezone(ZoneInfo(zone))
    return shown.strftime("%Y-%m-%d %H:%M:%S"), shown.fold


def _counted(ago: float, end: datetime, zone: str, **columns: Any) -> Row:
    at = end - timedelta(seconds=ago)
    text, fold = local(at, zone)
    return {"batch_id": int(at.timestamp()), "at_local": text, "fold": fold, **columns}


def minute(ago: float = 0, *, end: datetime = T2, zone: str = ZONE, **counts: int) -> Row:
    """Of `flow_minute`: what was counted in the minute that ended `ago`."""
    zeros = dict.fromkeys(("arrivals", "pack_completions", "reads", "unassigned"), 0)
    return _counted(ago, end, zone, **{**zeros, **counts})


def mix(ago: float = 0, *, end: datetime = T2, **classes: int) -> list[Row]:
    """Of `item_mix`: parcels by class."""
    return [
        {**_counted(ago, end, ZONE), "class": kind, "parcels": parcels}
        for kind, parcels in classes.items()
    ]


def labels(printer: str, count: int, ago: float = 0) -> Row:
    return _counted(ago, T2, ZONE, printer=printer, labels=count)


def unread(printer: str | None, count: int, ago: float = 0) -> list[Row]:
    text, fold = local(T2 - timedelta(seconds=ago))
    return [
        {
            "parcel_id": f"{printer}/{ago}/{one}",
            "at_local": text,
            "fold": fold,
            "tunnel": "ST-1",
            "printer": printer,
        }
        for one in range(count)
    ]


def forecast(*, arrivals: int = 0, pack: int = 0, slots: int = 4, end: datetime = T2) -> list[Row]:
    """The same plan for each of the last quarters of an hour up to the one that holds `end`."""
    last = datetime.fromtimestamp(end.timestamp() // 900 * 900, end.tzinfo)
    return [
        {"slot_utc": utc(last - timedelta(seconds=900 * slot)), "arrivals": arrivals, "pack": pack}
        for slot in range(slots)
    ]


def lane(name: str, occupied: int, *, closed: int = 0, ago: float = 0, positions: int = 100) -> Row:
    return {
        "at_utc": utc(T2 - timedelta(seconds=ago)),
        "lane": name,
        "positions": positions,
        "occupied": occupied,
        "closed": closed,
    }


def zone_stock(name: str, empties: int, used: int, *, ago: float = 0) -> Row:
    at = utc(T2 - timedelta(seconds=ago))
    return {"at_utc": at, "zone": name, "empties": empties, "used_15min": used}


def departure(
    name: str,
    lane_name: str,
    cpt_in: float,
    *,
    planned: int = 1000,
    plan_ago: float = 0,
    docked_ago: float | None = None,
) -> Row:
    """Pulled `cpt_in` seconds after NOW; planned and docked so many seconds before T2."""
    plan, plan_fold = local(T2 - timedelta(seconds=plan_ago))
    row: Row = {
        "departure_id": name,
        "lane": lane_name,
        "cpt_utc": utc(NOW + timedelta(seconds=cpt_in)),
        "plan_local": plan,
        "plan_fold": plan_fold,
        "planned": planned,
    }
    if docked_ago is not None:
        row["docked_local"], row["docked_fold"] = local(T2 - timedelta(seconds=docked_ago))
    return row


def loaded(name: str, *told: tuple[float, int]) -> list[Row]:
    """Of `loading`: seconds before T2, and the parcels on the trailer then."""
    return [
        {"departure_id": name, "at_utc": utc(T2 - timedelta(seconds=ago)), "loaded": count}
        for ago, count in told
    ]


def heads(
    area: str,
    actual: int | None,
    *,
    planned: int = 20,
    trained: int = 5,
    shift_ago: float = 7200,
    shift_in: float = 7200,
    slot_ago: float = 0,
) -> Row:
    """Of `labor_slot`: the slot that holds T2; the shift began before T2 and ends after NOW."""
    slot = datetime.fromtimestamp(T2.timestamp() // 900 * 900 - slot_ago, T2.tzinfo)
    return {
        "slot_utc": utc(slot),
        "area": area,
        "planned": planned,
        "actual": actual,
        "trained_outbound": trained,
        "shift_start_utc": utc(T2 - timedelta(seconds=shift_ago)),
        "shift_end_utc": utc(NOW + timedelta(seconds=shift_in)),
    }


def on_shift(
    person: str,
    role: str = "technician",
    skill: str | None = "mechatronics",
    *,
    since: float = 3600,
    until: float = 3600,
    end: datetime = T2,
) -> Row:
    """Of `roster`: on `since` seconds before `end`, off `until` seconds after it."""
    row: Row = {"person_id": person, "role": role, "skill": skill}
    row["on_local"], row["on_fold"] = local(end - timedelta(seconds=since))
    row["off_local"], row["off_fold"] = local(end + timedelta(seconds=until))
    return row


def ticket(
    text: str,
    status: str = "Open",
    *,
    opened: float = 3600,
    closed: float | None = None,
    priority: str = "P3",
    assignee: str | None = None,
) -> Row:
    """Opened and closed so many seconds before T2; a negative `closed` is after it."""
    row: Row = {
        # The same in every process, and one for tickets that say the same.
        "ticket_id": f"TK-{zlib.crc32(f'{text}{status}'.encode())}",
        "asset_text": text,
        "status": status,
        "priority": priority,
        "opened_utc": utc(T2 - timedelta(seconds=opened)),
        "assignee": assignee,
    }
    if closed is not None:
        row["closed_utc"] = utc(T2 - timedelta(seconds=closed))
    return row


def trailer(
    name: str,
    *,
    kind: str = "carrier",
    status: str = "empty",
    inspected: int = 1,
    arrived: float = 3600,
    left: float | None = None,
    end: datetime = T2,
) -> Row:
    """In the yard since `arrived` seconds before `end`; gone `left` seconds before it."""
    row: Row = {"trailer_id": name, "kind": kind, "status": status, "inspected": inspected}
    row["arrived_local"], row["arrived_fold"] = local(end - timedelta(seconds=arrived))
    if left is not None:
        row["left_local"], row["left_fold"] = local(end - timedelta(seconds=left))
    return row


def pause(start: float, end: float, at: datetime = T2) -> Row:
    """Of `break_plan`: from `start` seconds before `at` until `end` seconds after it."""
    row: Row = {}
    row["start_local"], row["start_fold"] = local(at - timedelta(seconds=start))
    row["end_local"], row["end_fold"] = local(at + timedelta(seconds=end))
    return row
