from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.world.canonical import Changes
from bench.world.layout import ASSETS, EPOCH
from bench.world.minutes import SILENT_GROUPS, EyeMode
from bench.world.series import CanonicalSeries
from tests.unit.bench_world.small_minutes import small_minutes

COUNT = 240  # minutes
MINUTES = small_minutes(minutes=COUNT)
WORLD = CanonicalSeries(MINUTES, seed=7)
EVEN_MINUTES = replace(MINUTES, metrics_silent=np.zeros_like(MINUTES.metrics_silent))
EVEN = CanonicalSeries(EVEN_MINUTES, seed=7)
END = EVEN.end
STATES = [
    *(("eye_blocked", eye) for eye in ASSETS["PE"]),
    *(("chute_full", chute) for chute in ASSETS["CH"]),
]


def seconds(changes: Changes, before: int = 0) -> NDArray[np.int8]:
    """The level in each second of the world: entry s is of (start+s, start+s+1)."""
    level = np.full(END - EPOCH + 1, before, dtype=np.int8)
    for at, value in zip(changes.times, changes.values, strict=True):
        level[max(at - EPOCH, 0) :] = value
    return level[:-1]


def runs(changes: Changes) -> list[tuple[int, int]]:
    """Complete runs of 1, start and end."""
    times = changes.times.tolist()
    values = changes.values.tolist()
    return [
        (times[place], times[place + 1]) for place in range(len(times) - 1) if values[place] == 1
    ]


def eye_world(modes: list[int], count: int = 30) -> Changes:
    eye_mode, eye_count = MINUTES.eye_mode.copy(), MINUTES.eye_count.copy()
    eye_mode[0, :, 0] = np.resize(np.array(modes, dtype=np.uint8), COUNT)
    eye_count[0, :, :2] = count
    world = CanonicalSeries(replace(EVEN_MINUTES, eye_mode=eye_mode, eye_count=eye_count), seed=7)
    return world.changes(0, "eye_blocked", "PE-11", EPOCH - 1, END)


@settings(deadline=None, max_examples=150)
@given(
    state=st.sampled_from(STATES),
    cuts=st.lists(st.integers(EPOCH - 300, END + 300), min_size=3, max_size=5).map(sorted),
    world=st.sampled_from([WORLD, EVEN]),
)
def test_changes_are_those_of_the_parts(
    state: tuple[str, str], cuts: list[int], world: CanonicalSeries
) -> None:
    whole = world.changes(0, *state, cuts[0], cuts[-1])
    parts = [world.changes(0, *state, start, end) for start, end in pairwise(cuts)]
    assert whole.times.tolist() == [at for part in parts for at in part.times.tolist()]
    assert whole.values.tolist() == [value for part in parts for value in part.values.tolist()]
    assert all(cuts[0] < at <= cuts[-1] for at in whole.times.tolist())


@pytest.mark.parametrize(("series", "asset"), STATES)
def test_each_change_is_one(series: str, asset: str) -> None:
    for world in (WORLD, EVEN):
        times, values = world.changes(0, series, asset, EPOCH - 1, END)
        assert (np.diff(times) > 0).all()
        repeats = int((np.diff(values) == 0).sum())
        assert repeats <= (2 if series == "chute_full" else 0)
        assert len(times) > 30


def test_clear_flow_blocks_for_less_than_eight_seconds() -> None:
    busy = eye_world([EyeMode.CLEAR], count=35)
    assert max(end - start for start, end in runs(busy)) < 8
    assert 0.33 < seconds(busy).mean() < 0.45
    quiet = eye_world([EyeMode.CLEAR], count=1)
    assert 0.03 < seconds(quiet).mean() < 0.12
    assert not len(eye_world([EyeMode.CLEAR], count=0).times)


