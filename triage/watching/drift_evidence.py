"""Evidence that what comes now is no longer what came before, gathered one evaluation at a time.

Everything here is an *e-detector* (Shin, Ramdas, Rinaldo, "E-detectors: a nonparametric framework
for sequential change detection", 2023): e-values E with a mean of at most 1 while nothing has
changed are multiplied up, M = max(1, M) * E, and M >= c is an alarm. While nothing changes, the
mean number of steps to a false alarm is at least c, whatever the distribution (theorem 2.4 there,
with Shiryaev-Roberts' sum, which this maximum is never above). Mixtures of e-detectors are
e-detectors, and so is one whose e-values are raised to a power w of [0, 1] (Jensen): an evaluation
that comes soon after another sees much of the same, and counts for that much less.

The bound is per monitor and step, for values that could have come in any order. Values of alerts
are not quite that (nights, weekends, faults that last): `drift` therefore asks for an effect as
well, and the false alarms that are left are measured by `python -m bench drift`.

State is a few numbers a monitor, however long it runs. All of it is JSON, and numbers are rounded
when they come, so that what was stored and loaded goes on exactly as what was not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, lgamma, log, sqrt
from typing import Any, Self

ALARM = log(1e6)
"""Log of c above."""
MOST = ALARM + 4.0
"""More is not kept: what was long so must be able to end."""

LEAST = 24
"""Observations that a monitor learns from before it speaks: its warm-up, with LAG more."""

LEAST_S = 7 * 86_400.0
"""A weekend is no change. With three days a figure was named that only had its first one: 16 false
alarms in 137,185 evaluations of 13 worlds, and 6 with a week."""

KEPT = 64
"""Past observations that a reference holds: from the first, in equal shares of the past but for
what is older than some MEMORY."""
LAG = 12
"""The newest observations are not yet part of what they are compared with: a change must not make
itself usual before it is seen. They count whole, also those of a storm, which as evidence count
little, so a small change that a storm falls into may yet become usual. Counted by weight, two more
of them were named in time, and what grows slowly was named too: three false alarms in a world of
10,719 evaluations that had none."""
MEMORY = 1024

BEYOND = 0.6
"""The bet on a value beyond all that the reference holds."""
FAR = 5.0
"""Log of the most that such a bet is raised by for how far beyond it is."""
POWER = 0.35
"""The exponent of the bet on merely unusual ones: E = POWER * p ** (POWER - 1), the power
calibrator (Vovk, Wang, "E-values: calibration, combination and applications", 2021)."""

LEAST_RISE = 0.2
"""Of a share: less is no trouble, however certain."""
USUAL_AFTER = 400
"""Observations after which what holds is what is usual, and is learned anew."""

STAKES = (0.5, 0.95)
"""Where a share is bet to have gone to, of the way from its upper limit to 1."""
LEAST_LIMIT = 0.05
"""What was never so for long may still be so once for some hours: a fault that is seldom."""
LIMIT_Z = 2.0
"""Of the upper confidence limit of a share: Wilson's, one side, 97.7 %."""


class Gathering:
    """One e-detector that mixes two: `logs` are log M of each, `runs` how many observations each
    has its evidence from."""

    __slots__ = ("logs", "runs")

    def __init__(self, logs: Sequence[float] = (0.0, 0.0), runs: Sequence[int] = (0, 0)) -> None:
        self.logs = [float(one) for one in logs]
        self.runs = list(runs)

    def bet(self, values: Sequence[float], weight: float) -> None:
        """`values` are log E of the two; `weight` is in [0, 1]."""
        for place, value in enumerate(values):
            grown = max(0.0, self.logs[place]) + weight * value
            self.logs[place] = round(min(MOST, grown), 4)
            self.runs[place] = self.runs[place] + 1 if grown > 0 else 0

    @property
    def run(self) -> int:
        """Of the one with more evidence; 1 at least."""
        return max(1, self.runs[0] if self.logs[0] >= self.logs[1] else self.runs[1])

    @property
    def log_evidence(self) -> float:
        first, second = self.logs
        top = max(first, second)
        return top + log((exp(first - top) + exp(second - top)) / 2)

    @property
    def alarms(self) -> bool:
        return self.log_evidence >= ALARM

    def document(self) -> list[Any]:
        return [*self.logs, *self.runs]

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        first, second, *runs = document
        return cls((first, second), runs)


