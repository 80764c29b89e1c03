"""The kinds of episodes: how often, where, how fast, how bad; and how bad at a given instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.world.layout import OUTBOUND_AREAS
from bench.world.minutes import SILENT_GROUPS, Episode


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """`rate` is per site-week. `assets` weighs where: an id's prefix, or a whole id, to weight.
    `creep` is minutes from the onset to the start, `lasts` from there to the end, each from..to.
    The level is `low`..`high` by severity, in the `unit`; `matters` is about where a rule turns.
    """

    rate: float
    assets: Mapping[str, float]
    creep: tuple[int, int]
    lasts: tuple[int, int]
    low: float = 1.0
    high: float = 1.0
    matters: float = 1.0
    unit: str = "on"


_SITE = {"": 1.0}
_LOOP = {"LS-1": 1.0}
_CELL = {"RC": 1.0}
_DAYS = (1440, 4320)

KINDS: Mapping[str, FaultKind] = {
    "safety_stop": FaultKind(
        rate=3.0, assets={"LS-1": 0.4, "INF": 0.25, "RC": 0.35}, creep=(0, 0), lasts=(4, 16)
    ),
    "drive_fault": FaultKind(
        rate=0.8,
        assets={"DRV-0": 0.35, "DRV-INF": 0.25, "DRV-RC": 0.4},
        creep=(0, 0),
        lasts=(8, 30),
    ),
    "drive_overload": FaultKind(
        rate=0.7,
        assets={"DRV-0": 0.4, "DRV-INF": 0.35, "DRV-RC": 0.25},
        creep=(60, 360),
        lasts=(45, 150),
        low=22,
        high=40,
        matters=27,
        unit="degrees C above usual; load +1.2 points each",
    ),
    "air_pressure_low": FaultKind(
        rate=0.7,
        assets={"AIR-1": 1.0},
        creep=(3, 10),
        lasts=(25, 90),
        low=0.95,
        high=2.2,
        matters=1.1,
        unit="bar lost",
    ),
    "photo_eye_dirty": FaultKind(
        rate=6.0,
        assets={"PE": 0.65, "CH": 0.35},
        creep=_DAYS,
        lasts=(45, 240),
        low=44,
        high=70,
        matters=48,
        unit="points of margin lost, of 72 or so",
    ),
    "scan_lens_dirty": FaultKind(
        rate=1.0,
        assets={"ST": 1.0},
        creep=(360, 1500),
        lasts=(75, 300),
        low=1.3,
        high=5.0,
        matters=1.7,
        unit="points of no-reads on the tunnel",
    ),
    "label_print_poor": FaultKind(
        rate=1.0,
        assets={"PR": 1.0},
        creep=(0, 0),
        lasts=(70, 220),
        low=1.2,
        high=5.0,
        matters=1.2,
        unit="points of no-reads on both tunnels, all of this printer",
    ),
    "gap_loss": FaultKind(
        rate=0.7,
        assets={"SG-1": 1.0},
        creep=(10, 60),
        lasts=(25, 90),
        low=0.48,
        high=0.72,
        matters=0.55,
        unit="share of the gap lost",
    ),
    "no_destination": FaultKind(
        rate=0.7,
        assets=_SITE,
        creep=(0, 0),
        lasts=(20, 75),
        low=1.2,
        high=13,
        matters=1.4,
        unit="percent of reads unassigned",
    ),
    "divert_worn": FaultKind(
        rate=1.0,
        assets={"CH": 1.0},
        creep=_DAYS,
        lasts=(180, 480),
        low=1.2,
        high=6.0,
        matters=1.5,
        unit="points of diverts failed",
    ),
    "cup_worn": FaultKind(
        rate=3.0,
        assets=_CELL,
        creep=(120, 360),
        lasts=(70, 220),
        low=11,
        high=32,
        matters=14,
        unit="mbar/s of leak above usual",
    ),
    "vacuum_filter_clogged": FaultKind(
        rate=1.0,
        assets=_CELL,
        creep=_DAYS,
        lasts=(150, 360),
        low=58,
        high=125,
        matters=70,
        unit="mbar of free-flow above usual",
    ),
    "vision_degraded": FaultKind(
        rate=1.0,
        assets=_CELL,
        creep=(10, 40),
        lasts=(45, 140),
        low=6,
        high=17,
        matters=8,
        unit="points of no-grasp",
    ),
    "item_mix_hard": FaultKind(
        rate=2.0,
        assets=_SITE,
        creep=(2, 5),
        lasts=(40, 130),
        low=8,
        high=26,
        matters=10,
        unit="points of polybags and odd shapes",
    ),
    "container_short": FaultKind(
        rate=5.0,
        assets={"ZN": 1.0},
        creep=(15, 30),
        lasts=(30, 80),
        low=0.9,
        high=1.0,
        matters=0.9,
        unit="share of the supply of empties lost, from the onset on",
    ),
    "trailer_absent": FaultKind(
        rate=4.0, assets={"STG": 1.0}, creep=(15, 15), lasts=(10, 180), unit="not docked"
    ),
    "door_fault": FaultKind(rate=1.0, assets={"DD": 1.0}, creep=(0, 0), lasts=(15, 60)),
    "labor_short": FaultKind(
        rate=4.0,
        assets=_SITE,
        creep=(0, 0),
        lasts=(60, 240),
        low=0.11,
        high=0.44,
        matters=0.15,
        unit="share of planned heads absent, in `area_of` it",
    ),
    "volume_over_plan": FaultKind(
        rate=3.0,
        assets=_SITE,
        creep=(3, 8),
        lasts=(50, 150),
        low=0.17,
        high=0.60,
        matters=0.2,
        unit="share above plan",
    ),
    "upstream_stop": FaultKind(
        rate=1.0,
        assets=_SITE,
        creep=(0, 0),
        lasts=(14, 40),
        low=0.4,
        high=1.0,
        matters=0.5,
        unit="share of packing lost",
    ),
    "carriers_out": FaultKind(
        rate=0.7,
        assets=_LOOP,
        creep=(0, 240),
        lasts=(40, 180),
        low=2.2,
        high=10,
        matters=3.0,
        unit="percent of carriers out of use, above the usual 1 or so",
    ),
    "tracking_slip": FaultKind(
        rate=0.7,
        assets=_LOOP,
        creep=(0, 20),
        lasts=(22, 60),
        low=3.8,
        high=9,
        matters=5,
        unit="percent between encoder and drive",
    ),
    # not among the root causes
    "jam": FaultKind(rate=40.0, assets={"PE": 1.0}, creep=(0, 0), lasts=(2, 7)),
    "sort_plan_error": FaultKind(
        rate=0.5, assets={"CH": 1.0}, creep=(0, 0), lasts=(30, 90), low=2, high=4, unit="times"
    ),
    "chute_abort_limit": FaultKind(
        rate=0.7, assets=_SITE, creep=(0, 0), lasts=(20, 60), low=3, high=9, unit="percent aborted"
    ),
    "telemetry_gap": FaultKind(
        rate=2.5, assets=_SITE, creep=(0, 0), lasts=(8, 70), unit="silent: `gap_group` of it"
    ),
    "not_warehouse_gap": FaultKind(rate=0.8, assets=_SITE, creep=(0, 0), lasts=(20, 80)),
    "not_dense_flow": FaultKind(rate=5.0, assets={"PE": 1.0}, creep=(0, 0), lasts=(10, 30)),
    "not_heavy_volume": FaultKind(
        rate=1.5,
        assets=_SITE,
        creep=(3, 8),
        lasts=(50, 150),
        low=0.08,
        high=0.16,
        unit="share above plan",
    ),
    "not_bad_labels": FaultKind(
        rate=1.2,
        assets=_SITE,
        creep=(0, 0),
        lasts=(40, 150),
        low=1.2,
        high=3.5,
        unit="points of no-reads on both tunnels, of every printer alike",
    ),
    "not_chute_surge": FaultKind(
        rate=7.0, assets={"CH": 1.0}, creep=(0, 0), lasts=(15, 35), low=6, high=14, unit="times"
    ),
    "not_cell_noise": FaultKind(
        rate=3.0,
        assets=_CELL,
        creep=(0, 0),
        lasts=(20, 60),
        low=2.5,
        high=8,
        unit="points of fails that no sensor explains",
    ),
    "not_cell_service": FaultKind(rate=2.0, assets=_CELL, creep=(0, 0), lasts=(25, 60)),
    "not_lean_empties": FaultKind(
        rate=2.0,
        assets={"ZN": 1.0},
        creep=(0, 0),
        lasts=(40, 90),
        low=0.8,
        high=0.95,
        unit="share of the supply of empties lost",
    ),
}


def magnitude(episode: Episode) -> float:
    """The full level of an episode, in the unit of its kind."""
    kind = KINDS.get(episode.fault)
    return 1.0 if kind is None else kind.low + (kind.high - kind.low) * episode.severity


def level(episode: Episode, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """How bad it is at these instants, in the unit of its kind; 0 outside of [onset, end).

    It creeps from nothing at the onset to where it matters at the start, and then to its full
    level within a fifth of what remains. Supplies and trailers fail at once, at the onset.
    """
    full = magnitude(episode)
    inside = (at >= episode.onset) & (at < episode.end)
    if episode.onset == episode.start or episode.fault in {"container_short", "trailer_absent"}:
        return np.where(inside, full, 0.0)
    kind = KINDS[episode.fault]
    first = min(kind.matters, 0.85 * full)
    knees = (episode.onset, episode.start, episode.start + (episode.end - episode.start) // 5)
    return np.where(inside, np.interp(at, knees, (0.0, first, full)), 0.0)


def _thousandths(episode: Episode) -> int:
    """The last digits of the severity choose among likes: an episode's number is of no use there,
    for it hangs on the other sites."""
    return round(1000 * episode.severity)


def area_of(episode: Episode) -> str:
    """The outbound area that a `labor_short` thins."""
    return OUTBOUND_AREAS[_thousandths(episode) % len(OUTBOUND_AREAS)]


def gap_group(episode: Episode) -> int:
    """Which of SILENT_GROUPS a `telemetry_gap` silences."""
    return _thousandths(episode) % len(SILENT_GROUPS)
