"""All metrics over one registry, and the page they are read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text

from triage.telemetry.decision_metrics import DecisionMetrics, NodeMetrics
from triage.telemetry.delivery_metrics import DeliveryMetrics
from triage.telemetry.edge_metrics import IntakeMetrics, SinkMetrics, SourceMetrics
from triage.telemetry.fallback_metrics import FallbackMetrics
from triage.telemetry.shadow_metrics import ShadowMetrics
from triage.telemetry.state_metrics import (
    BuildMetrics,
    LedgerMetrics,
    RuntimeMetrics,
    ToolMetrics,
)
from triage.telemetry.watch_metrics import WatchMetrics

__all__ = [
    "BuildMetrics",
    "DecisionMetrics",
    "DeliveryMetrics",
    "FallbackMetrics",
    "IntakeMetrics",
    "LedgerMetrics",
    "Metrics",
    "NodeMetrics",
    "RuntimeMetrics",
    "ShadowMetrics",
    "SinkMetrics",
    "SourceMetrics",
    "ToolMetrics",
    "WatchMetrics",
]

OPENMETRICS = "application/openmetrics-text"
PLAIN = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """One struct a part; each part of the program is given the one it needs."""

    registry: CollectorRegistry
    decisions: DecisionMetrics
    nodes: NodeMetrics
    sources: SourceMetrics
    intake: IntakeMetrics
    sinks: SinkMetrics
    ledger: LedgerMetrics
    tools: ToolMetrics
    build: BuildMetrics
    runtime: RuntimeMetrics
    fallback: FallbackMetrics
    deliveries: DeliveryMetrics
    shadows: ShadowMetrics
    watch: WatchMetrics

    @classmethod
    def register(
        cls,
        *,
        version: str,
        monotonic: Callable[[], float],
        registry: CollectorRegistry | None = None,
    ) -> Metrics:
        """`monotonic` is seconds that never go back. A registry of its own unless one is given.

        Raises ValueError when the registry has metrics of these names already.
        """
        registry = registry if registry is not None else CollectorRegistry()
        metrics = cls(
            registry=registry,
            decisions=DecisionMetrics.register(registry, monotonic=monotonic),
            nodes=NodeMetrics.register(registry),
            sources=SourceMetrics.register(registry),
            intake=IntakeMetrics.register(registry),
            sinks=SinkMetrics.register(registry),
            ledger=LedgerMetrics(registry),
            tools=ToolMetrics(registry),
            build=BuildMetrics(registry, version=version),
            runtime=RuntimeMetrics.register(registry),
            fallback=FallbackMetrics.register(registry),
            deliveries=DeliveryMetrics.register(registry),
            shadows=ShadowMetrics.register(registry),
            watch=WatchMetrics.register(registry),
        )
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        return metrics

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The page and its content type; `accept` is the request's Accept header.

        OpenMetrics 1.0 for who prefers it, else the text format 0.0.4 that everything reads. May
        run on any thread.
        """
        if _prefers_openmetrics(accept):
            page: bytes = openmetrics_text(self.registry)  # type: ignore[no-untyped-call]  # as is
            return page, CONTENT_TYPE_OPENMETRICS
        return plain_text(self.registry), CONTENT_TYPE_PLAIN_0_0_4


def _prefers_openmetrics(accept: str) -> bool:
    # Not prometheus_client's choose_encoder: it takes the sender's `version` into the answer's
    # header and raises on one that is no number.
    weights = {OPENMETRICS: 0.0, PLAIN: 0.0}
    for entry in accept.split(","):
        media, *parameters = [part.strip() for part in entry.lower().split(";")]
        if media in weights:
            weights[media] = max(weights[media], _weight(parameters))
    return weights[OPENMETRICS] > 0 and weights[OPENMETRICS] >= weights[PLAIN]


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
