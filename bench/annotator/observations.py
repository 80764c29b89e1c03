"""Is the symptom real? One function a node, by the page bench/RULES.md."""

from __future__ import annotations

from collections import Counter
from math import fsum

import numpy as np

from bench.annotator.figures import (
    baseline,
    increase,
    known_from,
    median,
    percent,
    runs_of_one,
)
from bench.annotator.ids import LOOP
from bench.annotator.instant import Instant, greatest, least
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
from bench.world.canonical import Times
from bench.world.catalogue import CELL_STATES

NOT_AT_WORK = ("maintenance", "off")


def sorter_slow(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("speed_window_s")
    speed, setpoint = now.pairs("sorter_speed", "sorter_setpoint", LOOP, window_s)
    set_ = setpoint > 0
    ratios = speed[set_] / setpoint[set_]
    known = now.covered(len(ratios), "sorter_speed", window_s)
    return conclude(LOOP, below(median(ratios) if known else None, now.number("slow_ratio")))


def recirc_elevated(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("recirc_window_s")
    share = now.mean("recirc_pct", LOOP, window_s)
    clause = at_least(share, now.number("recirc_pct"))
    usual = baseline(
        [now.mean("recirc_pct", LOOP, window_s, end) for end in now.baseline_times(now.t)],
        now.seconds("baseline_min_weeks"),
    )
    if usual is not None:
        clause = both(clause, at_least(share, now.number("recirc_baseline_factor") * usual))
    inducted = now.increase("inducted_total", LOOP, window_s)
    return conclude(LOOP, clause, at_least(inducted, now.number("recirc_min_inducted")))


def no_read_elevated(now: Instant, entity: str) -> Judged:
    share, enough = _no_reads(now, entity, now.t)
    clause = at_least(share, now.number("no_read_pct"))
    usual = baseline(
        [_no_reads_if_enough(now, entity, end) for end in now.baseline_times(now.t)],
        now.seconds("baseline_min_weeks"),
    )
    if usual is not None:
        points = now.number("no_read_baseline_points")
        clause = either(clause, at_least(share, usual + points))
    return conclude(entity, clause, enough)


def _no_reads(now: Instant, entity: str, end: int) -> tuple[float | None, Clause]:
    """Percent of the scans, and whether there were enough."""
    window_s = now.seconds("no_read_window_s")
    scans = no_reads = 0
    known = False
    for tunnel in now.layout.tunnels_in_scope(entity):
        scanned = now.increase("tunnel_scans_total", tunnel, window_s, end)
        missed = now.increase("tunnel_no_reads_total", tunnel, window_s, end)
        if scanned is not None and missed is not None:
            known = True
            scans += scanned
            no_reads += missed
    enough = at_least(scans if known else None, now.number("no_read_min_scans"))
    return percent(no_reads, scans), enough


def _no_reads_if_enough(now: Instant, entity: str, end: int) -> float | None:
    share, enough = _no_reads(now, entity, end)
    return share if enough.holds else None


def induct_starved(now: Instant, entity: str) -> Judged:
    return _cells_in_state(now, entity, "starved", now.number("starved_pct"))


def induct_blocked(now: Instant, entity: str) -> Judged:
    return _cells_in_state(now, entity, "blocked", now.number("blocked_pct"))


def _cells_in_state(now: Instant, entity: str, state: str, threshold: float) -> Judged:
    seconds = now.once(("cell seconds",), lambda: _cell_seconds(now))
    at_work = fsum(spent for of, spent in seconds.items() if of not in NOT_AT_WORK)
    return conclude(
        entity,
        at_least(percent(seconds[state], at_work), threshold),
        at_least(at_work, now.number("induct_min_cell_s")),
    )


def _cell_seconds(now: Instant) -> dict[str, float]:
    """Seconds that all cells spent in each state."""
    window_s = now.seconds("induct_window_s")
    return {
        state: fsum(
            value
            for cell in now.layout.cells()
            for value in now.valid(f"cell_state_seconds:{state}", cell, window_s).tolist()
        )
        for state in CELL_STATES
    }


def pick_fail_elevated(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("pick_window_s")
    counted = [now.picks(cell, window_s) for cell in now.layout.cells_in_scope(entity)]
    picks = sum(cell.picks for cell in counted if cell is not None)
    fails = sum(cell.fails for cell in counted if cell is not None)
    return conclude(
        entity,
        at_least(percent(fails, picks), now.number("pick_fail_pct")),
        at_least(picks, now.number("pick_min_attempts")),
    )


def pick_fail_single_cell(now: Instant, entity: str) -> Judged:
    shares = now.fail_percents(now.layout.cells(), now.seconds("pick_window_s"))
    worst = greatest(shares)
    if worst is None:
        return no_data(entity)
    others = [share for cell, share in shares.items() if cell != worst]
    usual = median(others)
    if usual is None or len(others) < now.number("min_neighbours"):
        return no_data(worst)
    return conclude(
        worst,
        both(
            at_least(shares[worst], now.number("single_cell_factor") * usual),
            below(usual, now.number("neighbours_fail_pct")),
        ),
    )


def chutes_full(now: Instant, entity: str) -> Judged:
    chute = now.fullest_chute(entity)
    if chute is None:
        return no_data(entity)
    return conclude(chute, at_least(now.full_share(chute), now.number("chute_full_pct")))


def chutes_clustered(now: Instant, entity: str) -> Judged:
    shares = now.full_shares(now.layout.chutes())
    if not shares:
        return no_data(entity)
    threshold = now.number("chute_full_pct")
    full = [chute for chute, share in shares.items() if share >= threshold]
    by_zone = Counter(now.layout.zone_of(chute) for chute in full)
    clause = at_least(len(full), now.number("cluster_min_chutes"))
    # Chutes are in order, so the first of several zones is the lowest.
    zone, most = by_zone.most_common(1)[0] if full else (None, 0)
    if full:
        clause = both(clause, at_least(100 * most / len(full), now.number("cluster_share_pct")))
    judged = conclude(entity, clause)
    return judged._replace(subject=zone) if judged.value == "true" and zone else judged


def divert_fail_elevated(now: Instant, entity: str) -> Judged:
    one_chute = now.layout.split(entity)[0] == "CH"
    window_s = now.seconds("divert_chute_window_s" if one_chute else "divert_window_s")
    enough = now.number("divert_chute_min_attempts" if one_chute else "divert_min_attempts")
    chutes = [entity] if one_chute else now.layout.chutes()
    counted = [now.diverts(chute, window_s) for chute in chutes]
    attempts = sum(chute.attempts for chute in counted if chute is not None)
    fails = sum(chute.fails for chute in counted if chute is not None)
    return conclude(
        entity,
        at_least(percent(fails, attempts), now.number("divert_fail_pct")),
        at_least(attempts, enough),
    )


def jam_real(now: Instant, entity: str) -> Judged:
    jammed = {
        eye: _jammed(now, eye, behind)
        for eye in now.layout.eyes_in_scope(entity)
        if (behind := now.layout.neighbours(eye)[1]) is not None
    }
    first = next((eye for eye, clause in jammed.items() if clause.holds), entity)
    return conclude(first, either(*jammed.values()))


def _jammed(now: Instant, eye: str, behind: str) -> Clause:
    window_s = now.seconds("jam_window_s")
    start = now.t - window_s
    changes = now.changes("eye_blocked", eye, window_s, now.seconds("eye_carry_s"))
    counter = now.window("parcels_total", behind, window_s)
    known_s = now.t - known_from(changes, start, now.t)
    if known_s / window_s < now.number("min_coverage") or increase(counter) is None:
        return UNKNOWN
    motor = now.window("motor_on", now.layout.infeed_of_eye(eye), window_s)
    from_, to = runs_of_one(changes, start, now.t)
    counted = np.cumsum(counter.values)[counter.valid]
    first, last = _inside(counter.times[counter.valid], from_, to)
    several = last > first
    still = np.zeros(len(from_), np.bool_)
    still[several] = counted[last[several]] == counted[first[several]]
    standing = np.concatenate(([0], np.cumsum(motor.values[motor.valid] != 1)))
    first, last = _inside(motor.times[motor.valid], from_, to)
    driven = (last >= first) & (standing[np.maximum(last + 1, first)] == standing[first])
    stuck = (to - from_)[still & driven]
    return at_least(int(stuck.max()), now.number("jam_run_s")) if len(stuck) else Clause(False)


def _inside(times: Times, from_: Times, to: Times) -> tuple[Times, Times]:
    """Of each run the index of the first and of the last of the times in it, both ends in it."""
    first = np.searchsorted(times, from_, side="left")
    last = np.searchsorted(times, to, side="right") - 1
    return first.astype(np.int64), last.astype(np.int64)


def staging_crowded(now: Instant, entity: str) -> Judged:
    if not now.warehouse_heard():
        return no_data(entity)
    rows = now.snapshots("staging_lane", "lane")
    shares: dict[str, float] = {}
    for lane in now.layout.lanes_in_scope(entity):
        row = rows.get(lane)
        if row is None:
            continue
        share = percent(row["occupied"] - row["closed"], row["positions"] - row["closed"])
        if share is not None:
            shares[lane] = share
    lane_ = greatest(shares)
    if lane_ is None:
        return no_data(entity)
    return conclude(lane_, at_least(shares[lane_], now.number("staging_pct")))


def departure_short(now: Instant, entity: str) -> Judged:
    if not now.warehouse_heard():
        return no_data(entity)
    horizon_s = now.seconds("departure_horizon_s")
    due = now.tables.between("departure", now.t, now.t + horizon_s)
    lanes = now.layout.lanes_in_scope(entity)
    rows = [index for index, lane in enumerate(due["lane"]) if lane in lanes]
    if not rows:
        return Judged("false", entity)
    clauses: list[Clause] = []
    ratios: dict[str, float] = {}
    for index in rows:
        planned = int(due["planned"][index])
        reached = _loaded_at_departure(now, str(due["departure_id"][index]), int(due["cpt"][index]))
        clauses.append(below(reached, now.number("departure_min_ratio") * planned))
        if reached is not None and planned > 0:
            lane = str(due["lane"][index])
            ratios[lane] = min(reached / planned, ratios.get(lane, reached / planned))
    in_order = {lane: ratios[lane] for lane in lanes if lane in ratios}
    return conclude(least(in_order) or entity, either(*clauses))


def _loaded_at_departure(now: Instant, departure: str, cpt: int) -> float | None:
    """Parcels that will be loaded at this pace."""
    at, loaded = now.tables.loading_of(departure, now.t2)
    if len(at) == 0 or now.t - int(at[-1]) > now.seconds("snapshot_max_age_s"):
        return None
    before = np.flatnonzero(at <= int(at[-1]) - now.seconds("loading_rate_window_s"))
    if len(before) == 0:
        return None
    then = int(before[-1])
    rate = (int(loaded[-1]) - int(loaded[then])) / (int(at[-1]) - int(at[then]))
    return int(loaded[-1]) + rate * (cpt - now.t)
