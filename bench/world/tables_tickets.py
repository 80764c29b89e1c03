"""Tickets: for some of the faults, and for all else that people report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bench.world.chance import below, uniform
from bench.world.floor import Columns, Floor, ascending, integers, texts
from bench.world.layout import ASSETS, LAYOUT, name
from bench.world.local_time import HOUR_S, NULL
from bench.world.tables_people import Duty, duties

SHARES: Mapping[str, float] = {
    "safety_stop": 0.3,
    "drive_fault": 0.55,
    "drive_overload": 0.55,
    "air_pressure_low": 0.5,
    "photo_eye_dirty": 0.2,
    "scan_lens_dirty": 0.4,
    "label_print_poor": 0.5,
    "gap_loss": 0.5,
    "divert_worn": 0.55,
    "cup_worn": 0.4,
    "vacuum_filter_clogged": 0.5,
    "vision_degraded": 0.4,
    "door_fault": 0.55,
    "carriers_out": 0.5,
    "tracking_slip": 0.5,
    "jam": 0.06,
}
"""Of a fault's episodes, those that somebody writes a ticket for."""

SPELLED: Mapping[str, str] = {
    "CH": "Chute",
    "RC": "Cell",
    "PE": "Eye",
    "INF": "Infeed",
    "STG": "Lane",
    "DD": "Door",
    "ST": "Tunnel",
    "DRV": "Drive",
    "LS": "Sorter",
    "PR": "Printer",
}

BLOCK_S = 4 * HOUR_S  # in which one ticket comes from elsewhere, or none
BLOCK_COMES = 0.8
ELSEWHERE = ("CH", "CH", "CH", "RC", "RC", "PE", "PE", "INF", "DD", "DD", "DRV", "ST", "STG", "MS")
SORTER = 0.03  # of those are about the sorter as a whole
OLD = 0.06  # stay open for days
FORGOTTEN = 0.04  # are never closed
PARENT = 0.12  # name what the asset is part of

LIVE = ("Open", "open", "OPEN", "Assigned", "ASSIGNED", "In Progress", "IN_PROGRESS", "in-progress")
PARKED = ("on hold", "On Hold", "WAITING_PARTS", "cancelled", "Closed")
CLOSED = ("closed", "Closed", "CLOSED", "Resolved", "done")
SENTENCES = (
    "{}",
    "{}",
    "PM {}",
    "{} stops again",
    "check {} (operator)",
    "{}: noise, see log",
    "Maintenance / {}",
    "pls look at {}!!",
    "replace sensor on {} asap",
)


class _Ticket(NamedTuple):
    asset_text: str
    status: str
    priority: str
    opened: int
    closed: int
    assignee: str


def ticket(floor: Floor) -> Columns:
    on_duty = [duty for duty in duties(floor) if duty.role == "technician"]
    rows = sorted(
        (*_of_episodes(floor, on_duty), *_from_elsewhere(floor, on_duty)),
        key=lambda row: (row.opened, row.asset_text),
    )
    columns: Columns = {
        "site": floor.named(len(rows)),
        "ticket_id": texts([f"TK-{number:06d}" for number in range(1, len(rows) + 1)]),
        "asset_text": texts([row.asset_text for row in rows]),
        "status": texts([row.status for row in rows]),
        "priority": texts([row.priority for row in rows]),
        "opened": integers([row.opened for row in rows]),
        "closed": integers([row.closed for row in rows]),
        "assignee": texts([row.assignee for row in rows]),
    }
    return ascending(floor.kept(columns, "opened"), "opened")


def _of_episodes(floor: Floor, on_duty: list[Duty]) -> Iterator[_Ticket]:
    for episode in floor.episodes(*SHARES):
        key = floor.key("ticket", episode.episode)
        if uniform(key) >= SHARES[episode.fault]:
            continue
        length = max(episode.end - episode.start, 600)
        opened = episode.start + 120 + int(uniform(key, 1) * min(0.6 * length, 4 * HOUR_S))
        closed = max(opened, episode.end) + 300 + below(2 * HOUR_S, key, 2)
        if opened <= floor.end:
            yield _written(floor, key, episode.asset, opened, closed, on_duty)


def _from_elsewhere(floor: Floor, on_duty: list[Duty]) -> Iterator[_Ticket]:
    for block in range(floor.start // BLOCK_S, floor.end // BLOCK_S + 1):
        key = floor.key("ticket from elsewhere", block)
        opened = block * BLOCK_S + below(BLOCK_S, key, 1)
        if uniform(key) >= BLOCK_COMES or not floor.start < opened <= floor.end:
            continue
        among = ASSETS[ELSEWHERE[below(len(ELSEWHERE), key, 2)]]
        asset = "LS-1" if uniform(key, 3) < SORTER else among[below(len(among), key, 4)]
        long = 80 + 100 * uniform(key, 6)
        short = 0.5 + 24 * uniform(key, 6) * uniform(key, 7)
        stays_h = long if uniform(key, 5) < OLD else short
        yield _written(floor, key, asset, opened, opened + int(stays_h * HOUR_S), on_duty)


def _written(
    floor: Floor, key: int, asset: str, opened: int, closed: int, on_duty: list[Duty]
) -> _Ticket:
    drawn = uniform(key, 10)
    priority = "P1" if drawn < 0.12 else "P2" if drawn < 0.4 else "P3" if drawn < 0.8 else "P4"
    working = [duty.person for duty in on_duty if duty.on <= opened < duty.off]
    assignee = working[below(len(working), key, 11)] if working and uniform(key, 12) < 0.8 else ""
    forgotten = uniform(key, 13) < FORGOTTEN
    parked = forgotten and uniform(key, 14) < 0.6
    if forgotten and not parked and priority < "P3":
        # What nobody ever closes would keep its technician busy for good.
        priority = "P3"
    among: tuple[str, ...] = CLOSED
    if forgotten or closed > floor.end:
        among, closed = PARKED if parked else LIVE, NULL
    if uniform(key, 15) < PARENT:
        asset = parent(asset) or asset
    sentence = SENTENCES[below(len(SENTENCES), key, 16)]
    return _Ticket(
        asset_text=sentence.format(_spelled(asset, key)),
        status=among[below(len(among), key, 17)],
        priority=priority,
        opened=opened,
        closed=closed,
        assignee=assignee,
    )


def parent(asset: str) -> str:
    """What an asset is part of; "" for what is part of nothing."""
    prefix, _, digits = asset.partition("-")
    number = int(digits)
    match prefix:
        case "PE":
            return name("INF", number // 10)
        case "DRV" if number >= 10:
            return name("RC", number - 10)
        case "DRV" if number:
            return name("INF", number)
        case "DRV" | "CH":
            return "LS-1"
        case "DD":
            return name("STG", 1 + (number - 1) // LAYOUT["doors_per_lane"])
    return ""


def _spelled(asset: str, key: int) -> str:
    prefix, _, digits = asset.partition("-")
    number = int(digits)
    word = SPELLED.get(prefix, prefix)
    forms = (
        asset,
        asset.lower(),
        f"{prefix}{number}",
        f"{prefix.lower()}_{digits}",
        f"{prefix} {number}",
        f"{word} {number}",
        f"{word.upper()} {digits}",
        f"{word.lower()}-{number}",
        f"{word}{number:02d}",
    )
    return forms[below(len(forms), key, 18)]
