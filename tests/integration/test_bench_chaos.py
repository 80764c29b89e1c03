"""A short run of chaos, and of each measurement beside it: that they run, prove what they say, and
can fail. How fast anything is is for them to say, not here."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench import deliveries
from bench.burst import measure_burst
from bench.chaos import run
from bench.chaos.facts import SQLITE, StoreRows, read_store
from bench.chaos.options import Options, options
from bench.chaos.plan import Kind, make_plan
from bench.chaos.run import measure_chaos
from bench.scale import Plan, measure_scale
from bench.soak import measure_soak

pytestmark = pytest.mark.timeout(600)

TOTALS = ("accepted", "decided", "pending", "dead_lettered", "missing", "duplicates")


def chaos(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The command's exit code, its figures, and what it said."""
    file = tmp_path / "chaos.json"
    done = CliRunner().invoke(deliveries.application, ["chaos", *arguments, "--json", str(file)])
    assert file.exists(), done.output
    return done.exit_code, json.loads(file.read_text()), done.output


def proven(figures: dict[str, Any], wanted: Options) -> None:
    """All promised alerts were decided once, and all faults of the plan were made."""
    assert figures["ok"], figures["findings"]
    assert figures["missing"] == figures["duplicates"] == figures["pending"] == 0
    assert figures["dead_lettered"] == 0
    assert figures["accepted"] == figures["decided"] == figures["promised"] > wanted.alerts
    assert figures["plan"] == [
        {**fault.document(), **did}
        for fault, did in zip(make_plan(wanted), figures["plan"], strict=True)
    ]
    assert all("did_at_s" in did for did in figures["plan"])
    assert {did["kind"] for did in figures["plan"]} == {fault.kind for fault in make_plan(wanted)}
    assert figures["kills"] > 0
    assert figures["drops"] > 0
    assert math.isfinite(figures["max_recovery_s"])


def test_a_short_run_on_sqlite(tmp_path: Path) -> None:
    arguments = ("--seconds", "15", "--alerts", "300", "--seed", "11", "--every", "3")
    code, figures, output = chaos(tmp_path, *arguments)
    assert code == 0, output
    wanted = options(seconds=15, alerts=300, seed=11, every_s=3)
    proven(figures, wanted)
    assert figures["stops"] > 0
    assert set(TOTALS) | {"restarts", "max_recovery_s", "lease_s", "refused"} <= figures.keys()
    assert "kept" not in figures
    assert wanted.again in output


def test_a_store_that_lost_an_alert_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    def spoilt(url: str) -> StoreRows:
        with closing(sqlite3.connect(url.removeprefix(SQLITE))) as connection, connection:
            ((alert_id,),) = connection.execute("SELECT max(alert_id) FROM alerts").fetchall()
            for table in ("alerts", "decisions"):
                connection.execute(f"DELETE FROM {table} WHERE alert_id = ?", [alert_id])  # noqa: S608 - two names of ours
        lost.append(alert_id)
        return read_store(url)

    monkeypatch.setattr(run, "read_store", spoilt)
    code, figures, output = chaos(tmp_path, "--seconds", "5", "--alerts", "60", "--every", "30")
    kept = Path(figures["kept"])
    try:
        assert code == 1
        assert figures["missing"] == 1
        assert figures["findings"]["missing"] == lost
        assert not figures["balances"]
        assert f"missing: {lost[0]}" in output
        assert (kept / "journal.jsonl").exists()
        assert json.loads((kept / "findings.json").read_text())["missing"] == lost
    finally:
        shutil.rmtree(kept)


@pytest.mark.parametrize("queue", ["redis", "nats"])
def test_replicas_share_the_work(queue: str) -> None:
    wanted = options(seconds=15, queue=queue, alerts=300, replicas=2, seed=12, every_s=2.5)
    figures, _ = measure_chaos(wanted)
    proven(figures, wanted)
    assert figures["restarts"] > 0
    assert {Kind.KILL, Kind.STOP, Kind.STORE} <= {Kind(did["kind"]) for did in figures["plan"]}


def test_options_that_do_not_go_together_are_refused() -> None:
    refused = CliRunner().invoke(deliveries.application, ["chaos", "--replicas", "2"])
    assert refused.exit_code == 2
    assert "one process" in refused.output


def test_scale() -> None:
    told: list[tuple[int, int]] = []
    figures = measure_scale(
        "redis", Plan(rounds=1, measured_s=1.5, lead_s=0.5), lambda *done: told.append(done)
    )
    for name in ("one_replica_per_s", "two_replicas_per_s", "ratio"):
        assert figures[name] > 0, name
    for name in ("cpu_ms_per_alert_one", "cpu_ms_per_alert_two", "cpu_ratio"):
        assert figures[name] > 0, name
    assert figures["postgres_cpu_ms_per_alert_one"] > 0
    assert told == [(1, 2), (2, 2)]


def test_burst() -> None:
    figures = measure_burst("sqlite", alerts=400)
    assert figures["ok"]
    assert (figures["lost"], figures["alerts"]) == (0, 400)
    assert 0 < figures["resident_mb_before"] <= figures["resident_mb_peak"]
    assert figures["critical_p99_s"] > 0


def test_soak() -> None:
    figures = measure_soak("sqlite", seconds=20, rate=5.0)
    assert figures["balances"]
    assert figures["refused"] == 0
    assert figures["alerts"] > 20
    assert figures["resident_mb_5min"] > 0
    assert figures["fds_5min"] > 0
    assert len(figures["samples"]) >= 10
