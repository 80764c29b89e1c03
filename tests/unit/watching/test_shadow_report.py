"""The interval against its definition and published figures, and the numbers it takes."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.ports import Compared
from triage.watching.shadow_report import BOUNDS, Z, compared_of, needed, wilson

COUNTS = st.integers(1, 100_000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_published_examples(hits: int, of: int, low: float, high: float) -> None:
    assert list(wilson(hits, of)) == pytest.approx([low, high], abs=5e-5)


def test_nothing_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert compared_of({}) == (0, 0)


@given(COUNTS)
def test_both_ends_are_where_the_share_is_just_not_refused(counts: tuple[int, int]) -> None:
    hits, of = counts
    low, high = wilson(hits, of)
    assert 0 <= low <= hits / of <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            distance = abs(hits / of - end)
            assert distance == pytest.approx(Z * sqrt(end * (1 - end) / of), abs=1e-9)


@given(COUNTS)
def test_it_is_the_same_seen_from_the_other_side(counts: tuple[int, int]) -> None:
    hits, of = counts
    low, high = wilson(hits, of)
    assert list(wilson(of - hits, of)) == pytest.approx([1 - high, 1 - low])


@pytest.mark.parametrize("bound", BOUNDS)
def test_if_all_agree_so_many_are_enough_and_one_less_is_not(bound: float) -> None:
    number = needed(bound)
    assert number is not None
    assert wilson(number, number)[0] >= bound
    assert wilson(number - 1, number - 1)[0] < bound


@given(st.floats(0.5, 0.98), st.integers(2, 50))
def test_at_a_share_so_many_are_enough(bound: float, odds: int) -> None:
    """For shares that whole numbers of comparisons can have."""
    share = 1 - 1 / (odds * 10)
    number = needed(bound, share)
    if share <= bound:
        assert number is None
        return
    assert number is not None
    whole = -(-number // (odds * 10)) * odds * 10
    assert wilson(whole - whole // (odds * 10), whole)[0] >= bound - 1e-9


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_bound_above_the_share_is_never_reached(share: float) -> None:
    assert needed(0.99, share) is None


def test_only_what_agrees_or_differs_is_compared() -> None:
    counts = {
        Compared.AGREES: 7,
        Compared.DIFFERS: 2,
        Compared.UNRECORDED: 100,
        Compared.FAILED: 100,
        Compared.DROPPED: 100,
    }
    assert compared_of(counts) == (7, 9)
