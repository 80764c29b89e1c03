"""What alerts can ask of the metrics, and that it is counted and widened as it says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bench.dock import procedure
from bench.real_servers.backfill import MARGIN_S, count, possible_queries, series_of, windows
from bench.replay.alerts import HistoricalAlert
from bench.world.catalogue import CELL_STATES
from bench.world.layout import EPOCH
from bench.world.metrics import WorldMetrics
from bench.world.series import CanonicalSeries
from bench.world.served import ServedSeries
from tests.unit.bench_world.small_minutes import small_minutes
from triage.model.query import Query, Samples
from triage.tool_api import aggregate, call, rows, samples

FIRED_AT = datetime.fromtimestamp(EPOCH + 7200, UTC)
JAM = HistoricalAlert(
    alarm="al_jam_repeat",
    site=0,
    entity="PE-12",
    at=EPOCH + 7200,
    severity="warning",
    kinds=frozenset(),
)


@pytest.fixture(scope="module")
def served() -> ServedSeries:
    return ServedSeries(CanonicalSeries(small_minutes(minutes=150), seed=7), seed=7)


def test_windows_are_joined_by_metric() -> None:
    queries: list[Query] = [
        samples("metrics", 'dock_recirc_pct{site="FC1"}', FIRED_AT, 900),
        aggregate("metrics", 'dock_recirc_pct{site="FC1",asset="LS-1"}', FIRED_AT, 1800, "max"),
        samples("metrics", "dock_cell_leak", FIRED_AT, 60),
        samples("metrics", "dock_recirc_pct", datetime.fromtimestamp(EPOCH + 600, UTC), 60),
        rows("warehouse", "SELECT 1"),
        call("equipment", "routes", site="FC1"),
    ]
    assert windows(queries) == {
        "dock_cell_leak": ((EPOCH + 7140, EPOCH + 7200),),
        "dock_recirc_pct": ((EPOCH + 540, EPOCH + 600), (EPOCH + 5400, EPOCH + 7200)),
    }
    assert windows(queries, 60)["dock_cell_leak"] == ((EPOCH + 7080, EPOCH + 7260),)


def test_a_window_between_seconds_is_inside_what_is_filled() -> None:
    odd = samples("metrics", "dock_cell_leak", FIRED_AT.replace(microsecond=500_000), 60)
    assert windows([odd])["dock_cell_leak"] == ((EPOCH + 7140, EPOCH + 7201),)


def test_every_node_that_could_be_reached_is_asked() -> None:
    loaded = procedure()
    found = possible_queries(loaded, [JAM])
    entry = loaded.sop.alarms["al_jam_repeat"]
    asked = {query.selector.partition("{")[0] for query in found if isinstance(query, Samples)}
    # Of the alarm's first node, and of a root cause that only its verdict leads to.
    assert entry == ("obs_jam_real",)
    assert {"dock_eye_blocked", "dock_merge_gap", "dock_drive_load"} <= asked
    assert {query.source for query in found} == {"metrics", "warehouse", "equipment"}


def test_samples_are_those_that_the_source_gives(served: ServedSeries) -> None:
    text = "".join(WorldMetrics(served).backfill(0, [(EPOCH, EPOCH + 7200)], ["cell_picks_total"]))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert count(served, 0, {"dock_cell_picks_total": [(EPOCH, EPOCH + 7200)]}) == len(lines) > 0
    inner = (EPOCH + MARGIN_S, EPOCH + 7200 - MARGIN_S)
    assert 0 < count(served, 0, {"dock_cell_picks_total": [inner]}) < len(lines)


def test_one_metric_may_be_several_series() -> None:
    assert series_of("dock_cell_state_seconds") == tuple(
        f"cell_state_seconds:{state}" for state in CELL_STATES
    )
    assert series_of("dock_recirc_pct") == ("recirc_pct",)
