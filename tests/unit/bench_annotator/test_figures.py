from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from bench.annotator.figures import baseline_times, increase, quantile, runs_of_one, share_of_one
from bench.annotator.ids import Layout
from bench.annotator.judged import Clause, at_least, below, both, conclude, either
from bench.world.canonical import Changes, Window
from bench.world.layout import ASSETS, LAYOUT, SITES, WIDTH, WORDS, spell
from tests.unit.bench_annotator.dock import settings

LAY = Layout(counts=LAYOUT, words=WORDS, widths=WIDTH)


@pytest.mark.parametrize(
    ("text", "asset"),
    [
        ("ch7", "CH-007"),
        ("Chute 7", "CH-007"),
        ("CH_0007", "CH-007"),
        ("cell 00", "RC-00"),
        ("the lane 3, again", "STG-03"),
        ("CH--7", "CH--7"),
        ("dock", "dock"),
        ("", ""),
    ],
)
def test_ids_are_normalised(text: str, asset: str) -> None:
    assert LAY.normalise(text) == asset


@examples(deadline=None)
@given(
    st.sampled_from([asset for assets in ASSETS.values() for asset in assets]),
    st.sampled_from(["plain", "short", "words"]),
)
def test_however_a_site_spells_an_asset_it_is_the_same(asset: str, spelling: str) -> None:
    assert LAY.normalise(spell(asset, spelling)) == asset


def test_the_layout_has_every_asset_of_the_world_once() -> None:
    assert tuple(LAY.cells()) == ASSETS["RC"]
    assert tuple(LAY.chutes()) == ASSETS["CH"]
    assert tuple(LAY.eyes()) == ASSETS["PE"]
    assert tuple(LAY.lanes()) == ASSETS["STG"]
    assert {LAY.drive_of(asset) for assets in ASSETS.values() for asset in assets} == set(
        ASSETS["DRV"]
    )
    assert [len(LAY.chutes_in_scope(lane)) for lane in LAY.lanes()] == [5] * 12
    assert [len(LAY.chutes_in_scope(zone)) for zone in LAY.zones()] == [15] * 4
    assert LAY.lane_of("DD-24") == "STG-12"
    assert LAY.neighbours("PE-21") == (None, "PE-22")
    assert LAY.neighbours("PE-25") == ("PE-24", None)


def test_parents_of_tickets() -> None:
    parents = {asset: LAY.parent_of(asset) for assets in ASSETS.values() for asset in assets}
    assert parents["PE-34"] == "INF-3"
    assert parents["DRV-4"] == "INF-4"
    assert parents["DRV-0"] == parents["CH-060"] == "LS-1"
    assert parents["DRV-15"] == "RC-05"
    assert parents["DD-03"] == "STG-02"
    assert parents["RC-05"] is parents["LS-1"] is parents["STG-02"] is None


@examples(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_numpys(values: list[float], q: float) -> None:
    assert quantile(values, q) == pytest.approx(np.quantile(values, q), abs=1e-6)


def test_quantiles_of_nothing_and_at_the_ends() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0], 0) == 1.0
    assert quantile([3.0, 1.0], 1) == 3.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0


@examples(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=20),
)
def test_an_increase_is_what_was_counted_between_valid_samples(
    grid: list[tuple[int, bool]],
) -> None:
    values = np.array([value for value, _ in grid], np.float64)
    there = np.array([valid for _, valid in grid], np.bool_)
    readings = [sum(value for value, _ in grid[: n + 1]) for n in range(len(grid)) if grid[n][1]]
    expected = readings[-1] - readings[0] if len(readings) >= 2 else None
    assert increase(Window(np.arange(len(grid)), values, there)) == expected


@examples(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1)), max_size=8), st.integers(0, 60))
def test_a_share_counts_seconds(steps: list[tuple[int, int]], start: int) -> None:
    times = np.cumsum([step for step, _ in steps]).astype(np.int64)
    states = np.array([state for _, state in steps], np.int8)
    changes, end = Changes(times, states), start + 100
    inside = Changes(times[times <= end], states[times <= end])
    held = {
        second: states[np.searchsorted(times, second, side="right") - 1]
        for second in range(start, end)
        if len(times) and times[0] <= second
    }
    ones = sum(1 for state in held.values() if state == 1)
    share = share_of_one(inside, start, end, 0.6)
    assert share == (100 * ones / len(held) if len(held) >= 60 else None)
    from_, to = runs_of_one(inside, start, end)
    assert int((to - from_).sum()) == ones
    assert bool(np.all(to[:-1] < from_[1:])), changes


def test_baselines_across_changes_of_the_clock() -> None:
    berlin, york = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")

    def weeks(text: str, zone: ZoneInfo) -> list[str]:
        at = round(datetime.fromisoformat(text).timestamp())
        return [
            datetime.fromtimestamp(time, UTC).isoformat()[:16] for time in baseline_times(at, zone)
        ]

    # Clocks went back on 2026-10-25 at 03:00; 02:30 of that day is read with fold 0.
    assert weeks("2026-11-01T02:30:00+01:00", berlin)[:2] == [
        "2026-10-25T00:30",
        "2026-10-18T00:30",
    ]
    assert weeks("2026-10-25T02:30:00+01:00", berlin)[0] == "2026-10-18T00:30"
    # 02:30 does not exist in New York on 2026-03-08.
    assert weeks("2026-03-15T02:30:00-04:00", york)[0] == "2026-03-08T07:30"


def test_clauses() -> None:
    yes, no, unknown = at_least(3, 2), below(3, 2), at_least(None, 2)
    assert [clause.holds for clause in (yes, no, unknown)] == [True, False, None]
    assert yes.margin == pytest.approx(0.5)
    assert at_least(2, 2).holds is True
    assert below(2, 2).holds is False
    assert either(no, unknown, yes).holds is True
    assert either(no, unknown).holds is False
    assert either(unknown).holds is either().holds is None
    assert both(yes, unknown).holds is both(no, unknown).holds is None
    assert both(yes, no).holds is False
    assert both(yes, yes).holds is True
    assert at_least(0.25, 0).margin == pytest.approx(0.25)


def test_conclusions() -> None:
    assert conclude("X", Clause(True, 0.3), Clause(True, 0.1)) == ("true", "X", 0.1)
    assert conclude("X", Clause(True, 0.3), Clause(False, 0.4)) == ("no_data", "X", 0.4)
    assert conclude("X", Clause(None)) == ("no_data", "X", None)


def test_a_world_that_stands_otherwise_than_the_sites_file_says() -> None:
    facts = SITES[0].facts
    with pytest.raises(ValueError, match=r"layout\.cells"):
        settings().site(replace(facts, layout={**facts.layout, "cells": 7}))
    with pytest.raises(ValueError, match="`zone` is 'America/New_York'"):
        settings().site(replace(facts, zone="UTC"))


def test_params_are_the_sites() -> None:
    by_site = {style.facts.name: settings().site(style.facts) for style in SITES}
    assert by_site["FC4"].number("air_bar") == 5.5
    assert by_site["FC1"].number("air_bar") == 5.3
    assert settings().sites["EWR-OUT"] is settings().sites["FC1"]
