"""Historical alerts through the real worker, engine, store and sources, held to the annotator."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.dock import DockFiles
from bench.replay.alerts import historical_alerts
from bench.replay.history import History, figures, replay
from bench.replay.report import plot, report
from bench.replay.score import difference
from tests.dock import EXTENT, LAST_DAY, SEED, small_dock

COUNT = 60

WRITTEN = {
    "alerts",
    "errors",
    "error_rate",
    "observation_errors",
    "root_cause_errors",
    "action_errors",
    "root_cause_precision",
    "root_cause_recall",
    "p50_ms",
    "p99_ms",
    "nodes_per_alert_mean",
    "queries_per_alert_mean",
    "round_trips_p50",
    "llm_calls",
    "decisions_sha256",
    "seconds",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DockFiles:
    return small_dock(tmp_path_factory)


def _unseen(done: int, of: int) -> None:
    assert done <= of


async def _replayed(files: DockFiles, **more: Any) -> History:
    return await replay(
        count=COUNT,
        seed=SEED,
        extent=EXTENT,
        folder=files.warehouse.parent,
        between=LAST_DAY,
        progress=_unseen,
        say=lambda _text: None,
        **more,
    )


@pytest.fixture(scope="module")
def layer(files: DockFiles) -> History:
    return asyncio.run(_replayed(files))


@pytest.mark.timeout(300)  # the small dock is built first
async def test_every_decision_is_the_annotators_in_both_modes(
    files: DockFiles, layer: History, tmp_path: Path
) -> None:
    found = figures(layer)
    assert found.keys() >= WRITTEN
    assert found["alerts"] == COUNT
    assert found["errors"] == 0, layer.differences
    assert found["degraded"] == 0
    assert len(found["alarms"]) >= 5
    assert {result.word for one in layer.decided for result in one.decision.nodes} == {
        "true",
        "false",
        "no_data",
    }
    subtree = await _replayed(files, prefetch="subtree", at_once=4)
    assert figures(subtree)["decisions_sha256"] == found["decisions_sha256"]
    assert report(layer, found)
    for picture in plot(layer, found, tmp_path, "small"):
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.timeout(300)
async def test_open_loop_counts_from_the_intended_send(files: DockFiles) -> None:
    run = await _replayed(files, rate_per_s=1000.0)
    assert len(run.decided) == COUNT
    assert all(one.latency_s > 0 for one in run.decided)
    # All were due within a moment, and are worked on one by one: the last waited for the others.
    latencies = [one.latency_s for one in run.decided]
    assert max(latencies) > sorted(latencies)[len(latencies) // 2]


@pytest.mark.timeout(300)
def test_a_wrong_decision_is_counted(layer: History) -> None:
    one, right = layer.decided[0], layer.annotations[0]
    wrong = replace(one.decision, actions=())
    assert difference(one.alert, wrong, right).actions is not None


def test_the_same_alerts_are_chosen_again(files: DockFiles) -> None:
    first, again = (historical_alerts(files.world, COUNT, between=LAST_DAY) for _ in range(2))
    assert first == again
    assert len({alert.alert_id for alert in first}) == len(first)
    assert [alert.at for alert in first] == sorted(alert.at for alert in first)
