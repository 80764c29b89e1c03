"""The metrics source of the world: the served series, asked as one asks Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, isnan

import numpy as np

from bench.world.catalogue import METRICS, PREFIX, SERIES
from bench.world.selectors import BadSelector, parsed
from bench.world.served import Held, Served, ServedSeries
from triage.adapters.memory import answered
from triage.errors import ToolFailed, ToolFailure
from triage.model.catalogue import Catalogue, Metric
from triage.model.query import Answer, Query, Series

REMEMBERED = 4096  # selectors
CHUNK_S = 86_400  # seconds of one series that `backfill` writes at a time


@dataclass(slots=True)
class _Group:
    """Series that a selector finds and that are read together; `places` are in the answer."""

    site: int
    series: str
    rows: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    labels: list[Mapping[str, str]] = field(default_factory=list)


class WorldMetrics:
    """Takes samples and aggregate queries, in this process; never waits.

    Answers are in the order of labels, as a Prometheus server's are; a series without a sample in
    the window is no part of them.
    """

    def __init__(self, served: ServedSeries, name: str = METRICS) -> None:
        self._served = served
        self._name = name
        self._by_metric: dict[str, list[Held]] = {}
        for site in range(served.canonical.sites):
            for one in served.held(site):
                self._by_metric.setdefault(one.labels["__name__"], []).append(one)
        for members in self._by_metric.values():
            members.sort(key=lambda one: sorted(one.labels.items()))
        self._chosen: dict[str, list[_Group]] = {}

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:  # noqa: ARG002 - never waits
        """Raises ToolFailed for another kind of query, a text that is no selector, or a window
        that means nothing."""
        return answered(query, self._select)

    async def catalogue(self, *, timeout_s: float) -> Catalogue:  # noqa: ARG002 - never waits
        """Names and labels; the served series have no texts."""
        return Catalogue(
            metrics={
                name: Metric(labels=tuple(sorted(_labels(members))))
                for name, members in self._by_metric.items()
            }
        )

    def backfill(
        self,
        site: int,
        ranges: Sequence[tuple[int, int]],
        wanted: Collection[str] = SERIES,
    ) -> Iterator[str]:
        """The samples of one site in OpenMetrics text, in pieces of whole lines, as `promtool tsdb
        create-blocks-from openmetrics` reads them.

        `ranges` are (start, end], seconds since the epoch; where they overlap, samples come once.
        `wanted` are names of the catalogue. What the text selects from a server is what
        `ask` answers for windows within one of the ranges.
        """
        stretches = list(joined(ranges))
        last = ""
        for held in self._served.held(site):
            if held.series not in wanted:
                continue
            metric = PREFIX + held.series.partition(":")[0]
            if metric != last:
                yield f"# TYPE {metric} gauge\n"
                last = metric
            pairs = ",".join(
                f'{label}="{text}"' for label, text in held.labels.items() if label != "__name__"
            )
            for start, end in stretches:
                for begin in range(start, end, CHUNK_S):
                    (found,) = self._served.read(
                        held.site, held.series, [held.row], begin, min(begin + CHUNK_S, end)
                    )
                    lines = _lines(f"{metric}{{{pairs}}}", found)
                    if lines:
                        yield lines
        yield "# EOF\n"

    def _select(self, selector: str, start: float, end: float) -> list[Series]:
        chosen = self._chosen.get(selector)
        if chosen is None:
            chosen = self._choose(selector)
            if len(self._chosen) >= REMEMBERED:
                self._chosen.clear()
            self._chosen[selector] = chosen
        first, last = floor(start), floor(end)  # sample times are whole seconds
        found: list[Series | None] = [None] * sum(len(group.rows) for group in chosen)
        for group in chosen:
            read = self._served.read(group.site, group.series, group.rows, first, last)
            for (times, values), place, labels in zip(
                read, group.places, group.labels, strict=True
            ):
                if len(times):
                    found[place] = Series(
                        dict(labels),
                        tuple(times.astype(np.float64).tolist()),
                        tuple(values.tolist()),
                    )
        return [series for series in found if series is not None]

    def _choose(self, selector: str) -> list[_Group]:
        try:
            wanted = parsed(selector)
        except BadSelector as error:
            raise ToolFailed(
                ToolFailure.QUERY_REJECTED,
                f"{self._name}: {error}; build selectors with tool_api.selector",
            ) from None
        groups: dict[tuple[int, str], _Group] = {}
        members = self._by_metric.get(wanted.metric, ())
        for place, one in enumerate(one for one in members if wanted.selects(one.labels)):
            group = groups.setdefault((one.site, one.series), _Group(one.site, one.series))
            group.rows.append(one.row)
            group.places.append(place)
            group.labels.append(one.labels)
        return list(groups.values())


def _labels(members: Sequence[Held]) -> set[str]:
    return {label for one in members for label in one.labels} - {"__name__"}


def joined(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ascending and apart."""
    open_start, open_end = None, 0
    for start, end in sorted(ranges):
        if open_start is None or start > open_end:
            if open_start is not None:
                yield open_start, open_end
            open_start, open_end = start, end
        else:
            open_end = max(open_end, end)
    if open_start is not None:
        yield open_start, open_end


def _lines(series: str, found: Served) -> str:
    return "".join(
        f"{series} {'NaN' if isnan(value) else repr(value)} {time}\n"
        for time, value in zip(found.times.tolist(), found.values.tolist(), strict=True)
    )
