"""The measurements beside chaos run and give figures. How fast anything is they say themselves."""

from __future__ import annotations

import pytest

from bench.burst import measure_burst
from bench.scale import Plan, measure_scale
from bench.soak import measure_soak

pytestmark = pytest.mark.timeout(600)


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
