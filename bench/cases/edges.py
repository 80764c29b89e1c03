"""Cases on the very edge of a rule: the figure of a param at which a verdict turns.

No world has samples that meet a threshold to the last bit, so a `>` where the rule says `>=`
would never show. But thresholds are params that a site may set: for a case there is a value of
the param at which the annotator's verdict turns, and the next number beside it. A tool that
keeps the rule answers both as the annotator does; one that has another figure, by however
little, does not. The annotator finds the value and knows nothing of the tool.

Counts, durations and windows turn between two whole numbers, all others between two floats that
have none between them, or are CLOSE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from bench.annotator.candidates import World
from bench.annotator.cases import Case
from bench.annotator.instant import Instant
from bench.annotator.judge import RULES
from bench.annotator.judged import Judged
from bench.annotator.settings import Settings, SiteSettings
from bench.annotator.tables import SiteTables
from bench.cases.mutation_whole import CONTINUOUS
from bench.world.canonical import Changes, Equipment, SiteFacts, Window
from triage.sop.procedure import Param

Number = int | float

PER_PARAM = 3  # pairs
TRIES = 40  # cases looked at for a param
CLOSE = 1e-6
"""How far apart the two figures are, relative, where a site reports in other units: converted
figures differ from the true ones in the last bit."""
NOTHING = 1e-9
NOT_TO_THE_BIT = {
    "min_coverage": "the rule divides samples by those expected, and tools multiply: which of the"
    " two is rounded shows in the last bit of a share that nobody would set",
}
"""Params whose edges are only CLOSE, and why."""
STEPS = (0.999, 1.001, 0.98, 1.02, 0.9, 1.1, 0.7, 1.4, 0.4, 2.5, 0.1, 10.0)
"""Of a param's value, where another verdict is looked for; the closest first, so that what turns
is the rule's own comparison and not an absurd figure's."""
MIN_STEP = 1  # of whole numbers, where a step would be less


class Edge(NamedTuple):
    """`case` has what is expected of it with this value for the param."""

    case: Case
    param: str
    value: Number

    def __str__(self) -> str:
        return f"{self.param} = {self.value!r}"


def _never(_case: Case) -> bool:
    return False


class EdgeFinder:
    """Finds edges of cases, one node after the other. Figures of the world are kept until
    `forget`: a search asks for the same ones fifty times."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = _Kept(world)
        self._sites = [settings.site(facts) for facts in world.sites]
        self._tables = [
            SiteTables(world, index, site.layout) for index, site in enumerate(self._sites)
        ]

    def forget(self) -> None:
        self._world.kept.clear()
        self._world.read.clear()

    def judge(self, case: Case) -> Judged:
        """The annotator's answer, whatever the case says."""
        return self._judged(case, self._sites[case.site])

    def windows_of(self, case: Case) -> list[tuple[str, str, int]]:
        """Series, asset and length in seconds of every window that the rule reads."""
        self._world.read.clear()
        self.judge(case)
        return [(series, asset, end - start) for _, series, asset, start, end in self._world.read]

    def tables_of(self, case: Case) -> list[str]:
        """The warehouse's tables that the rule reads, in order."""
        self._world.tables.clear()
        site = self._sites[case.site]
        tables = SiteTables(self._world, case.site, site.layout)
        instant = Instant(self._world, site, tables, case.site, case.t)
        RULES[case.node](instant, site.layout.normalise(case.entity))
        return list(self._world.tables)

    def edges(
        self,
        cases: Sequence[Case],
        params: Mapping[str, Param],
        converted: Callable[[Case], bool] = _never,
    ) -> list[Edge]:
        """Pairs of edges of one node's cases, up to PER_PARAM for each param that the rule reads,
        and as many from sites that report in other units.

        The cases that come first are looked at first. `converted` says whether the site reports
        what the rule reads in another unit.
        """
        found: list[Edge] = []
        done: Counter[tuple[str, float]] = Counter()
        tried: Counter[tuple[str, float]] = Counter()
        for case in cases:
            other_unit = converted(case)
            for name in sorted(self._read_by(case)):
                close = CLOSE if other_unit or name in NOT_TO_THE_BIT else 0.0
                key = (name, close)
                if name not in params or done[key] >= PER_PARAM or tried[key] >= TRIES:
                    continue
                tried[key] += 1
                pair = self._turn(case, name, params[name], close)
                if pair is not None:
                    done[key] += 1
                    found += pair
        return found

    def _read_by(self, case: Case) -> set[str]:
        """The params that the rule reads for this case."""
        site = self._sites[case.site]
        reading = _Reading(site.params)
        self._judged(case, replace(site, params=reading))
        return reading.read

    def _turn(self, case: Case, name: str, param: Param, close: float) -> list[Edge] | None:
        value = self._sites[case.site].params[name]
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        whole = param.unit not in CONTINUOUS
        here = self._with(case, name, value)
        steps = [_stepped(value, step, whole=whole) for step in STEPS]
        limits = [one for one in (param.minimum, param.maximum) if one is not None]
        for other in (*steps, *(int(one) if whole else float(one) for one in limits)):
            if _allowed(other, param) and self._with(case, name, other).value != here.value:
                return self._bisected(case, name, value, other, whole=whole, close=close)
        return None

    def _bisected(
        self, case: Case, name: str, one: Number, other: Number, *, whole: bool, close: float
    ) -> list[Edge]:
        first = self._with(case, name, one)
        last = self._with(case, name, other)
        while (middle := _between(one, other, whole=whole, close=close)) is not None:
            judged = self._with(case, name, middle)
            if judged.value == first.value:
                one, first = middle, judged
            else:
                other, last = middle, judged
        return [
            Edge(replace(case, expected=judged.value, subject=judged.subject), name, value)
            for value, judged in ((one, first), (other, last))
        ]

    def _with(self, case: Case, name: str, value: Number) -> Judged:
        site = self._sites[case.site]
        return self._judged(case, replace(site, params={**site.params, name: value}))

    def _judged(self, case: Case, site: SiteSettings) -> Judged:
        instant = Instant(self._world, site, self._tables[case.site], case.site, case.t)
        return RULES[case.node](instant, site.layout.normalise(case.entity))


