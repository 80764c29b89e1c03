from collections import Counter

import numpy as np
import pytest

from bench.world import faults
from bench.world.fault_kinds import KINDS, level, magnitude
from bench.world.layout import ASSETS, DAYS, EPOCH
from bench.world.minutes import Episode
from bench.world.simulate_effects import effects

SEED = 7
WEEKS = 4


@pytest.fixture(scope="module")
def few() -> tuple[Episode, ...]:
    return faults.episodes(SEED, EPOCH, 7 * WEEKS, 2)


def test_the_same_seed_gives_the_same_faults(few: tuple[Episode, ...]) -> None:
    assert faults.episodes(SEED, EPOCH, 7 * WEEKS, 2) == few
    assert faults.episodes(SEED + 1, EPOCH, 7 * WEEKS, 2) != few


def test_every_kind_comes_as_often_as_it_should(few: tuple[Episode, ...]) -> None:
    count = Counter(one.fault for one in few)

    for fault, kind in KINDS.items():
        wanted = kind.rate * WEEKS * 2
        assert abs(count[fault] - wanted) <= max(2.0, 0.2 * wanted), fault


def test_twenty_episodes_of_each_root_cause_lie_behind_the_first_four_weeks() -> None:
    usable = EPOCH + 28 * 86_400
    count = Counter(
        one.fault for one in faults.episodes(SEED, EPOCH, DAYS, 5) if one.start > usable
    )

    causes = [fault for fault in KINDS if not fault.startswith("not_")][:22]
    assert len(causes) == 22
    assert {fault: count[fault] for fault in causes if count[fault] < 20} == {}


def test_episodes_are_in_order_of_whole_minutes_and_of_known_assets(
    few: tuple[Episode, ...],
) -> None:
    known = {asset for assets in ASSETS.values() for asset in assets} | {""}

    assert [one.episode for one in few] == list(range(len(few)))
    assert [one.start for one in few] == sorted(one.start for one in few)
    for one in few:
        assert one.onset <= one.start < one.end
        assert one.onset % 60 == one.start % 60 == one.end % 60 == 0
        assert 0 <= one.severity <= 1
        assert one.asset in known


def test_few_faults_overlap(few: tuple[Episode, ...]) -> None:
    real = [one for one in few if not one.fault.startswith("not_") and one.fault != "jam"]
    shared = [
        any(
            other is not one
            and other.site == one.site
            and other.start < one.end
            and other.end > one.start
            for other in real
        )
        for one in real
    ]
    assert 0.03 < np.mean(shared) < 0.3


def _episode(fault: str, *, creep: int = 0, lasts: int = 60, severity: float = 0.8) -> Episode:
    start = EPOCH + 36_000
    return Episode(
        fault=fault,
        site=0,
        asset=next(iter(ASSETS.get(next(iter(KINDS[fault].assets)), ("DRV-0",)))),
        onset=start - 60 * creep,
        start=start,
        end=start + 60 * lasts,
        severity=severity,
        episode=0,
    )


@pytest.mark.parametrize("fault", ["cup_worn", "scan_lens_dirty", "divert_worn", "gap_loss"])
def test_what_creeps_matters_from_its_start_and_is_whole_before_its_end(fault: str) -> None:
    one = _episode(fault, creep=100)
    at = np.arange(one.onset - 120, one.end + 180, 60, dtype=np.int64)
    how_bad = level(one, at)

    assert (how_bad[(at < one.onset) | (at >= one.end)] == 0).all()
    assert (np.diff(how_bad[at < one.end]) >= 0).all()
    assert how_bad[at == one.start][0] == pytest.approx(
        min(KINDS[fault].matters, 0.85 * magnitude(one))
    )
    assert how_bad[at == one.end - 60][0] == pytest.approx(magnitude(one))


@pytest.mark.parametrize("fault", [fault for fault in KINDS if fault != "trailer_absent"])
def test_every_kind_does_something_in_its_time_only(fault: str) -> None:
    one = _episode(fault, severity=1.0)
    quiet = effects((), EPOCH, 1440, 1)
    told = effects((one,), EPOCH, 1440, 1)
    first, last = (one.start - EPOCH) // 60, (one.end - EPOCH) // 60

    differs = np.zeros(1440, dtype=np.bool_)
    for name in told.__slots__:
        change = getattr(told, name)[0] != getattr(quiet, name)[0]
        differs |= change.reshape(1440, -1).any(axis=1)
    assert differs[first:last].any()
    assert not differs[:first].any()
    assert not differs[last + 3 :].any()
