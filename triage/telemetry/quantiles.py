"""Quantiles of the last minutes, to a stated relative error, in bounded memory.

The sketch is DDSketch (Masson, Rim, Lee: "DDSketch: A Fast and Fully-Mergeable Quantile Sketch
with Relative-Error Guarantees", arXiv 1908.10693): with gamma = (1 + a) / (1 - a) a value x lies in
bucket ceil(log_gamma x), and 2 gamma^i / (gamma + 1) stands for all of bucket i within a relative
error of a. Sketches merge by adding counts, so a ring of them, one a slot of time, slides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, log, nan

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from triage.telemetry.instruments import HistogramCell, number_text

SMALLEST = 1e-9  # seconds; what is shorter counts as zero
LARGEST = 1e9  # seconds; what is longer counts as this long
_ZERO = -(10**9)  # the bucket of what is shorter than SMALLEST; sorts before all others

EXPOSED = (0.5, 0.99)


class SlidingQuantiles:
    """Quantiles of what was observed in the last `window_s` seconds.

    The window slides by `window_s / slots`: the oldest slot leaves whole, so between
    `window_s * (1 - 1 / slots)` and `window_s` seconds are covered. `clock` is monotonic seconds.
    For the default error of 1 % at most 2,100 buckets a slot can come to exist.

    Written on one thread, readable from any: a slot is replaced, never emptied, and a reader
    copies it in one step.
    """

    __slots__ = ("_clock", "_counts", "_epoch", "_gamma", "_per_log", "_per_second", "_ring")

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        window_s: float = 300.0,
        slots: int = 10,
        relative_error: float = 0.01,
    ) -> None:
        if not 0 < relative_error < 1 or slots < 1 or window_s <= 0:
            raise ValueError("need 0 < relative_error < 1, slots >= 1 and window_s > 0")
        self._clock = clock
        self._gamma = (1 + relative_error) / (1 - relative_error)
        self._per_log = 1 / log(self._gamma)
        self._per_second = slots / window_s
        self._epoch = int(clock() * self._per_second)
        self._counts: dict[int, int] = {}
        self._ring: list[tuple[int, dict[int, int]]] = [(self._epoch, self._counts)] * slots

    def observe(self, seconds: float) -> None:
        """Costs more than half a microsecond: for what happens a few times a decision."""
        epoch = int(self._clock() * self._per_second)
        if epoch != self._epoch:
            self._epoch = epoch
            self._counts = {}
            self._ring[epoch % len(self._ring)] = (epoch, self._counts)
        if SMALLEST <= seconds <= LARGEST:
            key = ceil(log(seconds) * self._per_log)
        elif seconds > LARGEST:
            key = ceil(log(LARGEST) * self._per_log)
        else:
            key = _ZERO
        counts = self._counts
        counts[key] = counts.get(key, 0) + 1

    def quantile(self, q: float) -> float:
        """`quantiles` for one."""
        return self.quantiles((q,))[0]

    def quantiles(self, qs: Sequence[float]) -> list[float]:
        """For each q in [0, 1] the smallest value that at least that share of all does not exceed
        (nearest rank, so that p99 of a few is the slowest of them), within the relative error;
        NaN while the window is empty."""
        merged = self._merged()
        total = sum(merged.values())
        if not total:
            return [nan] * len(qs)
        ordered = sorted(merged.items())
        return [self._value(_bucket_at(ordered, max(0, ceil(q * total) - 1))) for q in qs]

    def _merged(self) -> Mapping[int, int]:
        oldest = int(self._clock() * self._per_second) - len(self._ring)
        merged: Counter[int] = Counter()
        # Before its first turn round, the ring holds the first slot many times over.
        for counts in {epoch: counts for epoch, counts in self._ring if epoch > oldest}.values():
            merged.update(counts.copy())
        return merged

    def _value(self, bucket: int) -> float:
        if bucket == _ZERO:
            return 0.0
        return float(2 * self._gamma**bucket / (self._gamma + 1))


def _bucket_at(ordered: Iterable[tuple[int, int]], rank: int) -> int:
    seen = 0
    bucket = _ZERO
    for bucket, count in ordered:  # noqa: B007 - the last bucket is the answer when none is beyond
        seen += count
        if seen > rank:
            break
    return bucket


class LatencyCell:
    """A histogram child and the sliding quantiles of the same observations."""

    __slots__ = ("histogram", "quantiles")

    def __init__(self, histogram: HistogramCell, quantiles: SlidingQuantiles) -> None:
        self.histogram = histogram
        self.quantiles = quantiles

    def observe(self, value: float) -> None:
        """`value` in seconds."""
        self.histogram.observe(value)
        self.quantiles.observe(value)


class QuantileFamily(Collector):
    """Exposes sketches as `name{…, quantile="0.5"|"0.99"}`, NaN while a window is empty.

    The type is summary, the one type that may carry a `quantile` label (promtool's linter refuses
    it on a gauge); as the quantiles of a summary these are gauges. Sum and count are left out: the
    histogram beside it has them.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str],
        sketches: Mapping[tuple[str, ...], SlidingQuantiles],
        *,
        registry: CollectorRegistry,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labelnames = tuple(labelnames)
        self._sketches = dict(sketches)
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [Metric(self._name, self._documentation, "summary")]

    def collect(self) -> Iterable[Metric]:
        family = Metric(self._name, self._documentation, "summary")
        for values, sketch in self._sketches.items():
            labels = dict(zip(self._labelnames, values, strict=True))
            for q, value in zip(EXPOSED, sketch.quantiles(EXPOSED), strict=True):
                family.add_sample(self._name, {**labels, "quantile": number_text(q)}, value)
        return [family]
