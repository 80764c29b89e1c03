"""The statistics: what they promise, held to in simulations and for any order of observations."""

from __future__ import annotations

from itertools import pairwise
from math import comb, exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.watching.drift_evidence import (
    ALARM,
    FAR,
    KEPT,
    LAG,
    LEAST,
    LEAST_S,
    MOST,
    Gathering,
    Reference,
    Share,
    Streak,
    median,
    rank_bets,
    upper_limit,
)


@pytest.mark.parametrize("kept", [LEAST, 40, KEPT])
def test_bets_on_ranks_are_e_values(kept: int) -> None:
    """Over all ranks that are equally likely while nothing has changed, the mean of E is 1 at the
    most."""
    for place in (0, 1):
        mean = sum(exp(rank_bets(rank, kept)[place]) for rank in range(kept + 1)) / (kept + 1)
        assert mean <= 1 + 1e-9


@pytest.mark.parametrize("kept", [LEAST, KEPT])
def test_the_rarer_the_more_it_counts(kept: int) -> None:
    values = [rank_bets(rank, kept)[1] for rank in range(kept + 1)]
    assert values == sorted(values, reverse=True)
    assert rank_bets(0, kept)[0] > 0 > rank_bets(1, kept)[0]


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_share_lies_below_its_upper_limit(hits: int, more: int) -> None:
    count = hits + more
    limit = upper_limit(hits, count)
    assert hits / count <= limit < 1


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), max_size=60), st.floats(0, 1))
def test_evidence_is_never_below_none_nor_above_what_is_kept(
    bets: list[tuple[float, float]], weight: float
) -> None:
    gathering = Gathering()
    for bet in bets:
        gathering.bet(bet, weight)
        assert gathering.log_evidence <= MOST
        again = Gathering.of(gathering.document())
        assert (again.logs, again.runs) == (gathering.logs, gathering.runs)


def test_less_weight_is_less_evidence() -> None:
    full, half = Gathering(), Gathering()
    for _ in range(3):
        full.bet((2.0, 1.0), 1.0)
        half.bet((2.0, 1.0), 0.5)
    assert 0 < half.log_evidence < full.log_evidence


# --- references -------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), max_size=300))
def test_a_reference_holds_only_what_it_was_given(values: list[float]) -> None:
    reference, again = Reference(), Reference()
    for at, value in enumerate(values):
        reference.learn(value, at)
        again.learn(value, at)
    assert len(reference.kept) <= KEPT
    assert len(reference.newest) <= LAG
    assert set(reference.kept) <= set(values)
    assert reference.kept == again.kept
    if len(values) <= KEPT:
        assert sorted([*reference.kept, *reference.newest]) == sorted(values)


