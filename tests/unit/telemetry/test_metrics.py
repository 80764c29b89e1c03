"""The page as a whole: valid before and after the first alert, and bounded."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from triage.errors import SourceFailure, ToolFailure
from triage.model.alert import AcceptStatus
from triage.model.decision import Outcome
from triage.ports import Backlog, Ledger
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import LaneUse, ToolRow

NOW = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)
PROMETHEUS_ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
    "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
SHA = "0123456789abcdef" * 4


def new_metrics() -> Metrics:
    return Metrics.register(version="1.2.3", monotonic=lambda: 1000.0)


def busy_metrics() -> Metrics:
    metrics = new_metrics()
    metrics.decisions.decided(Outcome.ACTIONS, degraded=True, seconds=0.012)
    metrics.decisions.queue_wait.observe(0.001)
    metrics.nodes.for_nodes(["disk_full", "cpu_busy"])
    metrics.nodes.cell("disk_full").record("true", "tool", 0.002)
    metrics.nodes.cell("disk_full").failure(ToolFailure.RAISED.value)
    metrics.sources.for_sources(["metrics"])
    metrics.sources.cell("metrics").ok(0.003, 512)
    metrics.sources.cell("metrics").failed(SourceFailure.TIMEOUT.value, 2.0)
    metrics.sources.cell("metrics").retried()
    metrics.sources.cell("metrics").breaker(is_open=True)
    metrics.intake.cell("native").request(202, 0.004)
    metrics.intake.cell("native").alert(AcceptStatus.NEW)
    metrics.intake.cell("alertmanager").truncated(3)
    metrics.intake.cell("alertmanager").rejected()
    metrics.sinks.cell("hook").record("retried", 0.2)
    metrics.ledger.update(ledger(), NOW, in_progress=1)
    metrics.runtime.store_up.labels().set(1.0)
    metrics.deliveries.entries.update({"critical": 2, "warning": 1})
    metrics.deliveries.queue_up.labels().set(1.0)
    metrics.deliveries.stream("floor").message("undecodable")
    metrics.deliveries.stream("floor").up(works=True)
    metrics.deliveries.swept.inc(3)
    metrics.tools.update(
        [ToolRow(node="disk_full", version=2, sha256=SHA, status="active", stale=True)],
        {"cpu_busy": ToolFailure.TAMPERED.value},
    )
    metrics.runtime.snapshot.update(sop="host", sop_version=7, sop_sha256=SHA)
    metrics.runtime.loop_lag(0.0004)
    metrics.runtime.reload(accepted=False)
    metrics.runtime.lanes.watch(lambda: {"fast": LaneUse(slots=64, in_use=3)})
    return metrics


def ledger(**changes: Any) -> Ledger:
    values: dict[str, Any] = {
        "accepted": 10,
        "decided": 6,
        "pending": 3,
        "dead_lettered": 1,
        "discarded": 0,
        "oldest_pending_at": NOW - timedelta(seconds=90),
        "outbox_pending": 4,
        "outbox_given_up": 2,
        "purged": 5,
        "backlog": {
            "critical": Backlog(pending=1, oldest_at=NOW - timedelta(seconds=30)),
            "warning": Backlog(pending=2, oldest_at=NOW - timedelta(seconds=90)),
        },
    }
    return Ledger(**{**values, **changes})


def families(metrics: Metrics) -> dict[str, Any]:
    page, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    parsed = text_string_to_metric_families(page.decode())  # type: ignore[no-untyped-call]  # untyped library
    return {family.name: family for family in parsed}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize("make", [new_metrics, busy_metrics])
def test_openmetrics_can_read_the_page(make: Any) -> None:
    parsed = families(make())
    assert parsed["triage_decision_seconds"].type == "histogram"
    assert parsed["triage_decisions"].type == "counter"
    assert "process_resident_memory_bytes" in parsed
    assert "process_cpu_seconds" in parsed


@pytest.mark.parametrize("make", [new_metrics, busy_metrics])
def test_promtool_finds_nothing_to_complain_of(make: Any) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is not installed: apt-get install prometheus")
        pytest.skip("promtool is not installed: apt-get install prometheus")
    page, content_type = make().render("")
    assert content_type.startswith("text/plain")
    done = subprocess.run(  # noqa: S603 - a fixed command
        [promtool, "check", "metrics"], input=page, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")


def test_labels_exist_before_the_first_alert() -> None:
    metrics = new_metrics()
    for outcome in ("resolved", "coalesced", "escalate", "actions", "inconclusive", "no_fault"):
        assert value(metrics, "triage_decisions_total", outcome=outcome) == 0
    for stage in ("queue_wait", "sources", "evaluate", "store"):
        assert value(metrics, "triage_stage_seconds_count", stage=stage) == 0
        for q in ("0.5", "0.99"):
            quantile = value(metrics, "triage_stage_quantile_seconds", stage=stage, quantile=q)
            assert quantile is not None
            assert quantile != quantile  # noqa: PLR0124 - NaN is the one that is not itself
    assert value(metrics, "triage_intake_requests_total", format="sns", code="429") == 0
    assert value(metrics, "triage_reloads_total", result="refused") == 0
    assert value(metrics, "triage_slots_in_use", lane="slow") == 0


def test_decisions_are_counted_and_timed() -> None:
    metrics = new_metrics()
    for _ in range(99):
        metrics.decisions.decided(Outcome.NO_FAULT, degraded=False, seconds=0.010)
        metrics.decisions.store.observe(0.002)
    metrics.decisions.decided(Outcome.ESCALATE, degraded=True, seconds=0.5)
    assert value(metrics, "triage_decisions_total", outcome="no_fault") == 99
    assert value(metrics, "triage_decisions_degraded_total") == 1
    assert value(metrics, "triage_decision_seconds_count") == 100
    assert value(metrics, "triage_decision_seconds_bucket", le="0.01") == 99
    median = value(metrics, "triage_decision_quantile_seconds", quantile="0.5")
    assert median == pytest.approx(0.010, rel=0.01)
    assert value(metrics, "triage_stage_seconds_count", stage="store") == 99
    assert value(metrics, "triage_stage_seconds_count", stage="sources") == 0


def test_a_node_that_failed_was_answered_by_nobody() -> None:
    metrics = new_metrics()
    metrics.nodes.for_nodes(["a"])
    cell = metrics.nodes.cell("a")
    cell.record("failed", "tool", 0.1)
    cell.record("no_data", "fallback", 0.1)
    cell.failure("source_timeout")
    cell.failure("a reason from the future")
    name = "triage_node_verdicts_total"
    assert value(metrics, name, node="a", verdict="failed", answered_by="nobody") == 1
    assert value(metrics, name, node="a", verdict="no_data", answered_by="fallback") == 1
    assert value(metrics, "triage_node_failures_total", reason="source_timeout") == 1
    assert value(metrics, "triage_node_failures_total", reason="other") == 1
    with pytest.raises(KeyError):
        cell.record("maybe", "tool", 0.1)


def test_a_reload_keeps_the_counts_of_nodes_that_stay_and_drops_the_others() -> None:
    metrics = new_metrics()
    metrics.nodes.for_nodes(["stays", "goes"])
    old = metrics.nodes.cell("goes")
    metrics.nodes.cell("stays").record("true", "tool", 0.1)
    metrics.nodes.for_nodes(["stays", "comes"])
    old.record("true", "tool", 0.1)  # an attempt on the snapshot before
    name = "triage_node_verdicts_total"
    tool = {"verdict": "true", "answered_by": "tool"}
    assert value(metrics, name, node="stays", **tool) == 1
    assert value(metrics, name, node="comes", **tool) == 0
    assert value(metrics, name, node="goes", **tool) is None
    assert value(metrics, "triage_node_seconds_count", node="goes") is None


def test_sources_by_result() -> None:
    metrics = busy_metrics()
    metrics.sources.cell("metrics").failed("never heard of", 0.1)
    name = "triage_source_calls_total"
    assert value(metrics, name, source="metrics", result="ok") == 1
    assert value(metrics, name, source="metrics", result="source_timeout") == 1
    assert value(metrics, name, source="metrics", result="other") == 1
    assert value(metrics, "triage_source_answer_bytes_total", source="metrics") == 512
    assert value(metrics, "triage_source_retries_total", source="metrics") == 1
    assert value(metrics, "triage_source_breaker_open", source="metrics") == 1
    assert value(metrics, "triage_source_seconds_count", source="metrics") == 3
    metrics.sources.cell("metrics").breaker(is_open=False)
    assert value(metrics, "triage_source_breaker_open", source="metrics") == 0
    metrics.sources.for_sources(["other_one"])
    assert value(metrics, name, source="metrics", result="ok") is None
    assert value(metrics, name, source="other_one", result="ok") == 0


def test_the_ledger_shows_nothing_until_it_is_known() -> None:
    metrics = new_metrics()
    assert "triage_alerts_accepted" not in families(metrics)
    metrics.ledger.update(ledger(), NOW, in_progress=1)
    assert value(metrics, "triage_alerts_accepted_total") == 10
    assert value(metrics, "triage_alerts_pending") == 3
    assert value(metrics, "triage_queue_depth") == 2
    assert value(metrics, "triage_queue_oldest_age_seconds") == 90
    assert value(metrics, "triage_outbox_given_up") == 2
    assert value(metrics, "triage_ledger_balanced") == 1
    metrics.ledger.update(ledger(decided=5, oldest_pending_at=None), NOW)
    assert value(metrics, "triage_ledger_balanced") == 0
    assert value(metrics, "triage_queue_oldest_age_seconds") == 0


def test_the_backlog_is_told_by_priority_and_its_absence_is_zero() -> None:
    metrics = new_metrics()
    metrics.ledger.update(ledger(), NOW)
    told = {
        priority: (
            value(metrics, "triage_backlog_alerts", priority=priority),
            value(metrics, "triage_backlog_oldest_seconds", priority=priority),
        )
        for priority in ("critical", "error", "warning", "info")
    }
    assert told == {"critical": (1, 30), "error": (0, 0), "warning": (2, 90), "info": (0, 0)}
    metrics.ledger.update(ledger(backlog={}), NOW)
    assert value(metrics, "triage_backlog_alerts", priority="critical") == 0


def test_dead_letters_are_a_gauge_and_no_counter_ever_falls() -> None:
    metrics = new_metrics()
    lie, ever = [], []
    for dead, accepted in [(3, 10), (1, 10), (2, 9), (2, 12)]:
        metrics.ledger.update(ledger(dead_lettered=dead, accepted=accepted), NOW)
        lie.append(value(metrics, "triage_dead_letters"))
        ever.append(
            (
                value(metrics, "triage_alerts_dead_lettered_total"),
                value(metrics, "triage_alerts_accepted_total"),
            )
        )
    assert lie == [3, 1, 2, 2]
    assert ever == [(3, 10), (3, 10), (4, 10), (4, 13)]
    assert value(metrics, "triage_alerts_purged_total") == 5


def test_what_the_queue_holds_is_absent_while_it_cannot_be_asked() -> None:
    metrics = new_metrics()
    assert value(metrics, "triage_queue_entries", priority="critical") is None
    metrics.deliveries.entries.update({"critical": 2, "info": 0})
    assert value(metrics, "triage_queue_entries", priority="critical") == 2
    assert value(metrics, "triage_queue_entries", priority="info") == 0
    metrics.deliveries.entries.update(None)
    assert value(metrics, "triage_queue_entries", priority="critical") is None


def test_messages_of_a_stream_are_counted_by_what_became_of_them() -> None:
    metrics = busy_metrics()
    name = "triage_stream_messages_total"
    assert value(metrics, name, stream="floor", result="undecodable") == 1
    assert value(metrics, name, stream="floor", result="accepted") == 0
    assert value(metrics, "triage_stream_up", stream="floor") == 1
    metrics.deliveries.stream("floor").up(works=False)
    assert value(metrics, "triage_stream_up", stream="floor") == 0
    assert value(metrics, "triage_queue_up") == 1
    assert value(metrics, "triage_sweeper_published_total") == 3
    with pytest.raises(KeyError):
        metrics.deliveries.stream("floor").message("lost")


def test_lanes_are_read_when_the_page_is() -> None:
    metrics = new_metrics()
    lanes = {"fast": LaneUse(slots=64, in_use=0)}
    metrics.runtime.lanes.watch(lambda: lanes)
    lanes["fast"] = LaneUse(slots=64, in_use=5)
    assert value(metrics, "triage_slots", lane="fast") == 64
    assert value(metrics, "triage_slots_in_use", lane="fast") == 5
    assert value(metrics, "triage_slots_in_use", lane="slow") == 0


def test_unknown_formats_and_words_are_a_fault_of_the_caller() -> None:
    metrics = new_metrics()
    with pytest.raises(KeyError):
        metrics.intake.cell("carrier pigeon")
    with pytest.raises(KeyError):
        metrics.sinks.cell("hook").record("lost", 0.1)


def test_info_metrics_hold_short_hashes() -> None:
    metrics = busy_metrics()
    labels = {"node": "disk_full", "version": "2", "status": "active", "stale": "true"}
    assert value(metrics, "triage_tool_info", sha256=SHA[:12], **labels) == 1
    assert value(metrics, "triage_tool_broken", node="cpu_busy", reason="tool_tampered") == 1
    snapshot = {"sop": "host", "sop_version": "7", "sop_sha256": SHA[:12]}
    assert value(metrics, "triage_snapshot_info", **snapshot) == 1
    metrics.tools.update([], {})
    assert value(metrics, "triage_tool_info", sha256=SHA[:12], **labels) is None


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        (
            PROMETHEUS_ACCEPT,
            True,
        ),
        ("text/plain, application/openmetrics-text;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=lots", False),
        ("application/openmetrics-text; version=x\r\nset-cookie: a=b", True),
    ],
)
def test_the_format_is_negotiated(accept: str, openmetrics: bool) -> None:
    page, content_type = new_metrics().render(accept)
    assert content_type.startswith("application/openmetrics-text") is openmetrics
    assert page.endswith(b"# EOF\n") is openmetrics
    assert "\n" not in content_type


def test_two_sets_of_metrics_do_not_share_anything() -> None:
    one, other = new_metrics(), new_metrics()
    one.decisions.degraded.inc()
    assert value(other, "triage_decisions_degraded_total") == 0
    with pytest.raises(ValueError, match="Duplicated"):
        Metrics.register(version="1", monotonic=lambda: 0.0, registry=one.registry)
