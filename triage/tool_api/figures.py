"""Figures of samples: what grew, how long it was so, where the middle lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import fsum, isfinite, nan
from typing import NamedTuple

from triage.model.query import Series
from triage.tool_api.context import Context

LEAST_POINTS = 3  # two always lie on a line


def valid(values: Iterable[float], *, sentinels: Sequence[float] = ()) -> tuple[float, ...]:
    """The values that are finite and none of `sentinels`, which some systems write for null."""
    return tuple(value for value in values if isfinite(value) and value not in sentinels)


def increase(series: Series, *, modulus: float = 0, max_step: float = 0) -> float:
    """What a counter grew by between its first and last sample; a drop is a restart from 0.

    A counter of `modulus` starts again there by itself: a drop is taken for that when the step
    across it would be at most `max_step`, else for a restart. Unlike PromQL's `increase` nothing
    is extrapolated to the window's edges. NaN with fewer than two samples.
    """
    values = series.values
    if len(values) <= 1:
        return nan
    steps = []
    for before, after in pairwise(values):
        if after >= before:
            steps.append(after - before)
        elif 0 <= (wrapped := after + modulus - before) <= max_step:
            steps.append(wrapped)
        else:
            steps.append(after)
    return fsum(steps)


class Held(NamedTuple):
    """A state that held from `start` to `end`, seconds since the epoch."""

    start: float
    end: float
    value: float


def held(series: Series, start: datetime, end: datetime, *, carry_s: float) -> tuple[Held, ...]:
    """What a state was within (start, end], from samples at its changes, in order.

    A change holds until the next one or `end`. The last change at or before `start` speaks for
    the time from there when it is at most `carry_s` older; before the first known change nothing
    is held: no sample does not mean 0. Neighbours of one value are one.
    """
    begins, ends = start.timestamp(), end.timestamp()
    found: list[Held] = []
    for index, (at, value) in enumerate(zip(series.times, series.values, strict=True)):
        until = series.times[index + 1] if index + 1 < len(series.times) else ends
        if at > ends or until <= begins or at < begins - carry_s:
            continue
        if found and found[-1].end == max(at, begins) and found[-1].value == value:
            found[-1] = Held(found[-1].start, min(until, ends), value)
        elif min(until, ends) > max(at, begins):
            found.append(Held(max(at, begins), min(until, ends), value))
    return tuple(found)


def same_time_weeks_before(context: Context, moment: datetime, weeks: int) -> tuple[datetime, ...]:
    """The moments 1 to `weeks` weeks ago at which the site's clocks showed what they show at
    `moment`: shifts keep to clocks, also across a change of daylight saving."""
    shown = context.wall_clock(moment)
    return tuple(
        context.localise((shown - timedelta(weeks=week)).replace(fold=0).isoformat())
        for week in range(1, weeks + 1)
    )


def span_s(series: Series) -> float:
    """Seconds from the first sample to the last, 0 with fewer than two: how much of a window was
    really seen. A series that covers half a window must not speak for all of it."""
    return series.times[-1] - series.times[0] if series.times else 0.0


class Trend(NamedTuple):
    """`per_s` is growth per second; `r2`, 0 to 1, is the share of the variance it explains."""

    per_s: float
    r2: float


def trend(series: Series) -> Trend:
    """The least-squares line through the finite samples.

    Both figures are 0 with fewer than three of them, when all are of one instant, and when all
    have one value.
    """
    points = [(t, v) for t, v in zip(series.times, series.values, strict=True) if isfinite(v)]
    if len(points) < LEAST_POINTS:
        return Trend(0.0, 0.0)
    middle_t = fsum(t for t, _ in points) / len(points)
    middle_v = fsum(v for _, v in points) / len(points)
    tt = fsum((t - middle_t) ** 2 for t, _ in points)
    vv = fsum((v - middle_v) ** 2 for _, v in points)
    tv = fsum((t - middle_t) * (v - middle_v) for t, v in points)
    if tt <= 0 or vv <= 0:
        return Trend(0.0, 0.0)
    # Not tv² / (tt·vv): of differences near the smallest float either product is rounding alone.
    explained = (tv / tt) * (tv / vv)
    return Trend(tv / tt, min(explained, 1.0) if isfinite(explained) else 0.0)


def mean(values: Sequence[float]) -> float:
    """Mean of the finite values; NaN when there is none."""
    finite = [value for value in values if isfinite(value)]
    return fsum(finite) / len(finite) if finite else nan


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of the finite values, q in [0, 1], NaN when there is none.

    Interpolated linearly between the two values around rank q * (n - 1), as PromQL and numpy do
    by default (R's type 7). Raises ValueError for another q.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"{q!r} is no quantile: it must be in [0, 1]")
    ordered = sorted(value for value in values if isfinite(value))
    if not ordered:
        return nan
    rank = q * (len(ordered) - 1)
    below = int(rank)
    if below + 1 >= len(ordered) or rank == below:
        return ordered[below]
    lower, upper = ordered[below], ordered[below + 1]
    # Rounding must not carry it past the upper one.
    return min(upper, lower + (upper - lower) * (rank - below))


def median(values: Sequence[float]) -> float:
    """The middle of the finite values, the mean of the two middle ones; NaN when there is none."""
    return quantile(values, 0.5)


def last(series: Series) -> float:
    """The newest value, NaN when the series is empty."""
    return series.values[-1] if series.values else nan
