from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.world.canonical import Window
from bench.world.catalogue import CELL_STATES, SERIES, Kind, SeriesSpec
from bench.world.layout import ASSETS, EPOCH, SITES
from bench.world.series import CanonicalSeries
from bench.world.series_counters import FIELDS
from bench.world.series_hash import drawn, hashes, stream
from tests.unit.bench_world.small_minutes import small_minutes

MINUTES = small_minutes(sites=4, minutes=300)
WORLD = CanonicalSeries(MINUTES, seed=7)
END = WORLD.end
SAMPLED = [spec for spec in SERIES.values() if spec.kind is not Kind.STATE]
EVEN = CanonicalSeries(
    replace(MINUTES, metrics_silent=np.zeros_like(MINUTES.metrics_silent)), seed=7
)
"""The same without a silence."""

moments = st.integers(EPOCH - 400, END + 400)


def same(one: Window, other: Window) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(one, other, strict=True)
    )


@settings(deadline=None, max_examples=150)
@given(data=st.data(), cuts=st.lists(moments, min_size=3, max_size=5).map(sorted))
def test_a_window_is_its_parts_together(data: st.DataObject, cuts: list[int]) -> None:
    spec = data.draw(st.sampled_from(SAMPLED))
    asset = data.draw(st.sampled_from(ASSETS[spec.assets]))
    site = data.draw(st.integers(0, 3))
    whole = WORLD.window(site, spec.name, asset, cuts[0], cuts[-1])
    parts = [WORLD.window(site, spec.name, asset, start, end) for start, end in pairwise(cuts)]
    assert same(whole, Window(*(np.concatenate(column) for column in zip(*parts, strict=True))))
    expected = [at for at in range(cuts[0] + 1, cuts[-1] + 1) if at % spec.grain_s == 0]
    assert whole.times.tolist() == expected


@pytest.mark.parametrize("spec", SAMPLED, ids=lambda spec: spec.name)
def test_all_assets_at_once_are_each_by_itself(spec: SeriesSpec) -> None:
    times, values, valid = WORLD.windows(3, spec.name, EPOCH + 3333, EPOCH + 9999)
    for row, asset in enumerate(ASSETS[spec.assets]):
        alone = WORLD.window(3, spec.name, asset, EPOCH + 3333, EPOCH + 9999)
        assert same(alone, Window(times, values[row], valid[row]))


def test_the_hash_is_splitmix64() -> None:
    # The first outputs of the reference implementation from the state 0.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    numbers = hashes(np.zeros(1, dtype=np.uint64), np.arange(1, 4, dtype=np.uint64))
    assert numbers.tolist() == expected
    assert [drawn(0, counter) for counter in (1, 2, 3)] == expected
    assert stream(7, 1, "a") != stream(7, 1, "b") != stream(8, 1, "b")


@pytest.mark.parametrize("name", ["cell_leak", "parcels_total", "cell_freeflow"])
def test_the_seed_alone_decides(name: str) -> None:
    asset = ASSETS[SERIES[name].assets][1]
    window = WORLD.window(1, name, asset, EPOCH, END)
    assert same(window, CanonicalSeries(MINUTES, seed=7).window(1, name, asset, EPOCH, END))
    assert not same(window, CanonicalSeries(MINUTES, seed=8).window(1, name, asset, EPOCH, END))
    assert not same(window, WORLD.window(2, name, asset, EPOCH, END))


def test_outside_of_the_world_there_is_nothing() -> None:
    window = WORLD.window(0, "air_pressure", "AIR-1", EPOCH - 100, EPOCH + 20)
    assert len(window.times) == 12
    assert not window.valid[:10].any()
    assert not WORLD.window(0, "air_pressure", "AIR-1", END, END + 600).valid.any()
    assert len(WORLD.window(0, "air_pressure", "AIR-1", EPOCH + 11, EPOCH + 19).times) == 0


