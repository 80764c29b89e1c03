import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bench.world import cache
from bench.world.layout import EPOCH
from bench.world.minutes import Episode, Minutes
from bench.world.simulate import ARRAYS
from tests.unit.bench_world.small_minutes import small_minutes


def _made() -> Minutes:
    """With episodes and a departure: the arrays are anybody's."""
    return dataclasses.replace(
        small_minutes(),
        departures={"site": np.array([0]), "cpt": np.array([EPOCH + 7200])},
        episodes=tuple(
            Episode(
                fault="jam",
                site=0,
                asset="PE-11",
                onset=EPOCH + 600,
                start=EPOCH + 600,
                end=EPOCH + 900,
                severity=0.125,
                episode=number,
            )
            for number in range(3)
        ),
    )


def test_a_world_is_built_once_and_read_as_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made()
    calls = []

    def counted(*args: int) -> object:
        calls.append(args)
        return made

    monkeypatch.setattr(cache, "simulate", counted)
    first = cache.load_minutes(2, EPOCH, 1, 1, tmp_path)
    again = cache.load_minutes(2, EPOCH, 1, 1, tmp_path)

    assert calls == [(2, EPOCH, 1, 1)]
    assert len(list(tmp_path.iterdir())) == 1
    for read in (first, again):
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(read, name), getattr(made, name), err_msg=name)
        assert read.episodes == made.episodes
        assert set(read.departures) == set(made.departures)
        for name, column in made.departures.items():
            np.testing.assert_array_equal(read.departures[name], column)
        assert (read.start, read.sites, read.minutes) == (EPOCH, 1, 1440)


def test_another_world_has_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _made()
    monkeypatch.setattr(
        cache, "simulate", lambda seed, *_: dataclasses.replace(made, episodes=made.episodes[seed:])
    )
    one = cache.load_minutes(1, EPOCH, 1, 1, tmp_path)
    two = cache.load_minutes(2, EPOCH, 1, 1, tmp_path)

    assert one.episodes != two.episodes
    assert len(list(tmp_path.iterdir())) == 2


def test_a_changed_source_makes_a_new_world() -> None:
    assert cache.fingerprint() == cache.fingerprint()
    sources = {path.name for path in Path(cache.__file__).parent.glob("simulate*.py")}
    assert sources <= set(cache._SOURCES)  # noqa: SLF001  # the list is the thing under test


def test_what_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made()
    monkeypatch.setattr(cache, "simulate", lambda *_: made)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space left"):
        cache.load_minutes(2, EPOCH, 1, 1, tmp_path)
    assert list(tmp_path.iterdir()) == []
