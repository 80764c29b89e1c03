"""Tables of the dock: staging, containers, departures and their loading, the yard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.world.chance import belows, uniforms
from bench.world.floor import (
    SNAPSHOT_S,
    Columns,
    Floor,
    ascending,
    integers,
    texts,
)
from bench.world.layout import ASSETS, name
from bench.world.local_time import DAY_S, HOUR_S, NULL
from bench.world.simulate_flow import USABLE_POSITIONS

Ints = NDArray[np.int64]

LOADING_S = 3 * HOUR_S  # before the pull: from when a departure's loading is told
USED_S = 900
CARRIERS = ("NORTHLINE", "HARBOR", "KESTREL", "BLUEWAY", "PIKE")

YARD_SLOT_S = 5400  # in which a trailer comes, or none
YARD_COMES = 0.8
YARD_BEFORE = 12  # slots before the world's start, so that the yard is not empty then
YARD_STAYS_H = (1.0, 12.0)
YARD_FORGOTTEN = 3  # storage trailers that never leave


def staging_lane(floor: Floor) -> Columns:
    at = floor.grid(SNAPSHOT_S)
    lanes = ASSETS["STG"]
    number = np.arange(len(lanes), dtype=np.int64)
    occupied = integers(floor.minutes.lane_occupied[floor.site])[floor.minute_of(at)]
    positions = 60 + belows(41, floor.key("positions"), number)
    closed = _closed(floor, (at // DAY_S)[:, None] * len(lanes) + number)
    usable = positions - closed
    # The simulated lanes are of one size: what is kept is how full each is.
    share = np.minimum(occupied / USABLE_POSITIONS, 1.0)
    taken = integers(np.floor(share * usable + 0.5))
    columns: Columns = {
        "site": floor.named(at.size * len(lanes)),
        "at": np.repeat(at, len(lanes)),
        "lane": np.tile(texts(lanes), at.size),
        "positions": np.broadcast_to(positions, closed.shape).ravel(),
        "occupied": (taken + closed).ravel(),
        "closed": closed.ravel(),
    }
    return floor.kept(columns, "at")


def _closed(floor: Floor, cell: Ints) -> Ints:
    """Positions that are closed for the day: none, a few, or half an aisle."""
    some = belows(7, floor.key("closed"), cell)
    many = uniforms(floor.key("closed", "aisle"), cell) < 0.06
    return integers(np.where(many, 12 + some, some))


def container_zone(floor: Floor) -> Columns:
    at = floor.grid(SNAPSHOT_S)
    zones = ASSETS["ZN"]
    used = floor.summed(floor.minutes.containers_used[floor.site], at, USED_S)
    empties = integers(floor.minutes.empties[floor.site])[floor.minute_of(at)]
    columns: Columns = {
        "site": floor.named(at.size * len(zones)),
        "at": np.repeat(at, len(zones)),
        "zone": np.tile(texts(zones), at.size),
        "empties": empties.ravel(),
        "used_15min": used.ravel(),
    }
    return floor.kept(columns, "at")


def departure(floor: Floor) -> Columns:
    of = floor.minutes.departures
    here = np.flatnonzero(of["site"] == floor.site)
    return {
        "site": floor.named(len(here)),
        "departure_id": texts([_departure(floor, one) for one in of["number"][here].tolist()]),
        "lane": texts([name("STG", one) for one in of["lane"][here].tolist()]),
        "door": texts([name("DD", one) for one in of["door"][here].tolist()]),
        "cpt": integers(of["cpt"][here]),
        "plan": integers(of["plan"][here]),
        "arrival": integers(of["arrival"][here]),
        "docked": integers(of["docked"][here]),
        "planned": integers(of["planned"][here]),
        "carrier": texts([CARRIERS[one % len(CARRIERS)] for one in of["carrier"][here].tolist()]),
    }


def _departure(floor: Floor, number: int) -> str:
    return f"{floor.facts.name}-{number:05d}"


def loading(floor: Floor) -> Columns:
    """A lane's parcels belong to its next departure: each counts from the pull before."""
    of = floor.minutes.departures
    here = np.flatnonzero(of["site"] == floor.site)
    total = np.cumsum(floor.minutes.loaded[floor.site], axis=0, dtype=np.int64)
    before: dict[int, int] = {}
    ids: list[str] = []
    snapshots: list[Ints] = []
    loads: list[Ints] = []
    for row in here.tolist():
        lane, cpt = int(of["lane"][row]), int(of["cpt"][row])
        since = before.get(lane, floor.start)
        before[lane] = cpt
        first = max(cpt - LOADING_S, floor.start) // SNAPSHOT_S + 1
        at = np.arange(first, min(cpt, floor.end) // SNAPSHOT_S + 1, dtype=np.int64) * SNAPSHOT_S
        if not at.size:
            continue
        done = np.where(at > since, total[floor.minute_of(at), lane - 1], 0)
        if since > floor.start:
            done = np.maximum(done - total[floor.minute_of(integers([since])), lane - 1], 0)
        ids += [_departure(floor, int(of["number"][row]))] * at.size
        snapshots.append(at)
        loads.append(np.minimum(done, int(of["planned"][row])))
    columns: Columns = {
        "site": floor.named(len(ids)),
        "departure_id": texts(ids),
        "at": np.concatenate([*snapshots, integers([])]),
        "loaded": np.concatenate([*loads, integers([])]),
    }
    return ascending(floor.kept(columns, "at"), "at")


# --- the yard ---------------------------------------------------------------------------------


def yard_trailer(floor: Floor) -> Columns:
    """Trailers beside those of the departures; one whose state changes would have two rows."""
    slots = np.arange(
        floor.start // YARD_SLOT_S - YARD_BEFORE, floor.end // YARD_SLOT_S + 1, dtype=np.int64
    )
    slots = slots[uniforms(floor.key("yard"), slots) < YARD_COMES]
    arrived = slots * YARD_SLOT_S + belows(YARD_SLOT_S, floor.key("yard", "at"), slots)
    least, most = YARD_STAYS_H
    stay = least + (most - least) * uniforms(floor.key("yard", "stay"), slots)
    left = arrived + integers(np.floor(stay * HOUR_S))
    carrier = uniforms(floor.key("yard", "kind"), slots) < 0.6
    empty = uniforms(floor.key("yard", "status"), slots) < 0.5
    inspected = uniforms(floor.key("yard", "inspected"), slots) < 0.7
    forgotten = np.arange(YARD_FORGOTTEN, dtype=np.int64)
    since = floor.start - HOUR_S * (1 + belows(200, floor.key("yard", "forgotten"), forgotten))
    columns: Columns = {
        "site": floor.named(len(slots) + YARD_FORGOTTEN),
        "trailer_id": texts(
            [f"S{1 + one:03d}" for one in forgotten.tolist()]
            + [f"T{10_000 + one % 90_000}" for one in slots.tolist()]
        ),
        "kind": texts(
            ["storage"] * YARD_FORGOTTEN
            + ["carrier" if one else "storage" for one in carrier.tolist()]
        ),
        "status": texts(
            ["empty"] * YARD_FORGOTTEN + ["empty" if one else "loaded" for one in empty.tolist()]
        ),
        "inspected": np.concatenate((np.ones(YARD_FORGOTTEN, dtype=np.int64), integers(inspected))),
        "arrived": np.concatenate((since, arrived)),
        "left": np.concatenate(
            (np.full(YARD_FORGOTTEN, NULL), np.where(left > floor.end, NULL, left))
        ),
    }
    written = floor.written(columns["arrived"]) | (columns["arrived"] <= floor.start)
    return ascending({key: values[written] for key, values in columns.items()}, "arrived")