class Reference:
    """What an observation is compared with: up to KEPT of those that are more than LAG old.

    It is ready when it holds LEAST, and has been taught for LEAST_S: a few days and nights are not
    yet all that is usual.
    """

    __slots__ = ("_since", "_taken", "_until", "kept", "newest")

    def __init__(
        self,
        kept: Sequence[float] = (),
        newest: Sequence[float] = (),
        taken: int = 0,
        *,
        since: float = inf,
        until: float = -inf,
    ) -> None:
        """`since` and `until` are seconds since the epoch, of all that it was taught."""
        self._since, self._until = since, until
        self.kept = list(kept)
        self.newest = list(newest)
        """The last LAG at most, oldest first."""
        self._taken = taken

    @property
    def ready(self) -> bool:
        return len(self.kept) >= LEAST and self._until - self._since >= LEAST_S

    def learn(self, value: float, at: float) -> None:
        """`value` becomes part of the past once LAG more have come. `at` is seconds since the
        epoch."""
        self._since, self._until = min(at, self._since), max(at, self._until)
        self.newest.append(value)
        if len(self.newest) > LAG:
            self._keep(self.newest.pop(0))

    def look(self, value: float) -> None:
        """`value` is only remembered as one of the newest."""
        self.newest = [*self.newest, value][-LAG:]

    def keep(self, values: Sequence[float]) -> None:
        """They become part of the past at once, in the place of others."""
        for value in values:
            self._taken += 1
            self.kept[int(_chance(self._taken) * len(self.kept))] = value

    def forget(self) -> None:
        """Start anew."""
        self.kept, self.newest, self._taken = [], [], 0
        self._since, self._until = inf, -inf

    def _keep(self, value: float) -> None:
        """Reservoir sampling (Vitter's algorithm R), with chance from the count, so that the same
        observations always leave the same reference."""
        self._taken += 1
        if len(self.kept) < KEPT:
            self.kept.append(value)
            return
        place = int(_chance(self._taken) * min(self._taken, MEMORY))
        if place < KEPT:
            self.kept[place] = value

    def ranks(self, value: float) -> tuple[int, int]:
        """How many of the reference are at least, and at most, `value`."""
        return (
            sum(1 for one in self.kept if one >= value),
            sum(1 for one in self.kept if one <= value),
        )

    def ranges_beyond(self, value: float, least: float) -> float:
        """How far `value` is outside of the reference, in the width of its range or in `least`; 0
        within it."""
        low, high = min(self.kept), max(self.kept)
        return max(0.0, value - high, low - value) / max(least, high - low)

    def middle(self) -> float:
        return median(self.kept)

    def scale(self, least: float) -> float:
        """A robust standard deviation: 1.4826 median absolute deviations, at least `least`."""
        middle = self.middle()
        return max(least, 1.4826 * median([abs(one - middle) for one in self.kept]))

    def document(self) -> list[Any]:
        times = [self._since, self._until] if self._taken or self.newest else [None, None]
        return [self.kept, self.newest, self._taken, *times]

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        kept, newest, taken, since, until = document
        return cls(
            [float(one) for one in kept],
            [float(one) for one in newest],
            int(taken),
            since=inf if since is None else float(since),
            until=-inf if until is None else float(until),
        )


def _chance(count: int) -> float:
    """In [0, 1), as good as random from one to the next (Knuth's multiplicative hash)."""
    return (count * 2654435761) % 2**32 / 2**32


def rank_bets(at_least: int, kept: int, ranges: float = 0.0) -> tuple[float, float]:
    """Log E of an observation that `at_least` of `kept` past ones reach: the bet that it is beyond
    them all, and the bet that it is unusual. p = (1 + at_least) / (1 + kept) is a conformal p-value
    (Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005): ties count against
    the alarm. k new ones in a row beyond kept ones have a chance of 1 / C(kept + k, k).

    `ranges` is how far beyond them it is, in the width of their range. A bet is raised by
    exp(ranges - 1) where that is more than 1: its mean then is 1.14 at the most for tails that fall
    as an exponential of half the range, or faster, which BEYOND leaves room for."""
    share = 1 / (kept + 1)
    if at_least == 0:
        beyond = log(BEYOND / share) + min(FAR, max(0.0, ranges - 1))
    else:
        beyond = log((1 - BEYOND) / (1 - share))
    p = (1 + at_least) / (1 + kept)
    return beyond, log(POWER) + (POWER - 1) * log(p)


