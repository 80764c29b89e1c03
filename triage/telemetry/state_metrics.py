"""What the daemon is and holds right now: ledger, tools, build, loop, slots, snapshot."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from triage.model.alert import PRIORITY_NAMES
from triage.ports import Ledger
from triage.telemetry.instruments import HotCounter, HotGauge, HotHistogram

LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)  # seconds
LANES = ("fast", "slow")
RELOAD_RESULTS = ("ok", "refused")
SHORT_SHA = 12  # hex characters of a hash in a label: enough to tell versions apart


class LedgerMetrics(Collector):
    """The store's ledger as of the last `update`.

    Exposes nothing before the first one: the counters continue over restarts, and a zero before
    the true figure would look like that many alerts in one scrape interval.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._families: list[Metric] = []
        self._grown: dict[str, tuple[int, int]] = {}
        registry.register(self)

    def update(self, ledger: Ledger, now: datetime, *, in_progress: int = 0) -> None:
        """`now` is aware UTC. `in_progress` of the pending alerts are with a worker already."""
        self._families = [
            self._counter("triage_alerts_accepted", "Alerts made durable.", ledger.accepted),
            self._counter(
                "triage_alerts_decided", "Alerts with a durable decision.", ledger.decided
            ),
            self._counter(
                "triage_alerts_dead_lettered",
                "Alerts set aside after too many attempts.",
                ledger.dead_lettered,
            ),
            self._counter("triage_alerts_discarded", "Alerts a person took out.", ledger.discarded),
            self._counter(
                "triage_alerts_purged",
                "Decided and discarded alerts that are too old to be kept.",
                ledger.purged,
            ),
            _gauge(
                "triage_dead_letters",
                "Alerts and messages that were given up and wait for a person.",
                ledger.dead_lettered,
            ),
            _gauge("triage_alerts_pending", "Alerts accepted and not decided.", ledger.pending),
            _gauge(
                "triage_ledger_balanced",
                "1 while accepted = decided + pending + dead-lettered + discarded.",
                ledger.balances,
            ),
            _gauge(
                "triage_queue_depth",
                "Pending alerts that no worker has begun.",
                max(0, ledger.pending - in_progress),
            ),
            _gauge(
                "triage_queue_oldest_age_seconds",
                "Age of the oldest pending alert.",
                _age(ledger.oldest_pending_at, now),
            ),
            *_backlog(ledger, now),
            _gauge("triage_outbox_pending", "Messages yet to be delivered.", ledger.outbox_pending),
            _gauge(
                "triage_outbox_given_up",
                "Messages that a sink refused, or that grew too old.",
                ledger.outbox_given_up,
            ),
        ]

    def _counter(self, name: str, documentation: str, value: int) -> Metric:
        """What the ledger says at first, and from then on what it has grown by: trying a dead
        letter again lowers the ledger's own figure, which no counter may do."""
        total, before = self._grown.get(name, (value, value))
        total += max(0, value - before)
        self._grown[name] = (total, value)
        return CounterMetricFamily(name, documentation, value=total)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        return self._families


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """The active tool of one node. `sha256` is the whole hash, `status` its word in the manifest;
    a stale tool was made from another text than the node has now."""

    node: str
    version: int
    sha256: str
    status: str
    stale: bool


