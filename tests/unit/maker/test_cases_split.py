"""Cases parted by time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.maker.cases_world import AT, labelled, shop, shop_sites
from triage.maker.cases_split import Split, split_cases
from triage.model.case import LabelledCase


def numbers(cases: tuple[LabelledCase, ...]) -> list[int]:
    return [int(case.entity.removeprefix("mail-")) for case in cases]


def parts(split: Split) -> tuple[list[int], list[int]]:
    return numbers(split.train), numbers(split.heldout)


@pytest.mark.parametrize("share", [0, -0.5, 1.01, float("nan")])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        split_cases([], share=share)


def test_none_and_one() -> None:
    assert split_cases([]) == Split((), (), None)
    assert parts(split_cases([labelled(1)])) == ([1], [])


def test_half_of_them_by_time_whatever_their_order() -> None:
    cases = [labelled(number, "true" if number % 2 else "false") for number in range(7)]
    split = split_cases(cases[::-1])
    assert parts(split) == ([0, 1, 2], [3, 4, 5, 6])
    assert split.cut == cases[3].timestamp
    assert split.verdicts == {
        "train": {"false": 2, "true": 1},
        "heldout": {"false": 2, "true": 2},
    }
    assert split_cases([cases[i] for i in (3, 0, 6, 1, 5, 2, 4)]) == split


@pytest.mark.parametrize(("share", "train"), [(0.01, 1), (0.3, 3), (0.75, 7), (0.99, 9), (1, 10)])
def test_another_share(share: float, train: int) -> None:
    assert len(split_cases(list(map(labelled, range(10))), share=share).train) == train


def test_what_is_close_at_one_site_stays_together() -> None:
    chained = [labelled(number, hours=0.9 * number) for number in range(6)]
    late = [labelled(10 + number, hours=100 + number) for number in range(2)]
    split = split_cases([*chained, *late])
    assert parts(split) == ([0, 1, 2, 3, 4, 5], [10, 11])
    assert parts(split_cases([*chained, *late], gap_s=60)) == ([0, 1, 2, 3], [4, 5, 10, 11])
    everywhere = split_cases(chained)
    assert parts(everywhere) == ([0, 1, 2, 3, 4, 5], [])
    assert everywhere.cut is None


def test_the_gap_itself_is_close() -> None:
    assert split_cases([labelled(1, hours=0), labelled(2, hours=1)]).heldout == ()
    assert len(split_cases([labelled(1, hours=0), labelled(2, hours=1.0003)]).heldout) == 1


def test_other_sites_do_not_hold_together_but_an_instant_does() -> None:
    cases = [labelled(number, hours=0.1 * number, site=f"s{number}") for number in range(4)]
    assert parts(split_cases(cases)) == ([0, 1], [2, 3])
    same = [labelled(number, hours=0, site=f"s{number}") for number in range(4)]
    assert split_cases(same).heldout == ()


def test_two_names_of_a_site_are_one_site() -> None:
    cases = [labelled(1, hours=0), labelled(2, hours=0.5, site="N1")]
    assert len(split_cases(cases).heldout) == 1
    assert split_cases(cases, sites=shop_sites(shop())).heldout == ()


def test_what_a_case_says_of_itself_wins_and_counts() -> None:
    cases = [labelled(number) for number in range(6)]
    cases += [labelled(7, split="train"), labelled(-1, split="heldout")]
    split = split_cases(cases)
    assert parts(split) == ([0, 1, 2, 7], [-1, 3, 4, 5])
    more = [*cases[:6], labelled(7, split="train"), labelled(8, split="train")]
    assert parts(split_cases(more)) == ([0, 1, 7, 8], [2, 3, 4, 5])
    marked = [labelled(1, split="heldout"), labelled(2, split="train")]
    assert split_cases(marked) == Split((marked[1],), (marked[0],), None)
    most = [labelled(number, split="train") for number in range(6)] + [labelled(9)]
    assert parts(split_cases(most)) == ([0, 1, 2, 3, 4, 5], [9])
    assert parts(split_cases([*most[:6], labelled(9, split="heldout")], share=1))[1] == [9]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3000).map(lambda tenths: tenths / 10),
            st.sampled_from(["north", "south", "N1"]),
            st.sampled_from(["", "", "", "train", "heldout"]),
        ),
        max_size=30,
    ),
    st.floats(0.05, 1),
)
def test_no_case_is_lost_and_no_cut_parts_what_is_one(
    drawn: list[tuple[float, str, str]], share: float
) -> None:
    cases = [
        labelled(number, hours=hours, site=site, split=split)
        for number, (hours, site, split) in enumerate(drawn)
    ]
    split = split_cases(cases, share=share)
    assert sorted(numbers(split.train) + numbers(split.heldout)) == list(range(len(cases)))
    train = [case for case in split.train if not case.split]
    heldout = [case for case in split.heldout if not case.split]
    assert all(case.split != "heldout" for case in split.train)
    assert all(case.split != "train" for case in split.heldout)
    for early in train:
        for late in heldout:
            assert early.timestamp < late.timestamp
            if early.warehouse == late.warehouse:
                assert late.timestamp - early.timestamp > timedelta(hours=1)
    if split.cut is not None:
        assert all(case.timestamp < split.cut for case in train)
        assert all(case.timestamp >= split.cut for case in heldout)
    else:
        assert not heldout
    assert all(case.timestamp >= AT for case in split.train)