def test_a_jam_is_one_run_whatever_is_around_it() -> None:
    for other in (EyeMode.CLEAR, EyeMode.DENSE, EyeMode.QUEUED):
        found = runs(eye_world([other, EyeMode.JAM, EyeMode.JAM, EyeMode.JAM, other]))
        jams = [run for run in found if run[1] - run[0] > 50]
        first = EPOCH + 60
        assert jams == [(first + 300 * n, first + 300 * n + 180) for n in range(COUNT // 5)]


def test_a_dirty_eye_is_blocked_all_but_a_twentieth() -> None:
    changes = eye_world([EyeMode.DIRTY])
    assert seconds(changes).mean() == 0.95
    gaps = np.diff(changes.times)[1::2]
    assert set(gaps.tolist()) == {1}


def test_gapless_flow_blocks_for_8_to_15_seconds() -> None:
    found = runs(eye_world([EyeMode.DENSE]))
    assert {end - start for start, end in found} == set(range(8, 16))
    assert len(found) == 3 * COUNT
    samples = [end // 10 - (start - 1) // 10 for start, end in found]
    assert 0.1 < np.mean(np.array(samples) >= 2) < 0.5


def test_a_queue_blocks_for_20_to_50_seconds() -> None:
    found = runs(eye_world([EyeMode.QUEUED]))
    lengths = {end - start for start, end in found}
    assert min(lengths) >= 20
    assert max(lengths) <= 50
    assert len(lengths) > 20
    assert len(found) == COUNT


@pytest.mark.parametrize("passing", range(8))
def test_in_a_queue_the_next_counter_creeps_on(passing: int) -> None:
    mode, count = MINUTES.eye_mode.copy(), MINUTES.eye_count.copy()
    mode[0, :, 0] = EyeMode.QUEUED
    count[0, :, 1] = passing
    world = CanonicalSeries(replace(EVEN_MINUTES, eye_mode=mode, eye_count=count), seed=7)
    found = runs(world.changes(0, "eye_blocked", "PE-11", EPOCH - 1, END))
    assert len(found) == (COUNT if passing >= 2 else 0)
    for start, end in found:
        first = -(-start // 10) * 10  # the sample from which on a rise is seen
        assert world.window(0, "parcels_total", "PE-12", first, end).values.sum() > 0


def test_a_chute_is_full_for_its_share_of_each_minute() -> None:
    for row, chute in enumerate(ASSETS["CH"]):
        level = seconds(EVEN.changes(0, "chute_full", chute, EPOCH - 1, END))
        shares = MINUTES.full[0, :, row].astype(float) * 60
        by_minute = level.reshape(COUNT, 60)
        assert by_minute.sum(axis=1).tolist() == np.rint(shares).tolist()
        assert (np.abs(np.diff(by_minute, axis=1)).sum(axis=1) <= 2).all()


def test_a_chute_that_stays_full_has_one_run() -> None:
    full = np.zeros_like(MINUTES.full)
    full[0, 9:15, 0] = (0.25, 1, 1, 1, 0.5, 0)
    world = CanonicalSeries(replace(EVEN_MINUTES, full=full), seed=7)
    changes = world.changes(0, "chute_full", "CH-001", EPOCH, EPOCH + 3600)
    assert runs(changes) == [(EPOCH + 600 - 15, EPOCH + 780 + 30)]


@pytest.mark.parametrize(("series", "asset"), STATES[::7])
def test_behind_a_silence_comes_what_then_is(series: str, asset: str) -> None:
    """As of an exporter that looks each second, and writes what is not what it last wrote."""
    group = WORLD.group(0, series, asset)
    truth = seconds(EVEN.changes(0, series, asset, EPOCH - 1, END))
    silent = MINUTES.metrics_silent[0, :, group].repeat(60)
    written, last = [], 0
    # A change at second s of the world is the first of truth[s]; its minute is that of s - 1.
    for second in range(1, len(truth)):
        if truth[second] != last and not silent[second - 1]:
            last = int(truth[second])
            written.append((EPOCH + second, last))
    changes = WORLD.changes(0, series, asset, EPOCH, END - 1)
    assert silent.any()
    found = list(zip(changes.times.tolist(), changes.values.tolist(), strict=True))
    again = [
        one for one, before in zip(found, [(0, 0), *found], strict=False) if one[1] == before[1]
    ]
    assert [one for one in found if one not in again] == written


def test_a_chutes_state_is_written_every_three_hours() -> None:
    minutes = small_minutes(minutes=1200, silence=False)
    silent = minutes.metrics_silent
    silent[0, 400:700, SILENT_GROUPS.index("chutes")] = True
    full = np.zeros_like(minutes.full)
    full[0, 300:900] = 1.0
    world = CanonicalSeries(replace(minutes, full=full), seed=7)
    phases = set()
    for chute in ASSETS["CH"]:
        times, values = world.changes(0, "chute_full", chute, EPOCH, world.end)
        change = EPOCH + 300 * 60, EPOCH + 900 * 60
        assert values.tolist() == [int(change[0] <= at < change[1]) for at in times]
        assert set(change) <= set(times.tolist())
        phases |= {int(at) % 10_800 for at in times if at not in change}
        waits = np.diff(times[(times <= EPOCH + 400 * 60)], prepend=EPOCH)
        assert waits.max() <= 10_800
        assert not ((times > EPOCH + 400 * 60) & (times <= EPOCH + 700 * 60)).any()
    assert 50 < len(phases) <= 60


def test_all_assets_at_once() -> None:
    for series, prefix in (("eye_blocked", "PE"), ("chute_full", "CH")):
        together = WORLD.all_changes(0, series, EPOCH + 500, EPOCH + 5000)
        for asset, (times, values) in zip(ASSETS[prefix], together, strict=True):
            alone = WORLD.changes(0, series, asset, EPOCH + 500, EPOCH + 5000)
            assert np.array_equal(times, alone.times)
            assert np.array_equal(values, alone.values)