class ToolMetrics(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._families: list[Metric] = self.families((), {})
        registry.register(self)

    def update(self, tools: Iterable[ToolRow], broken: Mapping[str, str]) -> None:
        """`broken` maps a node whose tool cannot be used to the reason (a ToolFailure value)."""
        self.show(self.families(tools, broken))

    def show(self, families: list[Metric]) -> list[Metric]:
        """As `update`, with what `families` made of the tools. Returns what was shown before."""
        before, self._families = self._families, families
        return before

    @staticmethod
    def families(tools: Iterable[ToolRow], broken: Mapping[str, str]) -> list[Metric]:
        """Safe on any thread; 10 µs a tool."""
        info = InfoMetricFamily("triage_tool", "The active tool of each node.")
        for tool in tools:
            info.add_metric(
                (),
                {
                    "node": tool.node,
                    "version": str(tool.version),
                    "sha256": tool.sha256[:SHORT_SHA],
                    "status": tool.status,
                    "stale": "true" if tool.stale else "false",
                },
            )
        unusable = GaugeMetricFamily(
            "triage_tool_broken",
            "1 for each node whose tool cannot be used.",
            labels=("node", "reason"),
        )
        for node, reason in broken.items():
            unusable.add_metric((node, reason), 1)
        return [info, unusable]

    def describe(self) -> Iterable[Metric]:
        return self.families((), {})

    def collect(self) -> Iterable[Metric]:
        return self._families


class BuildMetrics(Collector):
    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self._labels = {"version": version, "python": platform.python_version()}
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        info = InfoMetricFamily("triage_build", "What runs.", value=self._labels)
        return [info]


class SnapshotMetrics(Collector):
    """The procedure in force."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._labels: dict[str, str] | None = None
        registry.register(self)

    def update(self, *, sop: str, sop_version: int, sop_sha256: str) -> None:
        self._labels = {
            "sop": sop,
            "sop_version": str(sop_version),
            "sop_sha256": sop_sha256[:SHORT_SHA],
        }

    def collect(self) -> Iterable[Metric]:
        info = InfoMetricFamily("triage_snapshot", "The procedure in force.")
        if self._labels is not None:
            info.add_metric((), self._labels)
        return [info]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneUse:
    """Slots of one lane: how many there are, how many are taken."""

    slots: int
    in_use: int


class LaneMetrics(Collector):
    """Reads the lanes when it is asked; zeros until `watch` has said where they are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._read: Callable[[], Mapping[str, LaneUse]] = dict
        registry.register(self)

    def watch(self, read: Callable[[], Mapping[str, LaneUse]]) -> None:
        """`read` maps `fast` and `slow` to their use; called on whichever thread renders."""
        self._read = read

    def collect(self) -> Iterable[Metric]:
        lanes = self._read()
        slots = GaugeMetricFamily(
            "triage_slots", "Alerts that can be decided at once.", labels=("lane",)
        )
        in_use = GaugeMetricFamily("triage_slots_in_use", "Alerts being decided.", labels=("lane",))
        for lane in LANES:
            use = lanes.get(lane, LaneUse(slots=0, in_use=0))
            slots.add_metric((lane,), use.slots)
            in_use.add_metric((lane,), use.in_use)
        return [slots, in_use]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeMetrics:
    snapshot: SnapshotMetrics
    lanes: LaneMetrics
    store_up: HotGauge
    lag: HotHistogram
    last_lag: HotGauge
    reloads: HotCounter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> RuntimeMetrics:
        reloads = HotCounter(
            "triage_reloads_total", "Reloads by result.", ("result",), registry=registry
        )
        for result in RELOAD_RESULTS:
            reloads.labels(result)
        return cls(
            snapshot=SnapshotMetrics(registry),
            lanes=LaneMetrics(registry),
            store_up=HotGauge(
                "triage_store_up",
                "1 while the store answers; while it does not, the ledger shown is the last known.",
                registry=registry,
            ),
            lag=HotHistogram(
                "triage_event_loop_lag_seconds",
                "How much later than asked the event loop woke a timer.",
                buckets=LAG_BUCKETS,
                registry=registry,
            ),
            last_lag=HotGauge(
                "triage_event_loop_lag_last_seconds",
                "The last observation of the event loop's lag.",
                registry=registry,
            ),
            reloads=reloads,
        )

    def loop_lag(self, seconds: float) -> None:
        self.lag.labels().observe(seconds)
        self.last_lag.labels().set(seconds)

    def reload(self, *, accepted: bool) -> None:
        self.reloads.labels("ok" if accepted else "refused").inc()


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _age(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())


def _backlog(ledger: Ledger, now: datetime) -> list[Metric]:
    alerts = GaugeMetricFamily(
        "triage_backlog_alerts", "Alerts accepted and not decided.", labels=("priority",)
    )
    oldest = GaugeMetricFamily(
        "triage_backlog_oldest_seconds", "Age of the oldest pending alert.", labels=("priority",)
    )
    for priority in PRIORITY_NAMES:
        waiting = ledger.backlog.get(priority)
        alerts.add_metric((priority,), waiting.pending if waiting else 0)
        oldest.add_metric((priority,), _age(waiting.oldest_at if waiting else None, now))
    return [alerts, oldest]
