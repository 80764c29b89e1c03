"""Minute by minute what the simulation leaves behind, and the faults that made it so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One fault, or one thing that looks like a fault and is none (`fault` starts with `not_`).

    `fault` is a node's name of the root causes without `rc_` (`cup_worn`) or of the others in the
    list of kinds (`jam`, `sort_plan_error`, `chute_abort_limit`, `telemetry_gap`, `not_break`, …).
    Seconds since the epoch; `onset` is when the cause began, `start`..`end` when its effect is big
    enough to matter. `severity` is 0..1. `asset` is a normalised id, "" for the whole site.
    """

    fault: str
    site: int
    asset: str
    onset: int
    start: int
    end: int
    severity: float
    episode: int
    """Unique in the world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """Arrays are [site, minute] or [site, minute, asset]; minute m is (start+60m, start+60m+60].

    Assets are in the order of their numbers (chutes CH-001.., cells RC-00.., eyes PE-11, PE-12..,
    drives DRV-0..DRV-4 then DRV-10..). Counts are parcels of that minute.
    """

    start: int
    sites: int
    minutes: int
    # flow
    arrivals: NDArray[np.uint16]
    pack: NDArray[np.uint16]
    forecast_arrivals: NDArray[np.uint16]  # plan for this minute, x15 is the slot's
    forecast_pack: NDArray[np.uint16]
    inducted: NDArray[np.uint16]
    recirc_pct: NDArray[np.float32]  # NaN while the loop is stopped
    lost: NDArray[np.uint16]
    unassigned: NDArray[np.uint16]
    reads: NDArray[np.uint16]
    # infeeds and eyes
    occupancy: NDArray[np.float32]  # percent, per infeed
    motor_on: NDArray[np.bool_]  # per infeed
    eye_count: NDArray[np.uint16]  # per eye
    eye_mode: NDArray[np.uint8]  # per eye, see EyeMode
    gap_mm: NDArray[np.float32]  # where the p10 of the gaps lies, NaN: nothing passes
    double_pct: NDArray[np.float32]  # NaN at low flow
    # cells
    picks: NDArray[np.uint16]
    fails: NDArray[np.uint16]
    state_s: NDArray[np.uint8]  # [site, minute, cell, state], seconds, in the order of CELL_STATES
    leak: NDArray[np.float32]
    freeflow: NDArray[np.float32]
    no_grasp: NDArray[np.float32]
    manual: NDArray[np.uint16]  # per station, parcels of the minute
    # tunnels
    scans: NDArray[np.uint16]
    no_reads: NDArray[np.uint16]
    # loop
    speed: NDArray[np.float32]  # m/s
    setpoint: NDArray[np.float32]
    slip: NDArray[np.float32]  # encoder/drive - 1
    # chutes
    attempts: NDArray[np.uint8]
    divert_fails: NDArray[np.uint8]
    lane_full: NDArray[np.uint8]
    full: NDArray[np.float32]  # share of the minute that the chute was full, 0..1
    # drives and air
    air: NDArray[np.float32]  # bar
    load: NDArray[np.float32]  # NaN: off
    temp: NDArray[np.float32]  # NaN: off
    # staging, containers, loading
    lane_occupied: NDArray[np.uint16]  # [site, minute, lane], closed positions not counted
    empties: NDArray[np.uint16]  # [site, minute, zone]
    containers_used: NDArray[np.uint8]  # [site, minute, zone], of this minute
    loaded: NDArray[np.uint16]  # [site, minute, lane], parcels loaded this minute
    # feeds: True while nothing of it is written
    metrics_silent: NDArray[np.bool_]  # [site, minute, group], see SILENT_GROUPS
    warehouse_silent: NDArray[np.bool_]
    departures: Mapping[str, NDArray[np.int64]]
    """One row a departure, ascending by cpt: site, number, lane, door, cpt, plan (arrival planned),
    arrival (-1: never came), docked (-1: never), planned (parcels), carrier. Seconds since the
    epoch; lane and door are numbers as in STG-03, DD-05."""
    episodes: tuple[Episode, ...] = field(default=())


SILENT_GROUPS = ("infeed", "cells", "tunnels", "loop", "chutes", "plant")
"""infeed: INF, PE, SG; cells: RC, MS and robot drives; tunnels: ST; loop: LS, arrivals, DRV-0..4;
chutes: CH; plant: AIR."""


class EyeMode:
    """What an eye sees in a minute; its pulses are made from this."""

    CLEAR = 0  # pulses of a few seconds, 5-40 % blocked, as parcels pass
    DIRTY = 1  # blocked about 95 % while parcels pass
    JAM = 2  # blocked all minute; nothing reaches the next eye
    DENSE = 3  # gapless flow: runs of 8-15 s while parcels pass
    QUEUED = 4  # accumulation: long runs, but the next counter creeps on
