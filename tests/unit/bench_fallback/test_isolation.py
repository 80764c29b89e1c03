"""The figures of isolation: the median of the pairs' ratios, of the right alerts."""

from __future__ import annotations

from pathlib import Path

from bench.fallback.endpoint import Mode
from bench.fallback.isolation import Half, Plan, figures
from bench.fallback.isolation_project import (
    EVERY,
    STRAY_NODE,
    STRAY_TEXT,
    is_stray,
    make_isolation_project,
    mixed_payload,
)
from triage.library.loader import load_library
from triage.sop.load import load_sop


def half(mode: Mode, p99_s: float, degraded: int = 0) -> Half:
    return Half(
        mode=mode,
        latencies=[0.001] * 50 + [p99_s],
        stray_latencies=[0.2, 0.5],
        stray_degraded=degraded,
        sender_late_s=0.001,
    )


def test_ratios_are_of_pairs() -> None:
    pairs = {
        Mode.HANG: [
            (half(Mode.HANG, 0.010, 2), half(Mode.SCRIPT, 0.010)),
            (half(Mode.HANG, 0.090, 2), half(Mode.SCRIPT, 0.100)),
            (half(Mode.HANG, 0.030, 2), half(Mode.SCRIPT, 0.010)),
        ]
    }
    quiet = [half(Mode.SCRIPT, p99_s) for p99_s in (0.001, 0.005, 0.004)]
    found = figures(Plan(pairs=3, troubles=(Mode.HANG,)), pairs, quiet)
    assert found["p99_ratios_hang"] == [1.0, 0.9, 3.0]
    assert found["p99_ratio_hang"] == 1.0
    assert found["p99_ms_hang"] == 30.0
    assert found["p99_ms_healthy_beside_hang"] == 10.0
    assert (found["stray_degraded_hang"], found["stray_degraded_healthy"]) == (6, 0)
    assert found["p99_ratio_healthy_to_quiet"] == 2.5
    assert found["unaffected_alerts"] == 6 * 51
    assert found["stray_max_ms_hang"] == 500.0


def test_one_alert_in_five_needs_the_fallback() -> None:
    assert [is_stray(n) for n in range(2 * EVERY)] == [*[False] * 4, True] * 2
    alarms = [mixed_payload(n)["alarm"] for n in range(EVERY)]
    assert alarms == [*["backlog"] * 4, "stray"]
    assert len({mixed_payload(n)["id"] for n in range(50)}) == 50


def test_the_served_library_lacks_what_the_endpoint_learned(tmp_path: Path) -> None:
    project = make_isolation_project(tmp_path)
    sop = load_sop(project.sop)
    assert sop.nodes[STRAY_NODE].text == STRAY_TEXT
    assert STRAY_NODE not in STRAY_TEXT
    served = load_library(tmp_path / "tools_lib", sop)
    taught = load_library(project.taught, sop)
    assert set(served.broken) == {STRAY_NODE}
    assert not taught.broken
    assert served.tools.keys() == taught.tools.keys() - {STRAY_NODE}
