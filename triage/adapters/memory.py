"""A source that lives in this process: for tests, benchmarks and simulated worlds."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from math import floor, fsum, inf, isnan, nan

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Aggregate, Answer, Query, Reading, Samples, Series


class MemorySource:
    """Answers from a mapping or a function; an exception among the answers is raised.

    A query the mapping lacks is `unrecorded`: an empty answer has to be there as one. With
    `keep_asked`, `asked` lists every query in the order it came.

    `hold` makes every ask wait for `release` (or its own timeout), `fail_with` makes every ask
    raise. Nothing in here waits for a clock otherwise.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[Query, Answer] | Callable[[Query], Answer],
        *,
        keep_asked: bool = True,
    ) -> None:
        self._name = name
        self._answers = answers.__getitem__ if isinstance(answers, Mapping) else answers
        self._keep_asked = keep_asked
        self._gate: asyncio.Event | None = None
        self._failure: Exception | None = None
        self._obstructed = False
        self.asked: list[Query] = []
        self.waiting = asyncio.Event()
        """Set while an ask waits to be released."""

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        if self._keep_asked:
            self.asked.append(query)
        if self._obstructed:
            await self._obstruct(timeout_s)
        try:
            answer = self._answers(query)
        except KeyError:
            raise SourceFailed(
                SourceFailure.UNRECORDED, f"{self._name} has no answer to {query}"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hold(self) -> None:
        """Asks from now on wait for `release`."""
        self._gate = asyncio.Event()
        self._obstructed = True

    def release(self) -> None:
        """Lets everything go that waits, and all that comes after."""
        if self._gate is not None:
            self._gate.set()
        self._gate = None
        self.waiting.clear()
        self._obstructed = self._failure is not None

    def fail_with(self, failure: Exception | None) -> None:
        """Asks from now on raise `failure`; with None they answer again."""
        self._failure = failure
        self._obstructed = failure is not None or self._gate is not None

    async def _obstruct(self, timeout_s: float) -> None:
        if self._gate is not None:
            self.waiting.set()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._gate.wait()
            except TimeoutError:
                raise SourceFailed(
                    SourceFailure.TIMEOUT, f"{self._name} did not answer in {timeout_s:g} s"
                ) from None
        if self._failure is not None:
            raise self._failure


class MemorySeries:
    """Answers to metric queries from series in memory, as a metrics server would give them.

    `series` maps a selector's exact text to what it selects; any other selector selects nothing.
    Times within a series must ascend.
    """

    def __init__(self, series: Mapping[str, tuple[Series, ...]]) -> None:
        self._series = {
            selector: tuple(sorted(selected, key=lambda one: sorted(one.labels.items())))
            for selector, selected in series.items()
        }

    def __call__(self, query: Query) -> Answer:
        return answered(query, self._windows)

    def _windows(self, selector: str, start: float, end: float) -> list[Series]:
        found = []
        for series in self._series.get(selector, ()):
            first, behind = bisect_right(series.times, start), bisect_right(series.times, end)
            if first < behind:
                window = Series(
                    series.labels, series.times[first:behind], series.values[first:behind]
                )
                found.append(window)
        return found


def answered(query: Query, select: Callable[[str, float, float], Iterable[Series]]) -> Answer:
    """The answer to a metric query from raw samples, aggregates as PromQL folds them.

    `select` takes a selector, start and end, seconds since the epoch, and gives the series that
    have samples in (start, end], those samples only, in the order of their labels. Raises
    ToolFailed for another kind of query and for a window that means nothing.
    """
    if not isinstance(query, Samples | Aggregate):
        raise ToolFailed(
            ToolFailure.QUERY_REJECTED,
            "series in memory take samples and aggregate queries,"
            f" not {type(query).__name__.lower()}",
        )
    _check(query)
    found = select(query.selector, query.start.timestamp(), query.end.timestamp())
    if isinstance(query, Samples):
        return tuple(found)
    return tuple(
        Reading(
            {label: text for label, text in series.labels.items() if label != "__name__"},
            _folded(query, series.values),
        )
        for series in found
    )


def _check(query: Samples | Aggregate) -> None:
    if query.start.tzinfo is None or query.end.tzinfo is None or query.start >= query.end:
        problem = f"no window: {query.start.isoformat()} to {query.end.isoformat()}"
        raise ToolFailed(ToolFailure.QUERY_REJECTED, problem)
    if (
        isinstance(query, Aggregate)
        and query.function == "quantile"
        and not 0 <= query.quantile <= 1
    ):
        problem = f"quantile {query.quantile} is not in [0, 1]"
        raise ToolFailed(ToolFailure.QUERY_REJECTED, problem)


def _folded(query: Aggregate, values: tuple[float, ...]) -> float:
    """As PromQL has it: NaN is passed over by min and max unless there is nothing else."""
    match query.function:
        case "count":
            return float(len(values))
        case "sum":
            return _sum(values)
        case "min":
            return min((v for v in values if not isnan(v)), default=nan)
        case "max":
            return max((v for v in values if not isnan(v)), default=nan)
        case "quantile":
            ordered = sorted(values, key=lambda v: -inf if isnan(v) else v)
            rank = query.quantile * (len(ordered) - 1)
            lower = floor(rank)
            upper = min(len(ordered) - 1, lower + 1)
            weight = rank - lower
            return ordered[lower] * (1 - weight) + ordered[upper] * weight


def _sum(values: tuple[float, ...]) -> float:
    try:
        return fsum(values)
    except (OverflowError, ValueError):  # opposite infinities, or a sum beyond the largest float
        return sum(values)
