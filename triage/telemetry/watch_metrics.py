"""What watches tools has seen, and what it holds against them now.

Shares are by node, as the counters of nodes are, seven series a node, and only of nodes that were
evaluated: no label says site, query or field, of which a finding names those that matter. Whoever
has a procedure of many nodes has none of them: see `[watch] metrics_nodes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from triage.model.verdict import Truth
from triage.ports import WatchKind
from triage.telemetry.instruments import CounterCell, GaugeCell, HotCounter, HotGauge

BEHIND = "behind"
OVERSIZED = "oversized"
UNREADABLE = "unreadable"
CRASHED = "crashed"
DROPPED = (BEHIND, OVERSIZED, UNREADABLE, CRASHED)
SHARES = (*(truth.word for truth in Truth), "failed")
RETEST_RESULTS = ("passed", "failed", "unrecorded", CRASHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMetrics:
    evaluations: CounterCell
    waiting: GaugeCell
    _dropped: HotCounter
    _findings: HotGauge
    _verdicts: HotGauge
    _nulls: HotGauge
    _empty: HotGauge
    _unwatched: HotGauge
    _retests: HotCounter

    @classmethod
    def register(cls, registry: CollectorRegistry) -> WatchMetrics:
        findings = HotGauge(
            "triage_watch_findings",
            "Findings that are open, by kind, of the thousand newest.",
            ("kind",),
            registry=registry,
        )
        for kind in WatchKind:
            findings.labels(kind.value)
        dropped = HotCounter(
            "triage_watch_dropped_total",
            "Decisions that there was no time for (behind), answers that were not looked at because"
            " they are too large or cannot be read, and evaluations at which triage itself failed"
            " (crashed).",
            ("reason",),
            registry=registry,
        )
        for reason in DROPPED:
            dropped.labels(reason)
        retests = HotCounter(
            "triage_watch_retests_total",
            "Cases that active tools were tried on again, and how it ended; crashed: a node's"
            " re-test at which triage itself failed.",
            ("result",),
            registry=registry,
        )
        for result in RETEST_RESULTS:
            retests.labels(result)
        return cls(
            evaluations=HotCounter(
                "triage_watch_evaluations_total",
                "Evaluations of nodes that were held against those before.",
                registry=registry,
            ).labels(),
            waiting=HotGauge(
                "triage_watch_waiting", "Decisions that wait to be looked at.", registry=registry
            ).labels(),
            _dropped=dropped,
            _findings=findings,
            _verdicts=HotGauge(
                "triage_watch_verdict_share",
                "Of the newest twelve evaluations, by verdict; failed: the tool failed.",
                ("node", "verdict"),
                registry=registry,
            ),
            _nulls=HotGauge(
                "triage_watch_null_share",
                "The highest share of null, NaN and sentinels of any field in the newest answers.",
                ("node",),
                registry=registry,
            ),
            _empty=HotGauge(
                "triage_watch_empty_share",
                "The highest share of empty ones of any query's newest twelve answers at a site.",
                ("node",),
                registry=registry,
            ),
            _unwatched=HotGauge(
                "triage_watch_unwatched",
                "Answers and fields beyond what is kept of one node: they are not watched.",
                ("node",),
                registry=registry,
            ),
            _retests=retests,
        )

    def dropped(self, reason: str) -> None:
        self._dropped.labels(reason).inc()

    def retested(self, result: str, count: int = 1) -> None:
        self._retests.labels(result).inc(count)

    def open_findings(self, counts: Mapping[WatchKind, int]) -> None:
        for kind in WatchKind:
            self._findings.labels(kind.value).set(counts.get(kind, 0))

    def shares(
        self, node: str, *, verdicts: Mapping[str, float], nulls: float, empty: float, left_out: int
    ) -> None:
        """After an evaluation of the node."""
        for word in SHARES:
            self._verdicts.labels(node, word).set(verdicts.get(word, 0.0))
        self._nulls.labels(node).set(nulls)
        self._empty.labels(node).set(empty)
        self._unwatched.labels(node).set(left_out)

    def retain(self, nodes: Iterable[str]) -> None:
        """Only those are shown from now on."""
        kept = set(nodes)
        self._verdicts.retain({(node, word) for node in kept for word in SHARES})
        for gauge in (self._nulls, self._empty, self._unwatched):
            gauge.retain({(node,) for node in kept})
