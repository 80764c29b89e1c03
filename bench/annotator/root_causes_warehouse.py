"""Is this the fault, as the warehouse tells. One function a node, by bench/RULES.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.annotator.figures import baseline, percent
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
from bench.annotator.tables import NULL
from bench.world.canonical import Times

SLOT_S = 900
MINUTES_A_SLOT = 15
HARD = ("polybag", "irregular")
UNCLASSED = "unknown"

Rule = Callable[[Instant, str], Judged]


def heard(rule: Rule) -> Rule:
    """The rule, or no_data while the warehouse gives no sign of life."""

    def judged(now: Instant, entity: str) -> Judged:
        return rule(now, entity) if now.warehouse_heard() else no_data(entity)

    return judged


@heard
def label_print_poor(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("label_window_s")
    of_no_read = now.counted("no_read", window_s)["printer"]
    unread = _by_name(of_no_read[of_no_read != ""], None)
    identified = sum(unread.values())
    enough = at_least(identified, now.number("label_min_identified"))
    printer = greatest(dict(sorted(unread.items())))
    if printer is None or not enough.holds:
        return conclude(entity, UNKNOWN, enough)
    printed = now.counted("label_count", window_s)
    labels = _by_name(printed["printer"], printed["labels"])
    usual = percent(labels.get(printer, 0), sum(labels.values()))
    if usual is None:
        return no_data(printer)
    share = percent(unread[printer], identified)
    return conclude(
        printer,
        both(
            at_least(share, now.number("printer_share_pct")),
            at_least(share, now.number("printer_factor") * usual),
        ),
        enough,
    )


def _by_name(names: np.ndarray, counts: np.ndarray | None) -> dict[str, int]:
    """Rows, or the sum of their counts, by name."""
    found, place = np.unique(names, return_inverse=True)
    sums = np.bincount(place, weights=counts, minlength=len(found))
    return {str(name): round(float(count)) for name, count in zip(found, sums, strict=True)}


@heard
def no_destination(now: Instant, entity: str) -> Judged:
    rows = now.counted("flow_minute", now.seconds("route_window_s"))
    reads, unassigned = int(rows["reads"].sum()), int(rows["unassigned"].sum())
    return conclude(
        entity,
        at_least(percent(unassigned, reads), now.number("unassigned_pct")),
        at_least(reads, now.number("route_min_reads")),
    )


@heard
def item_mix_hard(now: Instant, entity: str) -> Judged:
    mix = _mix(now, now.t2)
    usual = baseline(
        [before.hard for end in now.baseline_times(now.t2) if (before := _mix(now, end)).met],
        now.seconds("baseline_min_weeks"),
    )
    if usual is None:
        return conclude(entity, UNKNOWN, mix.enough, mix.classed)
    clause = at_least(mix.hard, usual + now.number("mix_points"))
    return conclude(entity, clause, mix.enough, mix.classed)


class _Mix(NamedTuple):
    """`hard` is the percent of bags and odd shapes among parcels of known class."""

    hard: float | None
    enough: Clause
    classed: Clause

    @property
    def met(self) -> bool:
        return bool(self.enough.holds) and bool(self.classed.holds)


def _mix(now: Instant, end: int) -> _Mix:
    rows = now.counted("item_mix", now.seconds("mix_window_s"), end)
    parcels = _by_name(rows["class"], rows["parcels"])
    total, unknown = sum(parcels.values()), parcels.get(UNCLASSED, 0)
    share = percent(unknown, total)
    most = now.number("mix_max_unknown_pct")
    # `at most` by way of `below`: the margin is the same.
    margin = below(share, most).margin
    return _Mix(
        hard=percent(sum(parcels.get(name, 0) for name in HARD), total - unknown),
        enough=at_least(total, now.number("mix_min_parcels")),
        classed=UNKNOWN if share is None else Clause(share <= most, margin),
    )


@heard
def container_short(now: Instant, entity: str) -> Judged:
    rows = now.snapshots("container_zone", "zone")
    clauses: dict[str, Clause] = {}
    spare: dict[str, float] = {}
    for zone in now.layout.zones_in_scope(entity):
        row = rows.get(zone)
        if row is None:
            continue
        empties, used = row["empties"], row["used_15min"]
        clauses[zone] = both(at_least(used, now.number("container_min_use")), below(empties, used))
        if clauses[zone].holds:
            spare[zone] = empties - used
    return conclude(least(spare) or entity, either(*clauses.values()))


@heard
def trailer_absent(now: Instant, entity: str) -> Judged:
    chute = entity if now.layout.lane_of(entity) else now.fullest_chute(entity)
    lane = None if chute is None else now.layout.lane_of(chute)
    if lane is None:
        return no_data(entity)
    due = now.tables.between("departure", now.t, now.t + now.seconds("trailer_horizon_s"))
    rows = np.flatnonzero(due["lane"] == lane)
    if len(rows) == 0:
        return Judged("false", lane)
    docked, plan = int(due["docked"][rows[0]]), int(due["plan"][rows[0]])
    if docked != NULL and docked <= now.t2:
        return Judged("false", lane)
    return conclude(lane, at_least(now.t2 - plan, now.number("trailer_late_s")))


@heard
def labor_short(now: Instant, entity: str) -> Judged:
    slot = now.tables.at("labor_slot", now.t2 // SLOT_S * SLOT_S)
    outbound = np.flatnonzero(np.isin(slot["area"], now.settings.facts["outbound_areas"]))
    into = [
        at_least(now.t2 - int(slot["shift_start"][row]), now.number("labor_settle_s"))
        for row in outbound
    ]
    ratios = [
        int(slot["actual"][row]) / int(slot["planned"][row])
        for row in outbound
        if slot["planned"][row] >= now.number("labor_min_planned") and slot["actual"][row] != NULL
    ]
    return conclude(entity, below(min(ratios, default=None), now.number("labor_ratio")), *into)


@heard
def volume_over_plan(now: Instant, entity: str) -> Judged:
    window_s = now.seconds("volume_window_s")
    came = int(now.counted("flow_minute", window_s)["arrivals"].sum())
    planned = _planned(now, "arrivals", _minute_ends(now, window_s))
    return conclude(
        entity,
        at_least(_of_plan(came, planned), now.number("volume_ratio")),
        at_least(planned / MINUTES_A_SLOT, now.number("volume_min_forecast")),
    )


@heard
def upstream_stop(now: Instant, entity: str) -> Judged:
    breaks = now.tables.whole("break_plan")
    if bool(np.any((breaks["start"] <= now.t2) & (now.t2 < breaks["end"]))):
        return Judged("false", entity)
    window_s = now.seconds("upstream_window_s")
    rows = now.counted("flow_minute", window_s)
    paused = _in_breaks(breaks, rows["at"])
    packed = int(rows["pack_completions"][~paused].sum())
    ends = _minute_ends(now, window_s)
    planned = _planned(now, "pack", ends[~_in_breaks(breaks, ends)])
    return conclude(
        entity,
        below(_of_plan(packed, planned), now.number("upstream_ratio")),
        at_least(planned / MINUTES_A_SLOT, now.number("upstream_min_forecast")),
    )


def _in_breaks(breaks: Mapping[str, NDArray[Any]], ends: Times) -> NDArray[np.bool_]:
    """Which of the minutes that end then lie in a scheduled break."""
    begun = (breaks["start"][None, :] < ends[:, None]) & (ends[:, None] <= breaks["end"][None, :])
    found: NDArray[np.bool_] = np.asarray(begun.any(axis=1))
    return found


def _minute_ends(now: Instant, window_s: int) -> Times:
    """Of the whole minutes that end in the window."""
    first = (now.t2 - window_s) // 60 * 60 + 60
    return np.arange(first, now.t2 + 1, 60)


def _planned(now: Instant, what: str, ends: Times) -> int:
    """Fifteen times the parcels planned for the whole minutes that end then."""
    slots, minutes = np.unique((ends - 60) // SLOT_S * SLOT_S, return_counts=True)
    forecast = now.tables.whole("forecast")
    return sum(
        int(forecast[what][row]) * int(count)
        for slot, count in zip(slots, minutes, strict=True)
        for row in range(*np.searchsorted(forecast["slot"], (slot, slot + 1)))
    )


def _of_plan(counted: int, planned: int) -> float | None:
    """Ratio of a count to a plan that is fifteen times too large."""
    return MINUTES_A_SLOT * counted / planned if planned > 0 else None
