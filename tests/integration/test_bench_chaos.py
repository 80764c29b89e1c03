"""A short run of chaos: that it proves what it says, and can fail."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench import deliveries
from bench.chaos import run
from bench.chaos.facts import SQLITE, StoreRows, read_store
from bench.chaos.options import options
from tests.integration.chaos_world import proven

pytestmark = pytest.mark.timeout(600)

TOTALS = ("accepted", "decided", "pending", "dead_lettered", "missing", "duplicates")


def chaos(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """The command's exit code, its figures, and what it said."""
    file = tmp_path / "chaos.json"
    done = CliRunner().invoke(deliveries.application, ["chaos", *arguments, "--json", str(file)])
    assert file.exists(), done.output
    return done.exit_code, json.loads(file.read_text()), done.output


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


def test_options_that_do_not_go_together_are_refused() -> None:
    refused = CliRunner().invoke(deliveries.application, ["chaos", "--replicas", "2"])
    assert refused.exit_code == 2
    assert "one process" in refused.output
