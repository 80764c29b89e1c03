"""Is this the fault, as metrics and controllers tell. One function a node, by bench/RULES.md."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Any

import numpy as np

from bench.annotator.figures import mean, median, percent, quantile, share_of_one
from bench.annotator.ids import AIR, LOOP, SINGULATOR
from bench.annotator.instant import Instant, greatest
from bench.annotator.judged import (
    UNKNOWN,
    Clause,
    Judged,
    at_least,
    below,
    both,
    conclude,
    either,
    no_data,
)

LOST = -1  # what a controller answers for a link that is down
DAY_S = 86_400
DAYS_BACK = range(1, 8)

# --- equipment --------------------------------------------------------------------------------


def safety_stop(now: Instant, entity: str) -> Judged:
    answer = now.call("safety_inputs", entity)
    if answer is None:
        return no_data(entity)
    states = [LOST if is_lost(one["ok"]) else bool(one["ok"]) for one in answer["inputs"]]
    if any(state is False for state in states):
        return Judged("true", entity)
    return no_data(entity) if LOST in states else Judged("false", entity)


def drive_fault(now: Instant, entity: str) -> Judged:
    answer = now.call("fault_code", entity)
    if answer is None or is_lost(answer["code"]):
        return no_data(entity)
    if answer["code"] != 0:
        return Judged("true", entity)
    latched = answer["latched_at"]
    if latched is None or latched < 0:
        return Judged("false", entity)
    latch_s = now.seconds("fault_latch_s")
    recent = 0 <= now.t - latched <= latch_s
    return conclude(entity, Clause(recent, abs(now.t - latched - latch_s) / max(latch_s, 1)))


def door_fault(now: Instant, entity: str) -> Judged:
    prefix = now.layout.split(entity)[0]
    asset = entity if prefix == "DD" else now.layout.lane_of(entity) or LOOP
    answer = now.call("doors", asset)
    if answer is None:
        return no_data(entity)
    docked = [door for door in answer["doors"] if door["docked"]]
    clauses = {str(door["door"]): _down(now, door) for door in docked}
    for door, clause in clauses.items():
        if clause.holds:
            return conclude(door, clause)
    if any(is_lost(device["ready"]) for door in docked for device in door["devices"]):
        return no_data(entity)
    return conclude(entity, either(Clause(False), *clauses.values()))


def _down(now: Instant, door: Mapping[str, Any]) -> Clause:
    """Whether a device of a door has been out long enough."""
    out = [
        at_least(now.t - device["since"], now.number("door_fault_s"))
        for device in door["devices"]
        if not is_lost(device["ready"]) and not device["ready"]
    ]
    return either(Clause(False), *out)


def carriers_out(now: Instant, entity: str) -> Judged:
    answer = now.call("carriers", LOOP)
    if answer is None or is_lost(answer["disabled"]):
        return no_data(LOOP)
    return conclude(
        LOOP, at_least(percent(answer["disabled"], answer["total"]), now.number("carriers_pct"))
    )


def photo_eye_dirty(now: Instant, entity: str) -> Judged:
    if now.layout.split(entity)[0] in ("PE", "INF"):
        margins = _margins(now, entity)
        clauses = {
            eye: either(_dim(now, margins.get(eye)), _blocked_in_flow(now, eye))
            for eye in now.layout.eyes_in_scope(entity)
        }
    else:
        chute = now.fullest_chute(entity)
        if chute is None:
            return no_data(entity)
        # A dock that names no chute is asked for all of them, in one answer of one age.
        asked = chute if chute == entity else "LS-1"
        clauses = {chute: _dim(now, _margins(now, asked).get(chute))}
    first = next((eye for eye, clause in clauses.items() if clause.holds), entity)
    return conclude(first, either(*clauses.values()))


def _margins(now: Instant, asset: str) -> Mapping[str, float]:
    answer = now.call("eye_margin", asset)
    if answer is None:
        return {}
    return {
        str(eye["eye"]): float(eye["margin_pct"])
        for eye in answer["eyes"]
        if not is_lost(eye["margin_pct"])
    }


def _dim(now: Instant, margin: float | None) -> Clause:
    return below(margin, now.number("eye_margin_pct"))


def _blocked_in_flow(now: Instant, eye: str) -> Clause:
    """Blocked nearly all the time while product passes its neighbours."""
    window_s = now.seconds("eye_window_s")
    share = share_of_one(
        now.changes("eye_blocked", eye, window_s, now.seconds("eye_carry_s")),
        now.t - window_s,
        now.t,
        now.number("min_coverage"),
    )
    passed = [
        at_least(
            now.increase("parcels_total", neighbour, window_s),
            now.number("eye_neighbour_parcels"),
        )
        for neighbour in now.layout.neighbours(eye)
        if neighbour is not None
    ]
    return both(at_least(share, now.number("eye_blocked_pct")), *passed)


def is_lost(state: Any) -> bool:
    """`True` is 1 and never -1, but `-1` may come as any number."""
    return not isinstance(state, bool) and state == LOST


# --- drives, air, singulator, loop ------------------------------------------------------------


def drive_overload(now: Instant, entity: str) -> Judged:
    drive = now.layout.drive_of(entity)
    window_s = now.seconds("drive_window_s")
    least = now.number("drive_min_samples")
    load = now.valid("drive_load", drive, window_s)
    temp = now.valid("drive_temp", drive, window_s)
    return conclude(
        drive,
        either(
            at_least(mean(load) if len(load) >= least else None, now.number("drive_load_pct")),
            at_least(
                quantile(temp, 0.95) if len(temp) >= least else None, now.number("drive_temp_c")
            ),
        ),
    )


def air_pressure_low(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("air_window_s")
    bars = now.valid("air_pressure", AIR, window_s)
    known = now.covered(len(bars), "air_pressure", window_s)
    return conclude(AIR, below(quantile(bars, 0.1) if known else None, now.number("air_bar")))


def gap_loss(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("gap_window_s")
    gaps = now.valid("merge_gap", SINGULATOR, window_s)
    enough = len(gaps) >= now.number("gap_min_parcels")
    return conclude(
        SINGULATOR,
        either(
            below(quantile(gaps, 0.1) if enough else None, now.number("gap_mm")),
            at_least(now.mean("double_pct", SINGULATOR, window_s), now.number("double_pct")),
        ),
    )


def tracking_slip(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("slip_window_s")
    encoder, drive = now.pairs("encoder_speed", "sorter_speed", LOOP, window_s)
    moving = drive > now.number("moving_speed")
    apart = np.abs(encoder[moving] / drive[moving] - 1).tolist()
    known = len(apart) > 0 and now.covered(len(apart), "encoder_speed", window_s)
    lost_s = now.seconds("lost_window_s")
    lost = now.increase("tracking_lost_total", LOOP, lost_s)
    inducted = now.increase("inducted_total", LOOP, lost_s)
    enough = at_least(inducted, now.number("lost_min_inducted"))
    per_1000 = 1000 * lost / inducted if enough.holds and lost is not None and inducted else None
    return conclude(
        LOOP,
        either(
            at_least(100 * fsum(apart) / len(apart) if known else None, now.number("slip_pct")),
            at_least(per_1000, now.number("lost_per_1000")),
        ),
    )


# --- tunnels and diverts ----------------------------------------------------------------------


def scan_lens_dirty(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("lens_window_s")
    shares: dict[str, float] = {}
    enough: list[Clause] = []
    for tunnel in now.layout.tunnels():
        scans = now.increase("tunnel_scans_total", tunnel, window_s)
        missed = now.increase("tunnel_no_reads_total", tunnel, window_s)
        enough.append(at_least(scans, now.number("lens_min_scans")))
        share = percent(missed, scans) if scans is not None and missed is not None else None
        if share is None:
            enough.append(UNKNOWN)
        else:
            shares[tunnel] = share
    worse = greatest(shares)
    if worse is None or not all(need.holds for need in enough):
        return conclude(entity, UNKNOWN, *enough)
    better = min(share for tunnel, share in shares.items() if tunnel != worse)
    return conclude(
        worse,
        both(
            at_least(shares[worse], now.number("no_read_pct")),
            at_least(shares[worse], now.number("lens_factor") * better),
        ),
        *enough,
    )


def divert_worn(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("worn_window_s")
    shares: dict[str, float] = {}
    for chute in now.layout.chutes():
        counted = now.diverts(chute, window_s)
        if counted is None or counted.attempts < now.number("worn_min_attempts"):
            continue
        share = percent(counted.fails, counted.attempts)
        if share is not None:
            shares[chute] = share
    one_chute = now.layout.split(entity)[0] == "CH"
    worst = entity if one_chute else greatest(shares)
    if worst is None:
        return no_data(entity)
    others = [share for chute, share in shares.items() if chute != worst]
    usual = median(others)
    if worst not in shares or usual is None or len(others) < now.number("min_neighbours"):
        return no_data(worst)
    return conclude(
        worst,
        both(
            at_least(shares[worst], now.number("worn_fail_pct")),
            at_least(shares[worst], now.number("worn_factor") * usual),
        ),
    )


# --- cells ------------------------------------------------------------------------------------


def cup_worn(now: Instant, entity: str) -> Judged:
    cell = now.worst_cell(entity)
    if cell is None:
        return no_data(entity)
    leak = _median_leak(now, cell, now.t)
    clause = at_least(leak, now.number("leak_mbar_s"))
    before = [_median_leak(now, cell, now.t - DAY_S * days) for days in DAYS_BACK]
    known = [figure for figure in before if figure is not None]
    usual = median(known)
    if usual is not None and len(known) >= now.number("leak_min_days"):
        clause = both(clause, at_least(leak, now.number("leak_factor") * usual))
    return conclude(cell, clause)


def _median_leak(now: Instant, cell: str, end: int) -> float | None:
    leaks = now.valid("cell_leak", cell, now.seconds("gripper_window_s"), end)
    return median(leaks) if len(leaks) >= now.number("leak_min_holds") else None


def vacuum_filter_clogged(now: Instant, entity: str) -> Judged:
    cell = now.worst_cell(entity)
    if cell is None:
        return no_data(entity)
    flows = now.valid("cell_freeflow", cell, now.seconds("gripper_window_s"))
    distinct = np.unique(flows[flows >= now.number("freeflow_valid_mbar")])
    enough = len(distinct) >= now.number("freeflow_min_distinct")
    return conclude(
        cell,
        both(
            at_least(median(distinct) if enough else None, now.number("freeflow_mbar")),
            below(_median_leak(now, cell, now.t), now.number("leak_mbar_s")),
        ),
    )


def vision_degraded(now: Instant, entity: str) -> Judged:
    cell = now.worst_cell(entity)
    if cell is None:
        return no_data(entity)
    own = _no_grasp(now, cell)
    others = [
        share
        for other in now.layout.cells()
        if other != cell and (share := _no_grasp(now, other)) is not None
    ]
    usual = median(others)
    if own is None or usual is None or len(others) < now.number("min_neighbours"):
        return no_data(cell)
    return conclude(
        cell,
        both(
            at_least(own, now.number("no_grasp_pct")),
            at_least(own, now.number("vision_factor") * usual),
        ),
    )


def _no_grasp(now: Instant, cell: str) -> float | None:
    window_s = now.seconds("vision_window_s")
    counted = now.picks(cell, window_s)
    if counted is None or counted.picks < now.number("vision_min_attempts"):
        return None
    return now.mean("cell_no_grasp", cell, window_s)