def _stepped(value: Number, step: float, *, whole: bool) -> Number:
    if not whole:
        return float(value * step)
    away = max(MIN_STEP, round(abs(value * (step - 1))))
    return int(value) + (away if step > 1 else -away)


def _allowed(value: Number, param: Param) -> bool:
    return (param.minimum is None or value >= param.minimum) and (
        param.maximum is None or value <= param.maximum
    )


def _between(one: Number, other: Number, *, whole: bool, close: float) -> Number | None:
    """None when there is no number between them, or they are close enough."""
    middle = (one + other) // 2 if whole else (one + other) / 2
    if middle in {one, other} or (not whole and abs(one - other) <= close * abs(middle)):
        return None
    # Between 0 and the least of floats lie a thousand halvings, and no figure of a rule.
    return None if abs(middle) < NOTHING else middle


class _Reading(Mapping[str, Any]):
    """Params that remember who of them was read."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


class _Kept:
    """A Canonical that reads every window once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.kept: dict[tuple[Any, ...], Any] = {}
        self.read: dict[tuple[int, str, str, int, int], None] = {}
        self.tables: dict[str, None] = {}
        """Windows and tables that were asked for, in order; who wants to know clears them first."""

    @property
    def sites(self) -> tuple[SiteFacts, ...]:
        return self._world.sites

    @property
    def start(self) -> int:
        return self._world.start

    @property
    def end(self) -> int:
        return self._world.end

    def window(self, site: int, series: str, asset: str, start: int, end: int) -> Window:
        key = (site, series, asset, start, end)
        self.read[key] = None
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = self._world.window(site, series, asset, start, end)
        window: Window = found
        return window

    def changes(self, site: int, series: str, asset: str, start: int, end: int) -> Changes:
        key = (site, series, asset, start, end)
        found = self.kept.get(key)
        if found is None:
            found = self.kept[key] = self._world.changes(site, series, asset, start, end)
        changes: Changes = found
        return changes

    def table(self, site: int, name: str) -> Mapping[str, NDArray[Any]]:
        self.tables[name] = None
        return self._world.table(site, name)

    def equipment(self, site: int) -> Equipment:
        return self._world.equipment(site)
