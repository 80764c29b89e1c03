"""What is counted of the fallback, and that its labels are bounded."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from triage.errors import FallbackFailure, ToolFailure
from triage.telemetry.fallback_metrics import REASONS, RESULTS, FallbackMetrics
from triage.telemetry.metrics import Metrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> FallbackMetrics:
    return FallbackMetrics.register(registry)


def ended(metrics: FallbackMetrics, reason: str, result: str) -> None:
    metrics.ended(
        reason=reason, result=result, turns=2, prompt_tokens=900, completion_tokens=80, seconds=3.5
    )


def test_an_attempt_is_counted_with_what_it_used_up(
    metrics: FallbackMetrics, registry: CollectorRegistry
) -> None:
    ended(metrics, ToolFailure.MISSING.value, "true")
    ended(metrics, ToolFailure.MISSING.value, FallbackFailure.TURNS.value)
    value = registry.get_sample_value
    by = {"reason": "tool_missing", "result": "true"}
    assert value("triage_fallbacks_total", by) == 1
    assert value("triage_fallbacks_total", {**by, "result": "fallback_turns"}) == 1
    assert value("triage_fallback_tokens_total", {"kind": "prompt"}) == 1800
    assert value("triage_fallback_tokens_total", {"kind": "completion"}) == 160
    assert value("triage_fallback_turns_sum") == 4
    assert value("triage_fallback_turns_bucket", {"le": "1.0"}) == 0
    assert value("triage_fallback_seconds_count") == 2
    assert value("triage_fallback_seconds_sum") == 7


def test_one_that_never_began_counts_no_seconds(
    metrics: FallbackMetrics, registry: CollectorRegistry
) -> None:
    metrics.counted(reason="tool_raised", result=FallbackFailure.OFF.value)
    by = {"reason": "tool_raised", "result": "fallback_off"}
    assert registry.get_sample_value("triage_fallbacks_total", by) == 1
    assert registry.get_sample_value("triage_fallback_seconds_count") == 0


def test_words_that_nobody_knows_are_one_label(
    metrics: FallbackMetrics, registry: CollectorRegistry
) -> None:
    for number in range(100):
        ended(metrics, f"reason {number}", f"result {number}")
    by = {"reason": "other", "result": "other"}
    assert registry.get_sample_value("triage_fallbacks_total", by) == 100


def test_the_state_is_read_when_it_is_asked_for(
    metrics: FallbackMetrics, registry: CollectorRegistry
) -> None:
    assert registry.get_sample_value("triage_fallback_up") is None, "none is configured"
    up, is_open = [True], [False]
    metrics.watch(up=lambda: up[0], breaker_open=lambda: is_open[0])
    assert registry.get_sample_value("triage_fallback_up") == 1
    assert registry.get_sample_value("triage_fallback_breaker_open") == 0
    up[0], is_open[0] = False, True
    assert registry.get_sample_value("triage_fallback_up") == 0
    assert registry.get_sample_value("triage_fallback_breaker_open") == 1


def test_counters_begin_at_zero_once_a_fallback_is_configured(
    metrics: FallbackMetrics, registry: CollectorRegistry
) -> None:
    by = {"reason": "tool_missing", "result": "no_data"}
    assert registry.get_sample_value("triage_fallbacks_total", by) is None
    metrics.watch(up=lambda: True, breaker_open=lambda: False)
    for reason in REASONS:
        for result in RESULTS:
            by = {"reason": reason, "result": result}
            assert registry.get_sample_value("triage_fallbacks_total", by) == 0


def test_every_failure_has_a_label() -> None:
    assert {failure.value for failure in FallbackFailure} < set(RESULTS)
    assert {failure.value for failure in ToolFailure} < set(REASONS)
    assert {"true", "false", "no_data"} < set(RESULTS)


def test_open_gaps_are_as_told(metrics: FallbackMetrics, registry: CollectorRegistry) -> None:
    metrics.open_gaps(3)
    metrics.open_gaps(2)
    assert registry.get_sample_value("triage_gaps_open") == 2


def test_they_are_on_the_page() -> None:
    metrics = Metrics.register(version="1", monotonic=lambda: 0.0)
    metrics.fallback.open_gaps(7)
    page, _ = metrics.render()
    assert b"triage_gaps_open 7.0" in page
