"""Shadows on the metrics page: from zero for those that are, and none of those that were."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from triage.ports import Compared
from triage.telemetry.shadow_metrics import ShadowMetrics


def page(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]


def test_only_shadows_that_are_there_are_shown() -> None:
    registry = CollectorRegistry()
    metrics = ShadowMetrics.register(registry)
    metrics.for_nodes(["b", "a"])
    metrics.compared("a", Compared.DIFFERS)
    metrics.compared("a", Compared.DROPPED, 3)
    metrics.other_clauses.labels("a").inc()
    metrics.waiting.set(2)
    assert page(registry) == [
        *(
            f'triage_shadow_comparisons_total{{node="b",result="{one.value}"}} 0.0'
            for one in Compared
        ),
        'triage_shadow_comparisons_total{node="a",result="agrees"} 0.0',
        'triage_shadow_comparisons_total{node="a",result="differs"} 1.0',
        'triage_shadow_comparisons_total{node="a",result="unrecorded"} 0.0',
        'triage_shadow_comparisons_total{node="a",result="failed"} 0.0',
        'triage_shadow_comparisons_total{node="a",result="dropped"} 3.0',
        'triage_shadow_other_clauses_total{node="b"} 0.0',
        'triage_shadow_other_clauses_total{node="a"} 1.0',
        "triage_shadow_waiting 2.0",
        "triage_shadow_restarts_total 0.0",
    ]

    metrics.for_nodes(["a", "c"])
    assert not [line for line in page(registry) if 'node="b"' in line]
    assert 'triage_shadow_comparisons_total{node="a",result="differs"} 1.0' in page(registry)
    assert 'triage_shadow_comparisons_total{node="c",result="agrees"} 0.0' in page(registry)
    metrics.for_nodes([])
    assert page(registry) == ["triage_shadow_waiting 2.0", "triage_shadow_restarts_total 0.0"]
