"""What kinds of parcels come: `item_mix`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Times
from bench.world.chance import uniform, uniforms
from bench.world.fault_kinds import level
from bench.world.floor import SNAPSHOT_S, Columns, Floor, integers
from bench.world.local_time import HOUR_S, wall
from bench.world.tables_flow import apportioned, by_batch

CLASSES = ("box", "flat", "polybag", "irregular", "unknown")
WEEK_H = 168
NEAR = 0.06  # of the hours lie up to ten points above the usual
UNSEEN = 0.03  # of the hours have a camera that knows no classes
HALF_SEEN = 0.01  # of the hours come near to that

Shares = NDArray[np.float64]


def item_mix(floor: Floor) -> Columns:
    at = floor.grid(SNAPSHOT_S)
    total = floor.summed(floor.minutes.arrivals[floor.site], at, SNAPSHOT_S)
    parcels = apportioned(floor, "mix", total, _shares(floor, at))
    return by_batch(floor, at, "class", CLASSES, "parcels", parcels)


def _shares(floor: Floor, at: Times) -> Shares:
    unknown, hard = _unknown(floor, at), _hard(floor, at)
    known = np.stack((0.74 * (1 - hard), 0.26 * (1 - hard), 0.72 * hard, 0.28 * hard), axis=1)
    return np.concatenate((known * (1 - unknown)[:, None], unknown[:, None]), axis=1)


def _unknown(floor: Floor, at: Times) -> NDArray[np.float64]:
    """The share of parcels without a class."""
    hour = (at - 1) // HOUR_S
    kind, size = uniforms(floor.key("unknown"), hour), uniforms(floor.key("unknown", "by"), hour)
    share: NDArray[np.float64] = np.select(
        (kind < UNSEEN, kind < UNSEEN + HALF_SEEN),
        (0.32 + 0.2 * size, 0.22 + 0.1 * size),
        0.02 + 0.06 * size,
    )
    return share


def _hard(floor: Floor, at: Times) -> NDArray[np.float64]:
    """Polybags and irregular ones as a share of what has a class."""
    hour = (at - 1) // HOUR_S
    # The week repeats by the wall clock, as baselines read it.
    weekly = wall(at - 1, floor.facts.zone).seconds // HOUR_S % WEEK_H
    share = 0.20 + 0.06 * uniform(floor.key("hard"))
    usual = share + 0.05 * (uniforms(floor.key("hard", "weekly"), weekly) - 0.5)
    usual += 0.02 * (uniforms(floor.key("hard", "noise"), integers(at // SNAPSHOT_S)) - 0.5)
    near = uniforms(floor.key("hard", "near"), hour) < NEAR
    usual += near * (0.045 + 0.05 * uniforms(floor.key("hard", "near by"), hour))
    for episode in floor.episodes("item_mix_hard"):
        usual += level(episode, at) / 100
    return usual
