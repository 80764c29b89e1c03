"""The alert rules, Alertmanager's routes and the operations page: what people are told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.deploy_world import DEPLOY, KUBERNETES, ROOT, run
from tests.servers import binary
from triage.app.exits import Exit
from triage.cli.main import COMMANDS, command_name
from triage.model.decision import Outcome
from triage.ports import Ledger
from triage.telemetry.metrics import Metrics
from triage.telemetry.state_metrics import ToolRow

RULES = DEPLOY / "prometheus" / "triage.rules.yml"
OPERATIONS = ROOT / "docs" / "operations.md"
# Of Prometheus itself, and of the process, which the daemon exposes only on Linux.
NOT_OURS = {"up", "process_start_time_seconds"}


def promtool() -> str:
    return binary("promtool", package="prometheus")


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from group["rules"]


# --- Prometheus and Alertmanager ------------------------------------------------------------------


def test_the_rules_are_valid_and_fire_when_they_should() -> None:
    assert "SUCCESS" in run(promtool(), "check", "rules", RULES)
    assert "SUCCESS" in run(promtool(), "test", "rules", RULES.with_name("triage.rules.test.yml"))


def test_every_rule_is_seen_to_fire() -> None:
    tested = RULES.with_name("triage.rules.test.yml").read_text()
    untested = [one["alert"] for one in rules() if f'alertname="{one["alert"]}"' not in tested]
    assert untested == []


def test_every_rule_says_what_is_wrong_and_what_to_do() -> None:
    for one in rules():
        assert one["labels"]["severity"] in {"critical", "warning", "info"}
        assert one["annotations"].keys() == {"summary", "action"}, one["alert"]
        # What an aggregation drops would be an empty word in the message.
        grouped = re.findall(r"\bby \(([^)]*)\)", one["expr"])
        if grouped:
            kept = {label.strip() for label in grouped[0].split(",")}
            used = set(re.findall(r"\$labels\.(\w+)", " ".join(one["annotations"].values())))
            assert used <= kept, one["alert"]


def exposed() -> set[str]:
    """The names of all samples on a page of a daemon that has had something to do."""
    metrics = Metrics.register(version="1", monotonic=lambda: 1.0)
    metrics.decisions.decided(Outcome.ACTIONS, degraded=True, seconds=0.1)
    metrics.sources.for_sources(["metrics"])
    metrics.sinks.cell("hook").record("delivered", 0.1)
    metrics.deliveries.stream("orders").up(works=True)
    metrics.deliveries.queue_up.labels().set(1.0)
    metrics.deliveries.entries.update({"critical": 1})
    metrics.fallback.watch(up=lambda: True, breaker_open=lambda: False)
    metrics.fallback.open_gaps(1)
    metrics.runtime.loop_lag(0.01)
    metrics.runtime.store_up.labels().set(1.0)
    metrics.tools.update(
        [ToolRow(node="n", version=1, sha256="a" * 64, status="active", stale=False)],
        {"m": "tool_tampered"},
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    metrics.ledger.update(
        Ledger(
            accepted=1,
            decided=1,
            pending=0,
            dead_lettered=0,
            discarded=0,
            oldest_pending_at=None,
            outbox_pending=0,
            outbox_given_up=0,
        ),
        now,
    )
    page, _ = metrics.render()
    return {
        sample.name
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_every_metric_of_the_rules_is_one_that_a_daemon_exposes() -> None:
    found = exposed()
    for one in rules():
        expr = re.sub(r"\{[^}]*\}|\bby \([^)]*\)|\bon \([^)]*\)", " ", one["expr"])
        named = set(re.findall(r"\b(?:triage|process|up)\w*\b", expr))
        assert named, one["alert"]
        assert named - NOT_OURS <= found, one["alert"]


def test_the_commands_that_people_are_told_to_run_exist() -> None:
    known = {command_name(module) for module in COMMANDS}
    text = RULES.read_text() + OPERATIONS.read_text()
    for file in (*KUBERNETES.glob("*.yaml"), DEPLOY / "compose.yaml"):
        text += file.read_text()
    told = set(re.findall(r"`triage ([a-z-]+)", text)) - {"-"}
    assert told
    assert told <= known


def test_prometheus_and_alertmanager_take_their_files() -> None:
    assert "SUCCESS" in run(promtool(), "check", "config", DEPLOY / "prometheus/prometheus.yml")
    amtool = binary("amtool", package="prometheus-alertmanager")
    run(amtool, "check-config", DEPLOY / "alertmanager/alertmanager.yml")


def test_what_fires_about_triage_does_not_go_to_triage() -> None:
    amtool = binary("amtool", package="prometheus-alertmanager")
    config = f"--config.file={DEPLOY / 'alertmanager' / 'alertmanager.yml'}"

    def receiver(alert: str) -> str:
        words = ("config", "routes", "test", config, f"alertname={alert}")
        return run(amtool, *words, errors=False).strip()

    assert {receiver(one["alert"]) for one in rules()} == {"people"}
    assert receiver("DiskFull") == "triage"


# --- the operations page --------------------------------------------------------------------------


def test_the_page_lists_every_exit_code_and_every_alert() -> None:
    text = OPERATIONS.read_text()
    for code in Exit:
        assert re.search(rf"(?m)^\| {int(code)} \|", text), code
    for one in rules():
        assert one["alert"] in text, one["alert"]