@pytest.mark.parametrize(
    ("site", "series", "asset"),
    [(0, "air_pressure", "AIR-2"), (4, "air_pressure", "AIR-1"), (0, "wind", "AIR-1")],
)
def test_what_there_is_not_is_a_key_error(site: int, series: str, asset: str) -> None:
    with pytest.raises(KeyError):
        WORLD.window(site, series, asset, EPOCH, EPOCH + 60)


def test_a_world_that_begins_within_a_minute_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole minute"):
        CanonicalSeries(small_minutes(minutes=3, start=EPOCH + 1), seed=1)


@pytest.mark.parametrize("name", FIELDS)
def test_the_parts_of_a_minute_are_its_count(name: str) -> None:
    _, values, _ = WORLD.windows(1, name, EPOCH, END)
    counts = getattr(MINUTES, FIELDS[name])[1].reshape(300, -1).T
    by_minute = values.reshape(len(counts), 300, -1)
    assert np.array_equal(by_minute.sum(axis=2), counts)
    if by_minute.shape[2] > 1:
        assert np.ptp(by_minute, axis=2).max() == 1


def test_one_sample_in_200_is_missing() -> None:
    for name in ("parcels_total", "drive_load"):
        valid = EVEN.windows(0, name, EPOCH, END)[2]
        unknown = np.isnan(MINUTES.load[0]).mean() if name == "drive_load" else 0.0
        assert 0.003 < 1 - valid.mean() / (1 - unknown) < 0.007


def test_states_of_one_metric_are_missing_together() -> None:
    valid = [EVEN.windows(0, f"cell_state_seconds:{state}", EPOCH, END)[2] for state in CELL_STATES]
    assert not valid[0].all()
    assert all(np.array_equal(valid[0], one) for one in valid)


def test_nothing_comes_from_a_silent_feed() -> None:
    silent = MINUTES.metrics_silent[0]
    for name, asset, group in (
        ("motor_on", "INF-2", 0),
        ("drive_load", "DRV-12", 1),
        ("tunnel_scans_total", "ST-2", 2),
        ("drive_load", "DRV-4", 3),
        ("divert_fails_total", "CH-060", 4),
        ("air_pressure", "AIR-1", 5),
    ):
        valid = WORLD.window(0, name, asset, EPOCH, END).valid.reshape(300, -1)
        assert not valid[silent[:, group]].any()
        without = EVEN.window(0, name, asset, EPOCH, END).valid.reshape(300, -1)
        assert np.array_equal(valid[~silent[:, group]], without[~silent[:, group]])


def test_state_seconds_are_the_minutes_own() -> None:
    for place, state in enumerate(CELL_STATES):
        _, values, valid = WORLD.windows(2, f"cell_state_seconds:{state}", EPOCH, END)
        assert np.array_equal(values[valid], MINUTES.state_s[2, :, :, place].T[valid])


@pytest.mark.parametrize(
    ("name", "field", "within"),
    [
        ("infeed_occupancy", "occupancy", 1.6),
        ("double_pct", "double_pct", 0.21),
        ("cell_no_grasp", "no_grasp", 0.85),
        ("recirc_pct", "recirc_pct", 0.31),
        ("air_pressure", "air", 0.055),
        ("drive_load", "load", 2.6),
        ("drive_temp", "temp", 0.65),
        ("sorter_speed", "speed", 0.009),
    ],
)
def test_gauges_stay_about_the_minute_and_are_unknown_with_it(
    name: str, field: str, within: float
) -> None:
    _, values, valid = EVEN.windows(0, name, EPOCH, END)
    level = getattr(MINUTES, field)[0].reshape(300, -1).T[:, :, np.newaxis]
    apart = values.reshape(level.shape[0], 300, -1) - level
    assert np.nanmax(np.abs(apart)) <= within
    assert len(np.unique(np.round(apart[~np.isnan(apart)], 6))) > 20
    assert not valid.reshape(apart.shape)[np.broadcast_to(np.isnan(level), apart.shape)].any()
    assert np.isnan(values[~valid]).all()


