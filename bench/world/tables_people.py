"""Tables of people and parts: the roster, heads by area, the crib."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.world import calendar
from bench.world.canonical import Times
from bench.world.chance import belows, uniform, uniforms
from bench.world.fault_kinds import area_of, magnitude
from bench.world.floor import SLOT_S, Columns, Floor, ascending, integers, texts
from bench.world.layout import DONOR_AREAS, OUTBOUND_AREAS
from bench.world.local_time import DAY_S, HOUR_S, NULL

AREAS = OUTBOUND_AREAS + DONOR_AREAS
HEADS = (10, 12, 9, 14, 30, 24, 11)  # planned in a full shift of the model site, as AREAS
BLOCK_S = 2 * HOUR_S  # for which people stay where they were sent

NEAR = 0.05  # of blocks and areas are thin, not short
SURPLUS = 0.22  # of blocks and donor areas
BADGES_LAG = 0.025  # of the slots: nobody's badge was read in time
BADGE_LAGS = 0.007  # of slots and areas

# role, skill, and the chances of none, one, two, … of them on a shift
CREWS = (
    ("technician", "mechatronics", (0.20, 0.45, 0.25, 0.10)),
    ("technician", "hydraulics", (0.40, 0.50, 0.10)),
    ("technician", "it", (0.55, 0.45)),
    ("yard_driver", "", (0.18, 0.57, 0.25)),
    ("area_lead", "", (0.0, 0.7, 0.3)),
)
EARLY_LEAVE = 0.12  # of the people go at half time


class Duty(NamedTuple):
    """Who is on shift from `on` to before `off`."""

    person: str
    role: str
    skill: str
    on: int
    off: int


def duties(floor: Floor) -> list[Duty]:
    """Of every shift that touches the world, in order."""
    found = []
    for shift in calendar.shifts(floor.site, floor.start, floor.end):
        for role, skill, chances in CREWS:
            key = floor.key("crew", role, skill, shift.start)
            heads = int(np.searchsorted(np.cumsum(chances), uniform(key), side="right"))
            for number in range(min(heads, len(chances) - 1)):
                half = uniform(key, 1 + number) < EARLY_LEAVE
                length = shift.end - shift.start
                found.append(
                    Duty(
                        person=_person(floor, role, skill, shift.name, number),
                        role=role,
                        skill=skill,
                        on=shift.start,
                        off=shift.start + (length // 1800 * 900 if half else length),
                    )
                )
    return found


def _person(floor: Floor, role: str, skill: str, shift: str, number: int) -> str:
    """One person has one job and one shift: `FC1-M-E2` is the second of the early mechatronics."""
    job = (skill or role)[0].upper()
    return f"{floor.facts.name}-{job}-{shift[:1].upper()}{number + 1}"


def roster(floor: Floor) -> Columns:
    found = duties(floor)
    return {
        "site": floor.named(len(found)),
        "person_id": texts([duty.person for duty in found]),
        "role": texts([duty.role for duty in found]),
        "skill": texts([duty.skill for duty in found]),
        "on": integers([duty.on for duty in found]),
        "off": integers([duty.off for duty in found]),
    }


# --- heads ------------------------------------------------------------------------------------


def labor_slot(floor: Floor) -> Columns:
    shifts = calendar.shifts(floor.site, floor.start, floor.end)
    starts = integers([shift.start for shift in shifts])
    slot = np.arange(-(-floor.start // SLOT_S), -(-floor.end // SLOT_S), dtype=np.int64) * SLOT_S
    inside = np.searchsorted(starts, slot, side="right") - 1
    ends = integers([shift.end for shift in shifts])
    heads = np.array([shift.heads for shift in shifts])
    planned = _planned(floor, starts[inside], heads[inside])
    actual = _actual(floor, slot, starts[inside], planned)
    trained = _trained(floor, starts[inside], planned)
    columns: Columns = {
        "site": floor.named(planned.size),
        "slot": np.repeat(slot, len(AREAS)),
        "area": np.tile(texts(AREAS), slot.size),
        "planned": planned.ravel(),
        "actual": actual.ravel(),
        "trained_outbound": trained.ravel(),
        "shift_start": np.repeat(starts[inside], len(AREAS)),
        "shift_end": np.repeat(ends[inside], len(AREAS)),
    }
    return floor.kept(columns, "slot")


def _by_area(counters: Times) -> NDArray[np.int64]:
    """A counter for each area, whatever the counter before."""
    cells: NDArray[np.int64] = counters[:, None] * len(AREAS) + np.arange(len(AREAS))
    return cells


def _planned(floor: Floor, shift: Times, heads: NDArray[np.float64]) -> NDArray[np.int64]:
    level = 0.9 + 0.2 * uniforms(floor.key("planned"), _by_area(shift))
    exact = np.array(HEADS) * floor.volume * heads[:, None] * level
    return integers(np.maximum(np.floor(exact + 0.5), 1))


def _actual(
    floor: Floor, slot: Times, shift: Times, planned: NDArray[np.int64]
) -> NDArray[np.int64]:
    of_shift = uniforms(floor.key("actual", "shift"), _by_area(shift))
    of_slot = uniforms(floor.key("actual", "slot"), _by_area(slot // SLOT_S))
    ratio = 0.95 + 0.08 * of_shift + 0.02 * of_slot
    block = _by_area(slot // BLOCK_S)
    kind, size = uniforms(floor.key("actual", "kind"), block), uniforms(floor.key("spare"), block)
    # Thin areas lie at the limit of a twentieth of twenty heads, or up to five points above.
    ratio = np.where(kind < NEAR, 0.85 + 0.05 * size, ratio)
    heads = np.ceil(np.floor(ratio * planned * 10 + 0.5) / 10 - 0.5)
    thin = kind < NEAR
    heads = np.where(thin, np.ceil(ratio * planned), heads)
    donor = np.arange(len(AREAS)) >= len(OUTBOUND_AREAS)
    surplus = donor & (kind >= 1 - SURPLUS)
    heads = np.where(surplus, np.floor(1.05 * planned) + 1 + np.floor(6 * size), heads)
    for episode in floor.episodes("labor_short"):
        area = OUTBOUND_AREAS.index(area_of(episode))
        rows = (slot + SLOT_S > episode.start) & (slot < episode.end)
        present = 1 - magnitude(episode)
        heads[rows, area] = np.ceil(present * planned[rows, area] - 0.5)
    lag = uniforms(floor.key("badges lag"), slot // SLOT_S) < BADGES_LAG
    lags = uniforms(floor.key("badge lags"), _by_area(slot // SLOT_S)) < BADGE_LAGS
    return integers(np.where(lag[:, None] | lags, NULL, heads))


def _trained(floor: Floor, shift: Times, planned: NDArray[np.int64]) -> NDArray[np.int64]:
    """All who work outbound; among donors a few, changing by the shift."""
    donors = belows(8, floor.key("trained"), _by_area(shift))
    outbound = np.arange(len(AREAS)) < len(OUTBOUND_AREAS)
    return integers(np.where(outbound, planned, np.minimum(donors, planned)))


# --- the crib ---------------------------------------------------------------------------------

PARTS = ("GRIPPER-KIT", "CUP-SET", "DRIVE-BELT", "PHOTO-EYE")
COUNT_S = 8 * HOUR_S  # a part is counted once in this


def spare_stock(floor: Floor) -> Columns:
    turn = np.arange(floor.start // COUNT_S, floor.end // COUNT_S, dtype=np.int64)
    cell = turn[:, None] * len(PARTS) + np.arange(len(PARTS))
    day = (turn * COUNT_S // DAY_S)[:, None] * len(PARTS) + np.arange(len(PARTS))
    kind = uniforms(floor.key("stock"), day)
    taken = belows(2, floor.key("stock", "taken"), cell)
    on_hand = np.select((kind < 0.15, kind < 0.4), (0, 1), 2 + taken)
    drawn = uniforms(floor.key("reserved"), cell)
    reserved = np.select((drawn < 0.25, drawn < 0.55, drawn < 0.85), (NULL, 0, 1), 2)
    at = turn[:, None] * COUNT_S + 1 + belows(COUNT_S, floor.key("counted at"), cell)
    columns: Columns = {
        "site": floor.named(cell.size),
        "part": np.tile(texts(PARTS), turn.size),
        "at": at.ravel(),
        "on_hand": integers(on_hand).ravel(),
        "reserved": integers(reserved).ravel(),
    }
    inside = (columns["at"] > floor.start) & (columns["at"] <= floor.end)
    columns = {key: values[inside] for key, values in columns.items()}
    return ascending(floor.kept(columns, "at"), "at")
