"""The figures that the rules are made of. None stands for unknown everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import floor, fsum
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Changes, Times, Values, Window

LEAST_SAMPLES = 2  # of a counter: an increase lies between two
WEEKS = (1, 2, 3, 4)


def mean(values: Iterable[float]) -> float | None:
    listed = [float(value) for value in values]
    return fsum(listed) / len(listed) if listed else None


def quantile(values: Iterable[float], q: float) -> float | None:
    """Interpolates linearly: rank q*(n-1), `low + (high - low) * fraction`."""
    ordered = sorted(float(value) for value in values)
    if not ordered:
        return None
    rank = q * (len(ordered) - 1)
    below = floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def median(values: Iterable[float]) -> float | None:
    return quantile(values, 0.5)


def percent(part: float, whole: float) -> float | None:
    """100*part/whole, rounded once; None of nothing."""
    return 100 * part / whole if whole > 0 else None


def covered(samples: int, grain_s: int, window_s: int, min_coverage: float) -> bool:
    return samples * grain_s / window_s >= min_coverage


def valid(window: Window) -> Values:
    return window.values[window.valid]


def increase(window: Window) -> int | None:
    """What was counted between the first and the last valid sample."""
    there = np.flatnonzero(window.valid)
    if len(there) < LEAST_SAMPLES:
        return None
    return round(float(window.values[there[0] + 1 : there[-1] + 1].sum()))


def runs_of_one(changes: Changes, start: int, end: int) -> tuple[Times, Times]:
    """From when to when the state was 1, clipped to (start, end]; a run still on ends at `end`."""
    turns = np.ones(len(changes.values), np.bool_)
    turns[1:] = changes.values[1:] != changes.values[:-1]
    times, values = changes.times[turns], changes.values[turns]
    from_ = np.maximum(times, start)
    to = np.minimum(np.append(times[1:], end), end)
    ones = (values == 1) & (to > from_)
    return from_[ones], to[ones]


def known_from(changes: Changes, start: int, end: int) -> int:
    """From when in (start, end] the state is known; `end` when never."""
    return min(max(int(changes.times[0]), start), end) if len(changes.times) else end


def share_of_one(changes: Changes, start: int, end: int, min_coverage: float) -> float | None:
    """Percent of the known seconds of (start, end] in state 1. `changes` reach back before
    `start` as far as a state is carried."""
    known = end - known_from(changes, start, end)
    if known == 0 or known / (end - start) < min_coverage:
        return None
    from_, to = runs_of_one(changes, start, end)
    return percent(int((to - from_).sum()), known)


def baseline_times(t: int, zone: ZoneInfo) -> list[int]:
    """The same wall-clock time one to four weeks before."""
    wall = datetime.fromtimestamp(t, zone).replace(tzinfo=None, fold=0)
    return [
        round((wall - timedelta(weeks=weeks)).replace(tzinfo=zone).timestamp()) for weeks in WEEKS
    ]


def baseline(figures: Sequence[float | None], min_weeks: int) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if len(known) >= min_weeks else None


def lowest_of_greatest(figures: NDArray[np.float64] | Sequence[float]) -> int:
    """Index of the greatest; of several, the first."""
    return int(np.argmax(np.asarray(figures)))
