"""What queue, streams and sweeper do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from triage.telemetry.instruments import CounterCell, GaugeCell, HotCounter, HotGauge

ACCEPTED = "accepted"
RELEASED = "released"
UNDECODABLE = "undecodable"
PARTLY_REJECTED = "partly_rejected"
TOO_LARGE = "too_large"
ATTEMPTS_USED_UP = "attempts_used_up"
MESSAGE_RESULTS = (
    ACCEPTED,
    PARTLY_REJECTED,
    UNDECODABLE,
    TOO_LARGE,
    ATTEMPTS_USED_UP,
    RELEASED,
)
"""The middle four are also why a message is a dead letter."""


class QueueEntries(Collector):
    """The broker's own depth as of the last `update`; nothing while it cannot be asked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._depth: Mapping[str, int] = {}
        registry.register(self)

    def update(self, depth: Mapping[str, int] | None) -> None:
        """Entries by the name of their priority."""
        self._depth = depth or {}

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "triage_queue_entries",
            "What the queue itself holds, by priority; absent while it cannot be asked.",
            labels=("priority",),
        )
        for priority, entries in self._depth.items():
            family.add_metric((priority,), entries)
        return [family]


class StreamCell:
    """What the messages of one stream are told to."""

    __slots__ = ("_results", "_up")

    def __init__(self, results: Mapping[str, CounterCell], up: GaugeCell) -> None:
        self._results = results
        self._up = up

    def message(self, result: str) -> None:
        """`result` is one of MESSAGE_RESULTS; raises KeyError for another."""
        self._results[result].inc()

    def up(self, *, works: bool) -> None:
        self._up.set(1.0 if works else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMetrics:
    entries: QueueEntries
    queue_up: HotGauge
    stream_up: HotGauge
    messages: HotCounter
    swept: CounterCell
    cells: dict[str, StreamCell] = field(default_factory=dict)

    @classmethod
    def register(cls, registry: CollectorRegistry) -> DeliveryMetrics:
        swept = HotCounter(
            "triage_sweeper_published_total",
            "Alerts that nobody held and that were put on the queue again.",
            registry=registry,
        )
        return cls(
            entries=QueueEntries(registry),
            queue_up=HotGauge(
                "triage_queue_up",
                "1 while the queue does what it is asked; pending alerts wait while it does not.",
                registry=registry,
            ),
            stream_up=HotGauge(
                "triage_stream_up",
                "1 while a producers' stream is read.",
                ("stream",),
                registry=registry,
            ),
            messages=HotCounter(
                "triage_stream_messages_total",
                "Messages taken from a producers' stream, by what became of them.",
                ("stream", "result"),
                registry=registry,
            ),
            swept=swept.labels(),
        )

    def stream(self, name: str) -> StreamCell:
        """The stream's cell, made on first use; streams change at a restart only."""
        cell = self.cells.get(name)
        if cell is None:
            cell = self.cells[name] = StreamCell(
                {result: self.messages.labels(name, result) for result in MESSAGE_RESULTS},
                self.stream_up.labels(name),
            )
        return cell