def test_the_past_is_kept_in_about_equal_shares() -> None:
    reference = Reference()
    for value in range(1000):
        reference.learn(float(value), value)
    thirds = [len([one for one in reference.kept if one // 334 == third]) for third in range(3)]
    assert min(thirds) >= KEPT // 6


def test_ties_count_against_an_alarm() -> None:
    reference = Reference([5.0] * LEAST)
    assert reference.ranks(5.0) == (LEAST, LEAST)


def test_a_scale_is_robust_and_has_a_least() -> None:
    reference = Reference([0.0, 1.0, 2.0, 3.0, 4.0, 1e9])
    assert reference.scale(0.1) == pytest.approx(1.4826 * 1.0)
    assert Reference([7.0] * 10).scale(0.02) == 0.02


def test_a_reference_is_ready_when_it_has_seen_days_and_enough() -> None:
    crowded, slow = Reference(), Reference()
    for step in range(LEAST + LAG):
        crowded.learn(1.0, 60.0 * step)
        slow.learn(1.0, LEAST_S / (LEAST + LAG - 1) * step)
        assert Reference.of(slow.document()).ready == slow.ready
    assert len(crowded.kept) == LEAST
    assert not crowded.ready
    assert slow.ready
    slow.forget()
    assert not slow.ready


def test_far_beyond_counts_more_and_within_bounds() -> None:
    reference = Reference([float(value) for value in range(KEPT)])
    assert reference.ranges_beyond(10.0, 1.0) == 0
    assert reference.ranges_beyond(-2 * (KEPT - 1), 1.0) == pytest.approx(2.0)
    near, far, farther = (rank_bets(0, KEPT, ranges)[0] for ranges in (0.5, 3.0, 1e9))
    assert near == rank_bets(0, KEPT)[0]
    assert near < far < farther <= near + FAR


def test_bets_on_far_ones_are_e_values_for_tails_that_fall() -> None:
    """An exponential of half the range beyond it, at ten thousand quantiles."""
    steps = 10_000
    quantiles = [-0.5 * log((at + 0.5) / steps) for at in range(steps)]
    beyond = sum(exp(rank_bets(0, KEPT, d)[0]) for d in quantiles) / steps
    within = exp(rank_bets(1, KEPT)[0])
    assert (beyond + KEPT * within) / (KEPT + 1) <= 1.1
    assert 1.14 * 0.6 <= 0.7  # what the bet would be without it


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median_is_one_of_them(values: list[float]) -> None:
    assert median(values) in values


# --- false alarms -----------------------------------------------------------------------------


def _alarms(seed: int, steps: int) -> int:
    """Of one monitor of ranks on independent values: how often it comes to an alarm, and is then
    begun anew."""
    chance, reference, gathering = Random(seed), Reference(), Gathering()
    alarms = 0
    for step in range(steps):
        value = chance.gauss(0, 1)
        if reference.ready:
            gathering.bet(rank_bets(reference.ranks(value)[0], len(reference.kept)), 1.0)
        reference.learn(value, 3600.0 * step)
        if gathering.alarms:
            alarms += 1
            gathering = Gathering()
    return alarms


def test_independent_values_give_fewer_false_alarms_than_is_promised() -> None:
    # The bound, 1 in 10^6 steps, holds for a reference of all the past; one of 64 loosens it.
    assert sum(_alarms(seed, 5_000) for seed in range(10)) == 0


def test_a_share_that_stays_gives_no_alarm() -> None:
    for seed in range(10):
        chance, share = Random(seed), Share()
        for _ in range(3000):
            share.see(chance.random() < 0.1, 1.0)
            assert not share.open


def test_a_share_that_rises_opens_and_closes() -> None:
    chance, share = Random(1), Share()
    for _ in range(200):
        share.see(chance.random() < 0.05, 1.0)
    for _ in range(8):
        share.see(True, 1.0)
    assert share.open
    for _ in range(LAG + 2):
        share.see(False, 1.0)
    assert not share.open


def test_a_small_rise_is_no_trouble_however_certain() -> None:
    chance, share = Random(2), Share()
    for _ in range(2000):
        share.see(chance.random() < 0.01, 1.0)
    opened = 0
    for _ in range(300):
        share.see(chance.random() < 0.08, 1.0)
        opened += share.open
    assert opened <= 30


# --- streaks ----------------------------------------------------------------------------------


@given(st.integers(LEAST, 500), st.integers(1, 12))
def test_the_evidence_of_a_streak_is_the_chance_of_its_order(count: int, times: int) -> None:
    streak = Streak(True, float(count))
    for _ in range(times):
        streak.see(False, 1.0)
    assert streak.log_evidence == pytest.approx(log(comb(count + times, times)), rel=1e-9)
    assert streak.alarms == (log(comb(count + times, times)) >= ALARM)


@given(st.lists(st.booleans(), max_size=80))
def test_what_is_now_so_and_now_not_is_optional(seen: list[bool]) -> None:
    streak = Streak()
    for so in seen:
        streak.see(so, 1.0)
    changes = sum(1 for before, after in pairwise(seen) if before != after)
    if changes >= 2:
        assert streak.always is None
        assert not streak.alarms
    again = Streak.of(streak.document())
    assert (again.always, again.count, again.other) == (streak.always, streak.count, streak.other)


def test_a_few_times_say_nothing() -> None:
    streak = Streak()
    for _ in range(LEAST - 1):
        streak.see(True, 1.0)
    for _ in range(50):
        streak.see(False, 1.0)
    assert not streak.alarms
