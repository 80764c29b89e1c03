"""One site of `Minutes`, as the tables are made from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.canonical import SiteFacts, Times
from bench.world.chance import stream
from bench.world.layout import SITES
from bench.world.minutes import Episode, Minutes

Columns = dict[str, NDArray[Any]]

MINUTE_S = 60
SLOT_S = 900  # of plans
SNAPSHOT_S = 300


class Floor:
    def __init__(self, minutes: Minutes, seed: int, site: int) -> None:
        self.minutes = minutes
        self.seed = seed
        self.site = site
        self.facts: SiteFacts = SITES[site].facts
        self.volume = SITES[site].volume
        self.start = minutes.start
        self.end = minutes.start + MINUTE_S * minutes.minutes

    def key(self, *parts: int | str) -> int:
        """Of the draws of one thing at this site."""
        return stream(self.seed, self.site, "floor", *parts)

    def text(self, value: str, rows: int) -> NDArray[np.str_]:
        """A column of one value, which takes no memory."""
        return np.broadcast_to(np.array(value), rows)

    def named(self, rows: int) -> NDArray[np.str_]:
        return self.text(self.facts.name, rows)

    def grid(self, step_s: int) -> Times:
        """Multiples of `step_s` since the epoch in (start, end]."""
        first = self.start // step_s + 1
        return np.arange(first, self.end // step_s + 1, dtype=np.int64) * step_s

    def minute_of(self, times: Times) -> NDArray[np.int64]:
        """The minutes that hold the instants; the nearest one for those outside."""
        index: NDArray[np.int64] = (times - self.start - 1) // MINUTE_S
        return np.clip(index, 0, self.minutes.minutes - 1)

    def written(self, times: Times) -> NDArray[np.bool_]:
        """Whether the warehouse wrote rows then."""
        silent: NDArray[np.bool_] = self.minutes.warehouse_silent[self.site]
        written: NDArray[np.bool_] = ~silent[self.minute_of(times)]
        return written

    def summed(self, counts: NDArray[Any], times: Times, span_s: int) -> NDArray[np.int64]:
        """Sums of `counts`, [minute] or [minute, asset], over (time - span, time]; what lies
        before the world counts zero."""
        total = np.zeros((len(counts) + 1, *counts.shape[1:]), dtype=np.int64)
        np.cumsum(counts, axis=0, out=total[1:])
        behind = np.clip((times - self.start) // MINUTE_S, 0, len(counts))
        first = np.clip((times - span_s - self.start) // MINUTE_S, 0, len(counts))
        sums: NDArray[np.int64] = total[behind] - total[first]
        return sums

    def episodes(self, *faults: str) -> list[Episode]:
        """This site's, of any of `faults`, or all of them; in the world's order."""
        return [
            episode
            for episode in self.minutes.episodes
            if episode.site == self.site and (not faults or episode.fault in faults)
        ]

    def kept(self, columns: Columns, at: str) -> Columns:
        """Without the rows of silent minutes."""
        mask = self.written(columns[at])
        if mask.all():
            return columns
        return {name: values[mask] for name, values in columns.items()}


def ascending(columns: Columns, at: str) -> Columns:
    """Rows by `at`; those of one instant keep their order."""
    order = np.argsort(columns[at], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def integers(values: Any) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def texts(values: Any) -> NDArray[np.str_]:
    """Text column of at least one character's width."""
    return np.asarray(values, dtype=np.str_)
