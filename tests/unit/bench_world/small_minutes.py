"""A hand-made world of minutes: every mode, gap, silence and extreme, far too often."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.world.catalogue import CELL_STATES
from bench.world.layout import ASSETS, EPOCH, LAYOUT
from bench.world.minutes import SILENT_GROUPS, EyeMode, Minutes

DAY = 1440  # minutes
DEPARTURES = (
    "site",
    "number",
    "lane",
    "door",
    "cpt",
    "plan",
    "arrival",
    "docked",
    "planned",
    "carrier",
)


def small_minutes(
    *,
    sites: int = 1,
    minutes: int = DAY,
    seed: int = 1,
    busy: float = 1.0,
    silence: bool = True,
    start: int = EPOCH,
) -> Minutes:
    """`busy` scales what is counted. With `silence`, every feed is silent now and then, twice for
    long. Sites differ, and the same arguments give the same arrays."""
    made = np.random.Generator(np.random.PCG64(seed))
    cells, chutes, eyes = LAYOUT["cells"], LAYOUT["chutes"], len(ASSETS["PE"])
    drives, infeeds, lanes = len(ASSETS["DRV"]), LAYOUT["infeeds"], LAYOUT["lanes"]

    def counts(mean: float, *assets: int) -> NDArray[np.uint16]:
        found = made.poisson(mean * busy, (sites, minutes, *assets))
        found[made.random(found.shape[:2]) < 0.1] = 0
        return found.astype(np.uint16)

    def level(low: float, high: float, *assets: int, unknown: float = 0.0) -> NDArray[np.float32]:
        found = made.uniform(low, high, (sites, minutes, *assets)).astype(np.float32)
        found[made.random(found.shape) < unknown] = np.nan
        return found

    state_s = np.zeros((sites, minutes, cells, len(CELL_STATES)), dtype=np.uint8)
    shares = made.multinomial(60, [0.6, 0.15, 0.15, 0.05, 0.03, 0.02], (sites, minutes, cells))
    state_s[:] = shares
    picks = counts(17, cells)
    attempts = counts(3, chutes).astype(np.uint8)
    scans = counts(50, LAYOUT["tunnels"])
    full = level(-2.0, 1.0, chutes)
    full[made.random(full.shape) < 0.05] = 1.0
    full[:, minutes // 3 : minutes // 3 + 30, :5] = 1.0
    silent = np.zeros((sites, minutes, len(SILENT_GROUPS)), dtype=np.bool_)
    if silence:
        silent = made.random(silent.shape) < 0.01
        silent[:, minutes // 4 : minutes // 4 + 45] = True
        silent[:, minutes // 2 : minutes // 2 + 3, 1] = True
    modes = made.choice(
        [EyeMode.CLEAR, EyeMode.DIRTY, EyeMode.JAM, EyeMode.DENSE, EyeMode.QUEUED],
        (sites, minutes, eyes),
        p=[0.6, 0.1, 0.1, 0.1, 0.1],
    ).astype(np.uint8)
    modes[:, 20:27, 3] = EyeMode.JAM
    none = np.empty(0, dtype=np.int64)
    return Minutes(
        start=start,
        sites=sites,
        minutes=minutes,
        arrivals=counts(110),
        pack=counts(110),
        forecast_arrivals=counts(110),
        forecast_pack=counts(110),
        inducted=counts(110),
        recirc_pct=level(0.5, 8.0, unknown=0.05),
        lost=counts(0.3),
        unassigned=counts(1),
        reads=counts(100),
        occupancy=level(20, 100, infeeds),
        motor_on=made.random((sites, minutes, infeeds)) < 0.9,
        eye_count=counts(35, eyes),
        eye_mode=modes,
        gap_mm=level(120, 450, unknown=0.05),
        double_pct=level(0.2, 4, unknown=0.05),
        picks=picks,
        fails=made.binomial(picks, 0.05).astype(np.uint16),
        state_s=state_s,
        leak=level(3, 30, cells),
        freeflow=level(30, 150, cells, unknown=0.02),
        no_grasp=level(0, 15, cells),
        manual=counts(13, LAYOUT["stations"]),
        scans=scans,
        no_reads=made.binomial(scans, 0.02).astype(np.uint16),
        speed=level(1.6, 2.0),
        setpoint=np.full((sites, minutes), 2.0, dtype=np.float32),
        slip=level(-0.01, 0.06),
        attempts=attempts,
        divert_fails=made.binomial(attempts, 0.02).astype(np.uint8),
        lane_full=made.binomial(attempts, 0.01).astype(np.uint8),
        full=np.maximum(full, 0.0),
        air=level(5.0, 6.8),
        load=level(40, 99, drives, unknown=0.05),
        temp=level(35, 90, drives, unknown=0.05),
        lane_occupied=counts(20, lanes),
        empties=counts(20, LAYOUT["zones"]),
        containers_used=counts(0.2, LAYOUT["zones"]).astype(np.uint8),
        loaded=counts(9, lanes),
        metrics_silent=silent,
        warehouse_silent=np.zeros((sites, minutes), dtype=np.bool_),
        departures=dict.fromkeys(DEPARTURES, none),
    )
