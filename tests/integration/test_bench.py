"""The benchmarks run and give the figures they promise. How fast is for them to say, not here."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.servers import binary

ROOT = Path(__file__).parents[2]
LIMIT_S = 100.0

OVERHEAD = (
    "floor_p50_us",
    "engine_p50_us",
    "langgraph_p50_us",
    "ratio_to_floor",
    "times_faster_than_langgraph",
)
PREFETCH = (
    "ratio",
    "ratio_at_10",
    "ratio_20ms_away",
    *(
        f"{mode}_{figure}"
        for mode in ("layer", "subtree")
        for figure in (
            "p50_ms",
            "p99_ms",
            "at_10_p50_ms",
            "at_10_p99_ms",
            "20ms_away_p50_ms",
            "20ms_away_p99_ms",
            "queries_per_decision",
            "served_per_decision",
            "round_trips_p50",
        )
    ),
)


def test_overhead(tmp_path: Path) -> None:
    if find_spec("langgraph") is None and not os.environ.get("CI"):
        pytest.skip("langgraph is not installed: pip install 'triage[bench]'")
    figures = _bench("overhead", 2, tmp_path)
    _are_numbers(figures, OVERHEAD)
    assert (figures["nodes"], figures["layers"]) == (9, 4)


def test_prefetch(tmp_path: Path) -> None:
    for program in ("prometheus", "promtool"):
        binary(program, package="prometheus")
    figures = _bench("prefetch", 3, tmp_path)
    _are_numbers(figures, PREFETCH)
    assert figures["nodes_walked"] < figures["nodes_reachable"] == 15
    # What is asked, and how often, no machine changes.
    assert figures["layer_queries_per_decision"] == 2 * figures["nodes_walked"]
    assert figures["subtree_queries_per_decision"] == 2 * figures["nodes_reachable"]
    assert figures["layer_round_trips_p50"] == 5
    assert 1 <= figures["subtree_round_trips_p50"] <= 5


def _bench(name: str, rounds: int, folder: Path) -> dict[str, Any]:
    file = folder / "figures.json"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "bench", name, "--rounds", str(rounds), "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


def _are_numbers(figures: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        assert type(figures[name]) in {int, float}, name
        assert math.isfinite(figures[name]), name
        assert figures[name] > 0, name
