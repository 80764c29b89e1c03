"""How long decisions and their nodes take, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from triage.errors import SourceFailure, ToolFailure
from triage.model.decision import AnsweredBy, Outcome
from triage.telemetry.instruments import CounterCell, HistogramCell, HotCounter, HotHistogram
from triage.telemetry.quantiles import LatencyCell, QuantileFamily, SlidingQuantiles

STAGES = ("queue_wait", "sources", "evaluate", "store")

# Seconds. Dense between 1 and 50 ms, where decisions without a fallback lie; the tail reaches to
# the fallback's deadline.
DECISION_BUCKETS = (
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0065, 0.008, 0.01, 0.0125, 0.015, 0.02,
    0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
NODE_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)  # seconds; times the number of nodes

OTHER = "other"
FAILURE_REASONS = (
    *(failure.value for failure in ToolFailure),
    *(failure.value for failure in SourceFailure),
    "fallback_saturated",
    OTHER,
)
"""Any other reason counts as `other`, so that the label stays bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMetrics:
    """`total` takes accepted to decided; the others take their stage. All in seconds.

    A decision that asked no source and evaluated nothing should leave those two stages alone, so
    that their quantiles speak of work that was done.
    """

    total: LatencyCell
    queue_wait: LatencyCell
    sources: LatencyCell
    evaluate: LatencyCell
    store: LatencyCell
    outcomes: HotCounter
    degraded: CounterCell

    @classmethod
    def register(
        cls, registry: CollectorRegistry, *, monotonic: Callable[[], float]
    ) -> DecisionMetrics:
        """`monotonic` is seconds that never go back; it moves the window of the quantiles."""
        seconds = HotHistogram(
            "triage_decision_seconds",
            "From an alert's acceptance to its durable decision.",
            buckets=DECISION_BUCKETS,
            registry=registry,
        )
        total = LatencyCell(seconds.labels(), SlidingQuantiles(clock=monotonic))
        QuantileFamily(
            "triage_decision_quantile_seconds",
            "From acceptance to decision, quantiles of the last five minutes.",
            (),
            {(): total.quantiles},
            registry=registry,
        )
        stage_seconds = HotHistogram(
            "triage_stage_seconds",
            "Time of a decision spent in one stage.",
            ("stage",),
            buckets=DECISION_BUCKETS,
            registry=registry,
        )
        stages = {
            stage: LatencyCell(stage_seconds.labels(stage), SlidingQuantiles(clock=monotonic))
            for stage in STAGES
        }
        QuantileFamily(
            "triage_stage_quantile_seconds",
            "Time spent in one stage, quantiles of the last five minutes.",
            ("stage",),
            {(stage,): cell.quantiles for stage, cell in stages.items()},
            registry=registry,
        )
        outcomes = HotCounter(
            "triage_decisions_total", "Decisions by outcome.", ("outcome",), registry=registry
        )
        for outcome in Outcome:
            outcomes.labels(outcome.value)
        degraded = HotCounter(
            "triage_decisions_degraded_total",
            "Decisions that at least one node gave no answer to.",
            registry=registry,
        )
        return cls(total=total, outcomes=outcomes, degraded=degraded.labels(), **stages)

    def decided(self, outcome: Outcome, *, degraded: bool, seconds: float) -> None:
        """One decision became durable `seconds` after its alert was accepted."""
        self.total.observe(seconds)
        self.outcomes.labels(outcome.value).inc()
        if degraded:
            self.degraded.inc()


class NodeCell:
    """What one node's results are told to. Keep it with the snapshot that the node belongs to."""

    __slots__ = ("_failures", "_seconds", "_verdicts")

    def __init__(
        self,
        seconds: HistogramCell,
        verdicts: dict[tuple[str, str], CounterCell],
        failures: dict[str, CounterCell],
    ) -> None:
        self._seconds = seconds
        self._verdicts = verdicts
        self._failures = failures

    def record(self, word: str, answered_by: str, seconds: float) -> None:
        """`word` is true, false, no_data or failed. A failed node was answered by nobody,
        whatever `answered_by` says. Raises KeyError for other words."""
        if word == "failed":
            answered_by = "nobody"
        self._verdicts[word, answered_by].inc()
        self._seconds.observe(seconds)

    def failure(self, reason: str) -> None:
        """Why it failed; also why a tool failed that the fallback then stood in for."""
        self._failures.get(reason, self._failures[OTHER]).inc()


_VERDICTS = (
    *((word, by.value) for by in (AnsweredBy.TOOL, AnsweredBy.FALLBACK)
      for word in ("true", "false", "no_data")),
    ("failed", AnsweredBy.NOBODY.value),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetrics:
    """Failures are counted over all nodes: nodes times reasons would be hundreds of series, and
    which node it was is in the decision."""

    seconds: HotHistogram
    verdicts: HotCounter
    failures: dict[str, CounterCell]
    cells: dict[str, NodeCell] = field(default_factory=dict)

    @classmethod
    def register(cls, registry: CollectorRegistry) -> NodeMetrics:
        failures = HotCounter(
            "triage_node_failures_total",
            "Tools and sources that gave a node no answer, by reason.",
            ("reason",),
            registry=registry,
        )
        return cls(
            seconds=HotHistogram(
                "triage_node_seconds",
                "From the start of a node's layer to its result.",
                ("node",),
                buckets=NODE_BUCKETS,
                registry=registry,
            ),
            verdicts=HotCounter(
                "triage_node_verdicts_total",
                "Results of a node by verdict and by who answered.",
                ("node", "verdict", "answered_by"),
                registry=registry,
            ),
            failures={reason: failures.labels(reason) for reason in FAILURE_REASONS},
        )

    def for_nodes(self, nodes: Iterable[str]) -> None:
        """Expose exactly these nodes, from zero where new: called at start and at each reload."""
        wanted = dict.fromkeys(nodes)
        # What stays is not touched: this runs on the event loop, and a large SOP has 4,400 nodes.
        for node in self.cells.keys() - wanted.keys():
            del self.cells[node]
            self.seconds.remove(node)
            for pair in _VERDICTS:
                self.verdicts.remove(node, *pair)
        for node in self.missing(wanted):
            self.cell(node)

    def missing(self, nodes: Iterable[str]) -> list[str]:
        """Those without a cell, in their order."""
        cells = self.cells
        return [node for node in nodes if node not in cells]

    def cell(self, node: str) -> NodeCell:
        """The node's cell, made when `for_nodes` did not name it: an attempt that still runs on
        the snapshot before the reload may ask for it, and the next reload drops it again."""
        cell = self.cells.get(node)
        if cell is None:
            cell = self.cells[node] = NodeCell(
                self.seconds.labels(node),
                {pair: self.verdicts.labels(node, *pair) for pair in _VERDICTS},
                self.failures,
            )
        return cell
