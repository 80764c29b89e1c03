"""What the fallback is asked, what it uses up, and whether it is able to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from triage.errors import FallbackFailure, ToolFailure
from triage.model.verdict import Truth
from triage.telemetry.instruments import (
    CounterCell,
    GaugeCell,
    HistogramCell,
    HotCounter,
    HotGauge,
    HotHistogram,
)

SECONDS_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
TURNS_BUCKETS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50)

OTHER = "other"
REASONS = (*(failure.value for failure in ToolFailure), OTHER)
RESULTS = (
    *(truth.word for truth in Truth),
    *(failure.value for failure in FallbackFailure),
    OTHER,
)


class FallbackState(Collector):
    """Reads how the fallback is when it is asked; nothing until `watch` has said where, which it
    is told where a fallback is configured."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._up: Callable[[], bool] | None = None
        self._breaker_open: Callable[[], bool] | None = None
        registry.register(self)

    def watch(self, *, up: Callable[[], bool], breaker_open: Callable[[], bool]) -> None:
        """Called on whichever thread renders."""
        self._up = up
        self._breaker_open = breaker_open

    def describe(self) -> Iterable[Metric]:
        return [self._family("up"), self._family("breaker_open")]

    def collect(self) -> Iterable[Metric]:
        families = []
        for name, read in (("up", self._up), ("breaker_open", self._breaker_open)):
            if read is not None:
                family = self._family(name)
                family.add_metric((), 1.0 if read() else 0.0)
                families.append(family)
        return families

    @staticmethod
    def _family(name: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"triage_fallback_{name}", _STATES[name])


_STATES = {
    "up": "1 while the fallback that is configured is able to run.",
    "breaker_open": "Whether the model's endpoint is left alone because it kept failing.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackMetrics:
    state: FallbackState
    fallbacks: HotCounter
    prompt_tokens: CounterCell
    completion_tokens: CounterCell
    turns: HistogramCell
    seconds: HistogramCell
    gaps: GaugeCell

    @classmethod
    def register(cls, registry: CollectorRegistry) -> FallbackMetrics:
        tokens = HotCounter(
            "triage_fallback_tokens_total",
            "Tokens of the fallback, as the model's endpoint counts them.",
            ("kind",),
            registry=registry,
        )
        return cls(
            state=FallbackState(registry),
            fallbacks=HotCounter(
                "triage_fallbacks_total",
                "Nodes put to the fallback: why their tool failed, and the verdict or why none.",
                ("reason", "result"),
                registry=registry,
            ),
            prompt_tokens=tokens.labels("prompt"),
            completion_tokens=tokens.labels("completion"),
            turns=HotHistogram(
                "triage_fallback_turns",
                "Replies of the model that one node took.",
                buckets=TURNS_BUCKETS,
                registry=registry,
            ).labels(),
            seconds=HotHistogram(
                "triage_fallback_seconds",
                "From a node's being put to the fallback to its end.",
                buckets=SECONDS_BUCKETS,
                registry=registry,
            ).labels(),
            gaps=HotGauge(
                "triage_gaps_open",
                "Kinds of case that no tool could answer, and that nobody has closed.",
                registry=registry,
            ).labels(),
        )

    def watch(self, *, up: Callable[[], bool], breaker_open: Callable[[], bool]) -> None:
        """A fallback is configured: expose how it is, and its counters from zero. Without one
        they would be 150 lines that say nothing."""
        self.state.watch(up=up, breaker_open=breaker_open)
        for reason in REASONS:
            for result in RESULTS:
                self.fallbacks.labels(reason, result)

    def counted(self, *, reason: str, result: str) -> None:
        """A node that was put to the fallback. `reason` is the tool's failure, `result` a word of
        a verdict or a FallbackFailure; unknown ones count as other."""
        self.fallbacks.labels(
            reason if reason in REASONS else OTHER, result if result in RESULTS else OTHER
        ).inc()

    def ended(
        self,
        *,
        reason: str,
        result: str,
        turns: int,
        prompt_tokens: int,
        completion_tokens: int,
        seconds: float,
    ) -> None:
        """An attempt: `counted`, and what it used up."""
        self.counted(reason=reason, result=result)
        self.turns.observe(turns)
        self.prompt_tokens.inc(prompt_tokens)
        self.completion_tokens.inc(completion_tokens)
        self.seconds.observe(seconds)

    def open_gaps(self, count: int) -> None:
        """As the store counts them."""
        self.gaps.set(count)
