"""Counters, gauges and histograms that cost a tenth of a microsecond, not one or two.

A decision makes about sixty observations and the engine has some 200 µs in all; with
prometheus_client's own `Histogram.observe` (2.4 µs: a lock a value, a linear bucket search) and
`Counter.inc` (1.2 µs) the metrics alone would take half of it. These are collectors of the same
registry that expose the very same text.

Threads: a cell is written on the event-loop thread only, so it needs no lock. Any thread may
read: a reader copies the list of bucket counts in one step of the interpreter, and the exposed
`_count` is the sum of that copy, so buckets and count always agree; `_sum` may be one observation
ahead or behind, as it may be in any scrape.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


def number_text(value: float) -> str:
    """A number as `le` and `quantile` labels spell it."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]  # the library's own spelling


class CounterCell:
    """One child of a `HotCounter`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Raises ValueError for a negative amount or a NaN: counters only grow."""
        if not amount >= 0:
            raise ValueError(f"a counter cannot grow by {amount}")
        self.value += amount


class GaugeCell:
    """One child of a `HotGauge`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount

    def dec(self, amount: float = 1.0) -> None:
        self.value -= amount


class HistogramCell:
    """One child of a `HotHistogram`. `counts` are per bucket, not cumulative; the last is +Inf."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: list[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """`value` must not be NaN, which belongs to no bucket and would spoil the sum for good."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


C = TypeVar("C", CounterCell, GaugeCell, HistogramCell)
V = TypeVar("V", CounterCell, GaugeCell)


class _Family(Collector, Generic[C]):
    """The children of one metric by their label values, in order of creation."""

    def __init__(
        self,
        registry: CollectorRegistry,
        name: str,
        documentation: str,
        labelnames: Sequence[str],
        make: Callable[[], C],
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labelnames = tuple(labelnames)
        self._make: Callable[[], C] = make
        self._cells: dict[Labels, C] = {}
        if not self._labelnames:
            self._cells[()] = make()
        registry.register(self)

    def labels(self, *values: str) -> C:
        """The child with these label values, made on first use; keep it, do not look it up hot.

        Raises ValueError when the number of values is not that of the label names.
        """
        cell = self._cells.get(values)
        if cell is None:
            if len(values) != len(self._labelnames):
                raise ValueError(
                    f"{self._name} has labels {self._labelnames}, got the values {values}"
                )
            cell = self._cells[values] = self._make()
        return cell

    def remove(self, *values: str) -> None:
        """Stop exposing a child. Whoever still holds it may go on writing to it."""
        self._cells.pop(values, None)

    def retain(self, keep: Collection[Labels]) -> None:
        """Stop exposing every child but those in `keep`: reloads must not let labels pile up."""
        self._cells = {values: cell for values, cell in self._cells.items() if values in keep}

    def _items(self) -> list[tuple[Labels, C]]:
        return list(self._cells.items())


class _Valued(_Family[V]):
    """A metric whose children are one value each."""

    @abstractmethod
    def _family(self) -> CounterMetricFamily | GaugeMetricFamily: ...

    def describe(self) -> Iterable[Metric]:
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        family = self._family()
        for values, cell in self._items():
            family.add_metric(values, cell.value)
        return [family]


class HotCounter(_Valued[CounterCell]):
    """`name` with or without its `_total`."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        registry: CollectorRegistry,
    ) -> None:
        super().__init__(registry, name, documentation, labelnames, CounterCell)

    def _family(self) -> CounterMetricFamily:
        return CounterMetricFamily(self._name, self._documentation, labels=self._labelnames)


class HotGauge(_Valued[GaugeCell]):
    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        registry: CollectorRegistry,
    ) -> None:
        super().__init__(registry, name, documentation, labelnames, GaugeCell)

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self._name, self._documentation, labels=self._labelnames)


class HotHistogram(_Family[HistogramCell]):
    """`buckets` are upper bounds, inclusive, ascending, none below 0; +Inf is added."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        bounds = [float(bound) for bound in buckets if bound != inf]
        if not bounds or bounds != sorted(set(bounds)) or bounds[0] < 0:
            raise ValueError(f"{name}: buckets must ascend from 0 or more, got {tuple(buckets)}")
        self._bounds = [*map(number_text, bounds), "+Inf"]
        super().__init__(registry, name, documentation, labelnames, lambda: HistogramCell(bounds))

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)]

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)
        for values, cell in self._items():
            counts = cell.counts.copy()
            buckets = list(zip(self._bounds, accumulate(counts), strict=True))
            family.add_metric(values, buckets, cell.total)
        return [family]
