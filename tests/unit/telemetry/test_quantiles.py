"""Sliding quantiles against exact ones."""

from __future__ import annotations

from math import ceil, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from triage.telemetry.quantiles import (
    LARGEST,
    SMALLEST,
    QuantileFamily,
    SlidingQuantiles,
)


class HandClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def exact(values: list[float], q: float) -> float:
    return sorted(values)[max(0, ceil(q * len(values)) - 1)]


@given(
    st.lists(st.floats(SMALLEST, LARGEST), min_size=1, max_size=200),
    st.floats(0, 1),
    st.sampled_from([0.001, 0.01, 0.1]),
)
def test_within_the_relative_error(values: list[float], q: float, error: float) -> None:
    sketch = SlidingQuantiles(clock=HandClock(), relative_error=error)
    for value in values:
        sketch.observe(value)
    want = exact(values, q)
    assert abs(sketch.quantile(q) - want) <= want * error * (1 + 1e-6)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 10)), min_size=1, max_size=80))
def test_only_the_window_counts(steps: list[tuple[float, float]]) -> None:
    """Whatever is older than the window is gone; whatever is younger than window - slot counts."""
    clock = HandClock()
    sketch = SlidingQuantiles(clock=clock, window_s=300, slots=10)
    seen: list[tuple[float, float]] = []
    for wait, value in steps:
        clock.now += wait
        sketch.observe(value)
        seen.append((clock.now, value))
    surely = [value for at, value in seen if clock.now - at < 270]
    perhaps = [value for at, value in seen if clock.now - at <= 300]
    assert min(perhaps) * 0.98 <= sketch.quantile(0) <= min(surely) * 1.02
    assert max(surely) * 0.98 <= sketch.quantile(1) <= max(perhaps) * 1.02


def test_nan_before_the_first_observation_and_after_the_last_left() -> None:
    clock = HandClock()
    sketch = SlidingQuantiles(clock=clock, window_s=300, slots=10)
    assert isnan(sketch.quantile(0.5))
    sketch.observe(0.25)
    clock.now += 269
    assert sketch.quantile(0.5) == pytest.approx(0.25, rel=0.01)
    clock.now += 32
    assert isnan(sketch.quantile(0.5))
    sketch.observe(4)
    assert sketch.quantile(0.5) == pytest.approx(4, rel=0.01)


def test_a_long_silence_does_not_bring_old_slots_back() -> None:
    clock = HandClock()
    sketch = SlidingQuantiles(clock=clock, window_s=10, slots=10)
    for _ in range(10):
        sketch.observe(9)
        clock.now += 1
    clock.now += 1_000_000
    sketch.observe(1)
    assert sketch.quantile(1) == pytest.approx(1, rel=0.01)


def test_zero_and_absurd_values_are_held_at_the_edges() -> None:
    sketch = SlidingQuantiles(clock=HandClock())
    sketch.observe(0)
    sketch.observe(-1)
    sketch.observe(float("nan"))
    assert sketch.quantile(1) == 0
    sketch.observe(float("inf"))
    assert sketch.quantile(1) == pytest.approx(LARGEST, rel=0.01)


@pytest.mark.parametrize(
    ("error", "slots", "window"), [(0, 10, 300), (1, 10, 300), (0.01, 0, 300), (0.01, 10, 0)]
)
def test_senseless_parameters_are_refused(error: float, slots: int, window: float) -> None:
    with pytest.raises(ValueError, match="need"):
        SlidingQuantiles(clock=HandClock(), window_s=window, slots=slots, relative_error=error)


def test_exposed_per_label_and_quantile() -> None:
    registry = CollectorRegistry()
    fast, slow = SlidingQuantiles(clock=HandClock()), SlidingQuantiles(clock=HandClock())
    QuantileFamily(
        "op_quantile_seconds", "Ops.", ("op",), {("f",): fast, ("s",): slow}, registry=registry
    )
    for value in range(1, 101):
        fast.observe(value)
    got = registry.get_sample_value("op_quantile_seconds", {"op": "f", "quantile": "0.5"})
    assert got == pytest.approx(50, rel=0.01)
    got = registry.get_sample_value("op_quantile_seconds", {"op": "f", "quantile": "0.99"})
    assert got == pytest.approx(99, rel=0.01)
    empty = registry.get_sample_value("op_quantile_seconds", {"op": "s", "quantile": "0.5"})
    assert empty is not None
    assert isnan(empty)


def test_p99_of_a_few_is_the_slowest_of_them() -> None:
    quantiles = SlidingQuantiles(clock=lambda: 0.0)
    for seconds in (0.01, 0.02, 0.5):
        quantiles.observe(seconds)
    assert quantiles.quantile(0.99) == pytest.approx(0.5, rel=0.011)
    assert quantiles.quantile(0.5) == pytest.approx(0.02, rel=0.011)
