"""One draw and many are the same numbers, spread evenly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.world.chance import below, belows, stream, uniform, uniforms

keys = st.integers(0, 2**64 - 1)


@given(key=keys, counters=st.lists(st.integers(0, 2**40), min_size=1, max_size=9))
def test_one_and_many_agree(key: int, counters: list[int]) -> None:
    many = np.array(counters, dtype=np.int64)
    assert uniforms(key, many).tolist() == [uniform(key, counter) for counter in counters]
    assert belows(7, key, many).tolist() == [below(7, key, counter) for counter in counters]
    assert uniforms(key, many.reshape(-1, 1)).shape == (len(counters), 1)


@given(key=keys)
def test_draws_are_spread(key: int) -> None:
    drawn = uniforms(key, np.arange(4000))
    assert ((drawn >= 0) & (drawn < 1)).all()
    assert abs(drawn.mean() - 0.5) < 0.05
    assert set(belows(5, key, np.arange(400)).tolist()) == {0, 1, 2, 3, 4}


def test_streams_differ_by_every_part_and_their_order() -> None:
    found = {stream(1, "a", 2), stream(1, 2, "a"), stream(2, "a", 2), stream(1, "b", 2)}
    assert len(found) == 4
