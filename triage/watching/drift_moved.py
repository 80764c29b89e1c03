"""Whether a figure of the answers has moved: at one site, and over all sites together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from triage.ports.watching import WatchKind
from triage.watching.drift_evidence import (
    LAG,
    USUAL_AFTER,
    Gathering,
    Reference,
    median,
    rank_bets,
)

CALM = 8  # observations in a row within what is usual, after which a figure is back
WITHIN = 0.05  # of the reference, on either side of such an observation
LEAST_RANGE = 6.0  # of the least standard deviations
FAR_RANGES = 2.0
FAR_WEIGHT = 0.5
"""The least weight of an observation so many ranges outside of all before: that it comes soon after
another does not explain it. Hours, shifts and faults have been within the range before."""
LEAST_EFFECT = 2.0  # robust standard deviations


class Figure(NamedTuple):
    """A figure of an answer that is watched. `least` is the smallest standard deviation that it is
    taken to have, in its own unit; `up` and `down` are the ways in which a change is trouble."""

    kind: WatchKind
    least: float
    up: bool
    down: bool


FIGURES: Mapping[str, Figure] = {
    # log10 of the median magnitude: the least effect is a tenth.
    "level": Figure(WatchKind.VALUES_MOVED, 0.02, up=True, down=True),
    # The share of null, NaN and sentinels: the least effect is four in ten.
    "nulls": Figure(WatchKind.NULLS, 0.2, up=True, down=False),
    # log10 of the samples per second: the least effect is a half. Of what is only written when it
    # changes there is more or less from hour to hour.
    "rate": Figure(WatchKind.GAPS, 0.15, up=False, down=True),
}


class Ranked(NamedTuple):
    """One observation among the past ones of its site. `ranges` is how far it is outside of them,
    in widths of their range; `effect` is in robust standard deviations from their middle."""

    at_least: int
    at_most: int
    kept: int
    ranges: float
    effect: float


class Moved:
    """The evidence both ways, and whether an alarm holds (`open`).

    It opens when the evidence is there and the middle of the observations that it is from lies
    LEAST_EFFECT away; it ends after CALM usual ones in a row, or when it has held for USUAL_AFTER.
    """

    __slots__ = ("_calm", "_down", "_held", "_up", "newest", "open")

    def __init__(self) -> None:
        self._up, self._down = Gathering(), Gathering()
        self._calm = self._held = 0
        self.open = False
        self.newest: list[float] = []
        """Effects of the last LAG at most, oldest first."""

    def see(self, figure: Figure, ranked: Ranked, weight: float) -> bool:
        """Whether an alarm ended because it has become usual: its reference is of no use."""
        if ranked.ranges >= FAR_RANGES:
            weight = max(weight, FAR_WEIGHT)
        if figure.up:
            self._up.bet(rank_bets(ranked.at_least, ranked.kept, ranked.ranges), weight)
        if figure.down:
            self._down.bet(rank_bets(ranked.at_most, ranked.kept, ranked.ranges), weight)
        self.newest = [*self.newest, ranked.effect][-LAG:]
        if self.open:
            return self._may_end(ranked)
        for gathering, sign in ((self._up, 1.0), (self._down, -1.0)):
            effect = sign * median(self.newest[-gathering.run :])
            if gathering.alarms and effect >= LEAST_EFFECT:
                self.open, self._calm, self._held = True, 0, 0
        return False

    def _may_end(self, ranked: Ranked) -> bool:
        self._held += 1
        is_usual = min(ranked.at_least, ranked.at_most) >= WITHIN * ranked.kept
        self._calm = self._calm + 1 if is_usual else 0
        if self._calm < CALM and self._held < USUAL_AFTER:
            return False
        self.open = False
        self._up, self._down, self.newest = Gathering(), Gathering(), []
        return self._calm < CALM

    def document(self) -> list[Any]:
        return [
            self._up.document(),
            self._down.document(),
            self.newest,
            self.open,
            self._calm,
            self._held,
        ]

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        made = cls()
        up, down, newest, is_open, calm, held = document
        made._up, made._down = Gathering.of(up), Gathering.of(down)
        made.newest = [float(one) for one in newest]
        made.open, made._calm, made._held = bool(is_open), int(calm), int(held)
        return made


class SiteFigure:
    """One figure at one site: its past, and what is wrong with it now.

    Nothing is learned while an alarm holds; but what an alarm was about that ended by itself is a
    thing that happens, and the observations that led to it become part of the past then.
    """

    __slots__ = ("_odd", "moved", "reference")

    def __init__(self) -> None:
        self.reference = Reference()
        self.moved = Moved()
        self._odd: list[float] = []

    def see(
        self, figure: Figure, value: float, at: float, weight: float, *, learn: bool
    ) -> Ranked | None:
        """How it stands among the past ones, None while there are too few. `learn` is off while an
        alarm over all sites holds; while one of its own does, nothing is learned either."""
        reference, value = self.reference, round(value, 6)
        if not reference.ready:
            reference.learn(value, at)
            return None
        at_least, at_most = reference.ranks(value)
        scale = reference.scale(figure.least)
        effect = round(max(-99.0, min(99.0, (value - reference.middle()) / scale)), 3)
        ranges = reference.ranges_beyond(value, LEAST_RANGE * figure.least)
        ranked = Ranked(at_least, at_most, len(reference.kept), ranges, effect)
        was_open = self.moved.open
        if self.moved.see(figure, ranked, weight):
            reference.forget()
            self._odd, was_open = [], False
        elif learn and not self.moved.open:
            reference.learn(value, at)
        else:
            reference.look(value)
        if self.moved.open and not was_open:
            self._odd = list(reference.newest)
        elif was_open and not self.moved.open:
            reference.keep(self._odd)
        return ranked

    def document(self) -> list[Any]:
        return [self.reference.document(), self.moved.document(), self._odd]

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        made = cls()
        reference, moved, odd = document
        made.reference, made.moved = Reference.of(reference), Moved.of(moved)
        made._odd = [float(one) for one in odd]
        return made