class Share:
    """How often something is so, and the evidence that it has become more often.

    The e-value is the likelihood ratio of a higher share to the upper confidence limit of the one
    that was learned; it is one for every share up to that limit, as the ratio falls with it (Wald,
    "Sequential analysis", 1947). `hits` of `count` are what was learned. `open` from an alarm on
    until the newest ones are as usual, or until it has been so for USUAL_AFTER.
    """

    __slots__ = ("count", "gathering", "held", "hits", "newest", "open")

    def __init__(
        self,
        hits: float = 0.0,
        count: float = 0.0,
        newest: Sequence[int] = (),
        gathering: Gathering | None = None,
        *,
        open: bool = False,  # noqa: A002 - the word for an alarm that holds
        held: int = 0,
    ) -> None:
        self.hits, self.count = hits, count
        self.newest = list(newest)
        self.gathering = gathering or Gathering()
        self.open, self.held = open, held

    @property
    def usual(self) -> float:
        return self.hits / self.count if self.count else 0.0

    @property
    def recent(self) -> float:
        """Of those that the evidence is from, or of the newest while it holds."""
        some = self.newest if self.open else self.newest[-self.gathering.run :]
        return sum(some) / len(some) if some else 0.0

    @property
    def recent_all(self) -> float:
        """Of the newest LAG at most."""
        return sum(self.newest) / len(self.newest) if self.newest else 0.0

    def see(self, hit: bool, weight: float) -> None:
        if self.count >= LEAST:
            limit = max(LEAST_LIMIT, upper_limit(self.hits, self.count))
            targets = [limit + (1 - limit) * stake for stake in STAKES]
            self.gathering.bet(
                [log(t / limit) if hit else log((1 - t) / (1 - limit)) for t in targets], weight
            )
        self.newest.append(int(hit))
        if len(self.newest) > LAG:
            oldest = self.newest.pop(0)
            if not self.open:
                self._learn(oldest)
        if self.open:
            self._may_end()
        elif self.gathering.alarms and self.recent - self.usual >= LEAST_RISE:
            self.open, self.held = True, 0

    def _learn(self, hit: int) -> None:
        self.hits += hit
        self.count += 1
        if self.count > MEMORY:
            self.hits, self.count = self.hits / 2, self.count / 2

    def _may_end(self) -> None:
        self.held += 1
        if self.held >= USUAL_AFTER:
            self.hits = self.count = 0.0
            self.newest = []
        elif self.recent > upper_limit(self.hits, self.count):
            return
        self.open, self.gathering = False, Gathering()

    def document(self) -> list[Any]:
        newest = "".join(map(str, self.newest))
        return [
            self.hits, self.count, newest, self.gathering.document(), self.open, self.held,
        ]  # fmt: skip

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        hits, count, newest, gathering, is_open, held = document
        return cls(
            float(hits),
            float(count),
            [int(one) for one in newest],
            Gathering.of(gathering),
            open=bool(is_open),
            held=int(held),
        )


def upper_limit(hits: float, count: float) -> float:
    """Wilson's upper confidence limit of a share (Wilson, 1927), below 1."""
    z2 = LIMIT_Z * LIMIT_Z
    share = hits / count
    middle = share + z2 / (2 * count)
    spread = LIMIT_Z * sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return min(1 - 1e-9, (middle + spread) / (1 + z2 / count))


class Streak:
    """Something that was always so, or never, and the newest times in a row that were otherwise.

    What is now so and now not says nothing: it is optional, `always` is None. Of `count` + k that
    could have come in any order, with k the other way, these are the newest ones with a chance of
    1 / C(count + k, k); log C is the evidence.
    """

    __slots__ = ("always", "count", "other")

    def __init__(self, always: bool | None = None, count: float = 0.0, other: float = 0.0) -> None:
        self.always, self.count, self.other = always, count, other

    def see(self, so: bool, weight: float) -> None:
        if self.count == 0:
            self.always, self.count = so, 1.0
        elif self.always is None:
            self.count += 1
        elif so is not self.always:
            self.other = round(self.other + weight, 4)
            if self.other >= USUAL_AFTER:
                self.always, self.count, self.other = so, self.other, 0.0
        else:
            if self.other:
                self.always = None  # it was a matter of luck
            self.count += self.other + 1
            self.other = 0.0

    @property
    def log_evidence(self) -> float:
        if self.always is None or self.count < LEAST or not self.other:
            return -inf
        return lgamma(self.count + self.other + 1) - lgamma(self.count + 1) - lgamma(self.other + 1)

    @property
    def alarms(self) -> bool:
        return self.log_evidence >= ALARM

    def document(self) -> list[Any]:
        return [self.always, self.count, self.other]

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        always, count, other = document
        return cls(always, float(count), float(other))


def median(values: Sequence[float]) -> float:
    """The lower of the two middle ones, 0 of none."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0
