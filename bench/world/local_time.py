"""Instants as the warehouse writes them: UTC text, or the wall clock's text and its fold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import Times

HOUR_S = 3600
DAY_S = 86_400
NULL = -1


class Wall(NamedTuple):
    """`seconds` are what the wall clock shows, as if it were UTC; `folds` are 0 or 1."""

    seconds: Times
    folds: NDArray[np.int64]


def wall(times: Times, zone: str) -> Wall:
    """Of instants in seconds since the epoch, none of them null."""
    if not len(times):
        return Wall(times, np.zeros(0, dtype=np.int64))
    clock = ZoneInfo(zone)
    first = int(times.min()) - DAY_S
    offset = _offset(clock, first)
    changes, offsets, folds = [], [offset], np.zeros(len(times), dtype=np.int64)
    for at, after in _changes(clock, first, int(times.max())):
        folds[(times >= at) & (times < at + offset - after)] = 1
        changes.append(at)
        offsets.append(after)
        offset = after
    index = np.searchsorted(np.array(changes, dtype=np.int64), times, side="right")
    return Wall(times + np.array(offsets, dtype=np.int64)[index], folds)


def _changes(clock: ZoneInfo, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Instants in (start, end] at which the offset changes, and the one from then on."""
    before, offset = start, _offset(clock, start)
    while before < end:
        behind = min(before + HOUR_S, end)
        if _offset(clock, behind) != offset:
            low, high = before, behind
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(clock, middle) == offset else (low, middle)
            offset = _offset(clock, high)
            yield high, offset
        before = behind


def _offset(clock: ZoneInfo, at: int) -> int:
    moment = dt.datetime.fromtimestamp(at, clock).utcoffset()
    assert moment is not None
    return int(moment.total_seconds())


def utc_text(times: Times) -> list[str | None]:
    """`2026-11-02T07:45:00Z`; None for null."""
    return _texts(times, times, separator="T", suffix="Z")


def local_text(times: Times, zone: str) -> tuple[list[str | None], list[int | None]]:
    """`2026-11-02 08:45:00` and the fold; None and None for null."""
    known = times != NULL
    shown, folds = np.full(len(times), NULL), np.full(len(times), NULL)
    shown[known], folds[known] = wall(times[known], zone)
    texts = _texts(times, shown, separator=" ", suffix="")
    return texts, [None if fold == NULL else fold for fold in folds.tolist()]


def _texts(times: Times, shown: Times, *, separator: str, suffix: str) -> list[str | None]:
    if not len(times):
        return []
    # Rows of one instant stand together: each text is made once, and is one object.
    first = np.ones(len(times), dtype=bool)
    first[1:] = shown[1:] != shown[:-1]
    texts = [
        None if shown_at == NULL else f"{text[:10]}{separator}{text[11:]}{suffix}"
        for shown_at, text in zip(
            shown[first].tolist(),
            np.datetime_as_string(shown[first].astype("datetime64[s]")).tolist(),
            strict=True,
        )
    ]
    return [texts[index] for index in (np.cumsum(first) - 1).tolist()]
