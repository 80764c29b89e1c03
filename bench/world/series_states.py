"""The runs of what is 0 or 1: eyes, second by second, and full chutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Changes, Times
from bench.world.minutes import EyeMode
from bench.world.series_block import Flags, Floats
from bench.world.series_hash import Hashes, other_unit, unit

MINUTE = 60  # seconds
SLOTS = 6  # runs of a minute at most
LEAST_BLOCKED, MOST_BLOCKED, PER_PARCEL = 0.05, 0.4, 0.01  # share of a minute with clear flow

EACH_SAMPLE = 6  # parcels a minute: at least one a sample of ten seconds
CREEPING = 2  # parcels a minute below which a queue stands

Seconds = NDArray[np.int64]
Silence = tuple[int, int]
"""Nothing is written in (first, second]."""


def eye_runs(
    modes: NDArray[np.uint8],
    counts: NDArray[np.uint16],
    following: NDArray[np.uint16],
    numbers: Hashes,
) -> Changes:
    """Changes of one eye over whole minutes, in seconds from their start.

    `counts` are its own, `following` those of the next eye, `numbers` are [minute, SLOTS]. The
    level before is taken for 0, the level behind is left as it is.
    """
    one, other = unit(numbers), other_unit(numbers)
    share = np.minimum(LEAST_BLOCKED + PER_PARCEL * counts.astype(np.float64), MOST_BLOCKED)
    share[counts == 0] = 0.0
    # At most 4 of the 10 seconds of a slot, and at least one free on either side.
    lengths = (share[:, np.newaxis] * 10.0 + one * (counts > 0)[:, np.newaxis]).astype(np.int64)
    starts = 10 * np.arange(SLOTS) + 1 + (other * (9 - lengths)).astype(np.int64)
    if modes.any():
        _dense(modes == EyeMode.DENSE, one, other, starts, lengths)
        _queued(modes == EyeMode.QUEUED, following, one, other, starts, lengths)
        _dirty(modes == EyeMode.DIRTY, one, starts, lengths)
        jammed = modes == EyeMode.JAM
        starts[jammed, 0] = 0
        lengths[jammed] = (MINUTE, 0, 0, 0, 0, 0)
    return _joined(starts, lengths)


def _dense(chosen: Flags, one: Floats, other: Floats, starts: Seconds, lengths: Seconds) -> None:
    """Three runs of 8 to 15 seconds, a second or more between them."""
    if not chosen.any():
        return
    long = 8 + (one[chosen, :3] * 8).astype(np.int64)
    spare = MINUTE - 4 - long.sum(axis=1, keepdims=True)
    moved = (np.sort(other[chosen, :3], axis=1) * spare).astype(np.int64)
    starts[chosen, :3] = 1 + np.arange(3) + long.cumsum(axis=1) - long + moved
    lengths[chosen, :3] = long
    lengths[chosen, 3:] = 0


def _queued(
    chosen: Flags,
    following: NDArray[np.uint16],
    one: Floats,
    other: Floats,
    starts: Seconds,
    lengths: Seconds,
) -> None:
    """A run of 20 to 50 seconds. While the next eye counts few, it is a long one, in which at
    least one of them is seen to be counted; while it counts none to speak of, a gap stands before
    this one: what is still would be a jam."""
    if not chosen.any():
        return
    passing = following[chosen]
    creeping = passing < EACH_SAMPLE
    long = np.where(creeping, 48, 20) + (one[chosen, 0] * np.where(creeping, 3, 31)).astype(
        np.int64
    )
    long[passing < CREEPING] = 0
    first = np.where(creeping, 2, 1)
    starts[chosen, 0] = first + (other[chosen, 0] * (MINUTE - first - long)).astype(np.int64)
    lengths[chosen] = 0
    lengths[chosen, 0] = long


def _dirty(chosen: Flags, one: Floats, starts: Seconds, lengths: Seconds) -> None:
    """Blocked but for three gaps of a second: 95 %."""
    if not chosen.any():
        return
    gaps = 20 * np.arange(3) + 2 + (one[chosen, :3] * 16).astype(np.int64)
    edge = np.zeros((len(gaps), 1), dtype=np.int64)
    begins = np.concatenate([edge, gaps + 1], axis=1)
    ends = np.concatenate([gaps, edge + MINUTE], axis=1)
    starts[chosen, :4] = begins
    lengths[chosen, :4] = ends - begins
    lengths[chosen, 4:] = 0


def full_runs(shares: NDArray[np.float32], numbers: Hashes) -> Changes:
    """Changes of one chute over whole minutes, in seconds from their start: in each minute one
    run of its share in whole seconds, joined to a minute beside it that is full throughout.
    `numbers` are [minute]."""
    lengths = np.rint(shares.astype(np.float64) * MINUTE).astype(np.int64)
    room = np.maximum(MINUTE - 1 - lengths, 0)
    starts = np.minimum(1, room) + (unit(numbers) * room).astype(np.int64)
    full = lengths == MINUTE
    before, behind = np.zeros_like(full), np.zeros_like(full)
    before[1:], behind[:-1] = full[:-1], full[1:]
    starts = np.where(behind, MINUTE - lengths, starts)
    starts[before] = 0
    return _joined(starts[:, np.newaxis], lengths[:, np.newaxis])


def _joined(starts: Seconds, lengths: Seconds) -> Changes:
    """Runs [minute, slot], seconds of the minute, as changes; those that touch become one."""
    there = lengths > 0
    starts = starts + MINUTE * np.arange(len(starts))[:, np.newaxis]
    begins = starts[there]
    ends = begins + lengths[there]
    apart = begins[1:] != ends[:-1]
    count = len(begins)
    if not apart.all():
        begins = begins[np.concatenate([[True], apart])]
        ends = ends[np.concatenate([apart, [True]])]
        count = len(begins)
    times = np.empty(2 * count, dtype=np.int64)
    times[0::2], times[1::2] = begins, ends
    values = np.zeros(2 * count, dtype=np.int8)
    values[0::2] = 1
    return Changes(times, values)


def within(changes: Changes, start: int, end: int) -> Changes:
    first, last = changes.times.searchsorted([start, end], side="right")
    return Changes(changes.times[first:last], changes.values[first:last])


def level_of(changes: Changes, at: int) -> int:
    """The state at an instant; 0 before the first change."""
    behind = int(changes.times.searchsorted(at, side="right"))
    return int(changes.values[behind - 1]) if behind else 0


def written(
    raw: Changes, silences: Sequence[Silence], level: Callable[[int], int], until: int
) -> Changes:
    """What of the changes an exporter wrote that compares the state with the last it wrote.

    In a silence it writes nothing. In the first second behind it, it writes the state if that is
    another than before the silence; what happened and went by in between is lost. `until` is when
    the world ends.
    """
    if not silences:
        return raw
    bounds = np.array(silences, dtype=np.int64)
    latest = bounds[:, 0].searchsorted(raw.times) - 1  # that began before the change
    keep = (latest < 0) | (raw.times > bounds[latest, 1] + 1)
    late: list[tuple[int, int]] = []
    for begin, end in silences:
        if end < until and (now := level(end + 1)) != level(begin):
            late.append((end + 1, now))
    times: Times = np.concatenate([raw.times[keep], [time for time, _ in late]]).astype(np.int64)
    values = np.concatenate([raw.values[keep], [value for _, value in late]]).astype(np.int8)
    order = np.argsort(times, kind="stable")
    return Changes(times[order], values[order])


def repeated(changes: Changes, raw: Changes, times: Times) -> Changes:
    """With the state written at `times` too, but for those at which it is anyway."""
    times = times[~np.isin(times, changes.times)]
    places = raw.times.searchsorted(times, side="right")
    levels = np.concatenate([[0], raw.values])[places].astype(np.int8)
    together = np.concatenate([changes.times, times])
    order = np.argsort(together)
    return Changes(together[order], np.concatenate([changes.values, levels])[order])


def silences(silent: Flags, start: int) -> tuple[Silence, ...]:
    """Stretches of silent minutes, the first of which begins at `start`, in seconds."""
    edges = np.flatnonzero(np.diff(silent.astype(np.int8), prepend=0, append=0))
    bounds = (start + MINUTE * edges).tolist()
    return tuple(zip(bounds[0::2], bounds[1::2], strict=True))
