"""The load bench runs, and its figures are of one piece. How fast is for it to say, not here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest

from bench.load import sustained as load
from bench.load.open_loop import arrivals
from bench.load.sustained import LoadFailed, Plan, Trial, measure_load
from bench.ranks import nearest_rank

RATES = ("unloaded", "at_50", "at_80")


def test_measure_load(monkeypatch: pytest.MonkeyPatch) -> None:
    # A machine that does other things may be slow, and that is not what is tested.
    monkeypatch.setattr(load, "P99_LIMIT_S", 60.0)
    monkeypatch.setattr(load, "DRAIN_S", 60.0)
    monkeypatch.setattr(load, "LATE_S", 60.0)
    told: list[tuple[int, int]] = []
    figures = measure_load(
        None,
        lambda done, of: told.append((done, of)),
        plan=Plan(
            unloaded_rate=10,
            unloaded_s=0.5,
            first_rate=10,
            highest_rate=20,
            trial_s=0.5,
            confirm_s=0.5,
            run_s=0.5,
            rounds=1,
        ),
    )
    for name in (
        "max_rate_per_s",
        "p50_ms_unloaded",
        "p99_ms_at_50",
        "p99_ms_at_80",
        "p99_at_50_ratio",
        "p99_at_80_ratio",
        "resident_mb_start",
        "resident_mb_end",
    ):
        assert math.isfinite(figures[name]), name
        assert figures[name] > 0, name
    assert figures["max_rate_per_s"] == 20
    assert figures["balances"]
    assert figures["accepted"] == figures["decided"] > 0
    assert figures["pending"] == figures["dead_lettered"] == figures["outbox_pending"] == 0
    assert len(told) == len(figures["trials"])


def trial(
    latencies: Sequence[float] = (0.01,) * 100,
    *,
    statuses: dict[int, int] | None = None,
    sent: int = 100,
    late: float = 0.0,
    backlog: float = 0.0,
    degraded: int = 0,
) -> Trial:
    return Trial(
        rate=10.0,
        sent=sent,
        statuses=statuses or {202: sent},
        latencies=latencies,
        late_p99_s=late,
        backlog_s=backlog,
        in_flight=1,
        degraded=degraded,
    )


def test_what_it_takes_to_keep_up() -> None:
    assert trial().is_kept_up
    assert not trial(statuses={202: 99, 429: 1}).is_kept_up
    assert not trial(statuses={202: 99, 0: 1}).is_kept_up
    assert not trial((0.01,) * 99).is_kept_up
    assert not trial((0.01,) * 98 + (9.0,) * 2).is_kept_up
    assert trial((0.01,) * 99 + (9.0,)).is_kept_up
    assert not trial(backlog=1.1).is_kept_up
    assert not trial(degraded=1).is_kept_up


def test_a_sender_that_was_late_is_not_the_daemons_fault() -> None:
    with pytest.raises(LoadFailed, match="sender"):
        assert trial(late=0.2).is_kept_up
    assert not trial(late=0.2, degraded=1).is_kept_up


def test_arrivals_are_poisson_and_repeatable() -> None:
    moments = arrivals(200.0, 50.0, seed=1)
    assert moments == arrivals(200.0, 50.0, seed=1)
    assert moments != arrivals(200.0, 50.0, seed=2)
    assert moments == sorted(moments)
    assert 0 < moments[0] <= moments[-1] < 50.0
    assert 9_500 < len(moments) < 10_500
    gaps = [after - before for before, after in pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert 0.95 < spread / mean < 1.05  # an exponential's spread is its mean


def test_quantile_is_the_nearest_rank() -> None:
    assert nearest_rank([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert nearest_rank([1.0, 2.0, 3.0, 4.0], 0.99) == 4.0
    assert nearest_rank([1.0], 0.0) == 1.0
    assert math.isnan(nearest_rank([], 0.5))