def test_rates() -> None:
    for name, per_minute in (
        ("cell_rate", MINUTES.picks[0].astype(int) - MINUTES.fails[0]),
        ("manual_rate", MINUTES.manual[0].astype(int)),
        ("arrivals_rate", MINUTES.arrivals[0][:, np.newaxis].astype(int)),
    ):
        _, values, valid = WORLD.windows(0, name, EPOCH, END)
        assert np.array_equal(values[valid], (per_minute.T * 60)[valid])


def test_the_encoder_slips_against_the_drive() -> None:
    slip = np.full_like(MINUTES.slip, 0.05)
    world = CanonicalSeries(replace(MINUTES, slip=slip), seed=7)
    speed = world.window(0, "sorter_speed", "LS-1", EPOCH, END)
    encoder = world.window(0, "encoder_speed", "LS-1", EPOCH, END)
    both = speed.valid & encoder.valid
    ratio = encoder.values[both] / speed.values[both]
    assert abs(ratio.mean() - 1.05) < 0.001


def test_a_tenth_of_the_gaps_is_below_the_minutes_and_an_empty_belt_has_none() -> None:
    minutes = replace(
        MINUTES,
        gap_mm=np.full_like(MINUTES.gap_mm, 300.0),
        inducted=np.where(np.arange(300) < 150, 30, 100).astype(np.uint16) * np.ones((4, 1), int),
    )
    window = CanonicalSeries(minutes, seed=1).window(0, "merge_gap", "SG-1", EPOCH, END)
    assert 290 < np.quantile(window.values[window.valid], 0.1) < 310
    silent = MINUTES.metrics_silent[0, :, 0].repeat(20)
    thin, dense = (
        window.valid[half][~silent[half]].mean() for half in (slice(0, 3000), slice(3000, 6000))
    )
    assert 0.45 < thin < 0.55
    assert dense > 0.99
    minutes = replace(minutes, inducted=np.zeros_like(MINUTES.inducted))
    assert not CanonicalSeries(minutes, seed=1).windows(0, "merge_gap", EPOCH, END)[2].any()


def test_leak_is_known_where_the_cell_picked_and_the_seal_held() -> None:
    _, values, valid = EVEN.windows(0, "cell_leak", EPOCH, END)
    by_minute = valid.reshape(6, 300, 3)
    picked = MINUTES.picks[0].T > 0
    assert not by_minute[~picked].any()
    assert 0.96 < by_minute[picked].mean() < 0.99
    level = MINUTES.leak[0].T[:, :, np.newaxis]
    assert np.nanmax(np.abs(values.reshape(6, 300, 3) / level - 1)) < 0.22


def test_freeflow_is_held_for_half_an_hour() -> None:
    picks = MINUTES.picks.copy()
    picks[:, :, 0] = 9
    picks[:, 100:150, 0] = 0
    freeflow = np.full_like(MINUTES.freeflow, 100.0)
    world = CanonicalSeries(
        replace(
            MINUTES,
            picks=picks,
            freeflow=freeflow,
            metrics_silent=np.zeros_like(MINUTES.metrics_silent),
        ),
        seed=3,
    )
    window = world.window(0, "cell_freeflow", "RC-00", EPOCH, END)
    held = window.values[300:389]  # less than half an hour behind the last that can be measured
    held = held[~np.isnan(held)]
    assert len(held) > 70
    assert len(set(held.tolist())) == 1
    assert held[0] in window.values[270:300]
    assert not window.valid[391:450].any()
    there = window.values[window.valid]
    low = there < 5
    assert 0 < low.mean() < 0.05
    assert np.abs(there[~low] - 100).max() <= 12.1
    assert len(set(there.tolist())) > 100
    repeated = (there[1:] == there[:-1]).mean()
    assert 0.3 < repeated < 0.6


def test_readings_in_another_unit_are_never_round() -> None:
    # FC4 measures pressure in psi, FC1 in bar.
    assert "air_pressure" in SITES[3].units
    for site, at in ((0, 0.0), (3, 0.37)):
        window = WORLD.window(site, "air_pressure", "AIR-1", EPOCH, END)
        parts = (window.values[window.valid] * 100) % 1.0
        assert np.allclose((parts - at + 0.5) % 1.0, 0.5, atol=1e-6)
