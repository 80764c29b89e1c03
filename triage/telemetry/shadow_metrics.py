"""Versions in shadow: how they compare with the active ones, and what waits to be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from triage.ports import Compared
from triage.telemetry.instruments import CounterCell, GaugeCell, HotCounter, HotGauge


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowMetrics:
    comparisons: HotCounter
    other_clauses: HotCounter
    waiting: GaugeCell
    restarts: CounterCell

    @classmethod
    def register(cls, registry: CollectorRegistry) -> ShadowMetrics:
        return cls(
            comparisons=HotCounter(
                "triage_shadow_comparisons_total",
                "Verdicts of a node that has a version in shadow, and how that one compared.",
                ("node", "result"),
                registry=registry,
            ),
            other_clauses=HotCounter(
                "triage_shadow_other_clauses_total",
                "Comparisons that agree in value and subject and not in the clauses.",
                ("node",),
                registry=registry,
            ),
            waiting=HotGauge(
                "triage_shadow_waiting",
                "Decisions that wait to be compared.",
                registry=registry,
            ).labels(),
            restarts=HotCounter(
                "triage_shadow_restarts_total",
                "How often the sandbox of the shadows was begun anew after trouble.",
                registry=registry,
            ).labels(),
        )

    def for_nodes(self, nodes: Iterable[str]) -> None:
        """Those that have a shadow now, from zero; what others were counted is no longer shown."""
        shown = [(node, result.value) for node in nodes for result in Compared]
        for labels in shown:
            self.comparisons.labels(*labels)
            self.other_clauses.labels(labels[0])
        self.comparisons.retain(set(shown))
        self.other_clauses.retain({(node,) for node, _ in shown})

    def compared(self, node: str, result: Compared, count: int = 1) -> None:
        self.comparisons.labels(node, result.value).inc(count)
