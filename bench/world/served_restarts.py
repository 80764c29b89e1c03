"""Where counters begin again from 0, so that nothing is lost by it.

A reader sees valid samples only. A drop between two of them is a wrap to it when the step modulo
65,536 is at most 2,000, else a restart, and then the step is the new value. So a counter restarts
right behind a valid sample, and only where the next one is lower and is not taken for a wrap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MODULUS = 65_536
MAX_STEP = 2_000
NEVER = 9999
"""A value that readers drop: a counter restarts before it would show it."""
SEARCHED = 240  # valid samples from the wanted one on, in which a restart has to fit

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """`numbers` are sample numbers: the restart is right behind that sample. `bases` has one more
    entry: what was counted in all, from the world's start, when the count began."""

    numbers: Numbers
    bases: Numbers


class RestartPlan:
    """`numbers` are the valid samples' numbers and `totals` what was counted up to each, from the
    world's start; `initial` is the counter's value at that start.

    Raises ValueError, from `made`, for totals that no restart can serve: a hole in a wrapping
    counter behind which more than half of the modulus was counted.
    """

    def __init__(self, numbers: Numbers, totals: Numbers, *, initial: int, wraps: bool) -> None:
        self._numbers = numbers
        self._totals = totals
        self._wraps = wraps
        self._base = -initial
        self._next = 0  # index of the first sample that the present count may still end behind
        self._bases = [self._base]
        self._behind: list[int] = []
        steps = np.diff(totals)
        self._holes = np.flatnonzero(steps > MAX_STEP).tolist() if wraps else []

    def made(self, wanted: Iterable[int]) -> Restarts:
        """Restarts at or soon behind the `wanted` sample numbers (ascending), and where they must
        be. One that fits nowhere near is left out."""
        last = len(self._numbers) - 1  # behind it, nobody would see it
        for number in wanted:
            index = int(self._numbers.searchsorted(number))
            limit = min(index + SEARCHED, last)
            self._settle(min(index, last))
            place = max(index, self._next)
            while place < limit:
                base = self._base
                if self._fits(place):
                    self._settle(place)
                    if self._base == base:
                        self._restart(place)
                        break
                    place = max(place, self._next)  # the value is another now: look again
                else:
                    place += 1
        self._settle(last)
        return Restarts(
            numbers=self._numbers[np.array(self._behind, dtype=np.int64)],
            bases=np.array(self._bases, dtype=np.int64),
        )

    def _settle(self, until: int) -> None:
        """Restarts that are needed up to and with the sample at index `until`."""
        while True:
            shown = self._shown(until)
            hole = self._torn(until)
            if shown is None and hole is None:
                return
            if hole is not None and (shown is None or hole < shown):
                self._need(hole, hole)
            elif shown is not None:
                self._need(shown - 1, self._next)

    def _need(self, last: int, first: int) -> None:
        for place in range(last, first - 1, -1):
            if self._fits(place):
                self._restart(place)
                return
        raise ValueError(
            f"no restart fits before sample {self._numbers[last + 1]}:"
            f" {self._totals[last + 1] - self._totals[last]} were counted since the one before"
        )

    def _fits(self, index: int) -> bool:
        before = self._value(index)
        after = int(self._totals[index + 1] - self._totals[index])
        if after == NEVER or (self._wraps and after >= MODULUS):
            return False
        if before == 0:
            return True  # as if nothing had been
        return after < before and (after - before) % MODULUS > MAX_STEP

    def _restart(self, index: int) -> None:
        self._base = int(self._totals[index])
        self._bases.append(self._base)
        self._behind.append(index)
        self._next = index + 1

    def _value(self, index: int) -> int:
        value = int(self._totals[index]) - self._base
        return value % MODULUS if self._wraps else value

    def _shown(self, until: int) -> int | None:
        """Index of the first sample up to `until` that would show NEVER."""
        if self._next > until:
            return None
        part = self._totals[self._next : until + 1]
        level = self._base + NEVER
        highest = int(part[-1])
        if self._wraps and level < part[0]:
            level += -(-(int(part[0]) - level) // MODULUS) * MODULUS
        while level <= highest:
            found = int(part.searchsorted(level))
            if part[found] == level:
                return self._next + found
            if not self._wraps:
                return None
            level += MODULUS
        return None

    def _torn(self, until: int) -> int | None:
        """Index of the first sample before a hole up to `until` that the counter wraps in."""
        for hole in self._holes[bisect_left(self._holes, self._next) :]:
            if hole + 1 > until:
                return None
            if self._value(hole) + int(self._totals[hole + 1] - self._totals[hole]) >= MODULUS:
                return int(hole)
        return None
