from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.world.catalogue import CELL_STATES, SERIES, Kind, SeriesSpec
from bench.world.layout import ASSETS, EPOCH, SITES
from bench.world.series import CanonicalSeries
from bench.world.served import SENTINELS, Held, ServedSeries, unit_of
from bench.world.served_counters import DAY, WRAPS
from bench.world.served_restarts import MAX_STEP, MODULUS, NEVER, RestartPlan, Restarts
from tests.unit.bench_world.small_minutes import small_minutes

MINUTES = small_minutes(sites=5, minutes=3000)
CANONICAL = CanonicalSeries(MINUTES, seed=7)
SERVED = ServedSeries(CANONICAL, seed=7)
BUSY = CanonicalSeries(
    replace(
        small_minutes(minutes=3000, busy=25.0),
        attempts=np.full((1, 3000, 60), 250, dtype=np.uint8),
    ),
    seed=9,
)
"""So much that 16 bits are full within an hour."""
BUSY_SERVED = ServedSeries(BUSY, seed=9)
END = CANONICAL.end
GAUGES = [spec for spec in SERIES.values() if spec.kind is Kind.GAUGE]
COUNTERS = [spec for spec in SERIES.values() if spec.kind is Kind.COUNTER]
DROPPED = {-1.0, 9999.0}

_BACK = {
    "percent": 1.0,
    "fraction": 100.0,
    "s": 1.0,
    "ms": 1 / 1000,
    "m/s": 1.0,
    "ft/min": 0.3048 / 60,
    "bar": 1.0,
    "psi": 0.0689475729,
    "celsius": 1.0,
}


def as_canonical(site: int, series: str, value: float) -> float:
    unit = SITES[site].units.get(series.partition(":")[0], "")
    if unit == "fahrenheit":
        return (value - 32) / 1.8
    return value * _BACK.get(unit, 1.0)


def increase(values: Sequence[float]) -> float:
    """The rule for counters, of the values of consecutive samples."""
    total = 0.0
    for before, after in pairwise(values):
        step = after - before
        if step < 0:
            wrapped = step % MODULUS
            step = wrapped if wrapped <= MAX_STEP else after
        total += step
    return total


@settings(deadline=None, max_examples=150)
@given(data=st.data(), start=st.integers(EPOCH - 500, END), width=st.integers(1, 9000))
def test_a_reader_gets_the_canonical_gauge_back(
    data: st.DataObject, start: int, width: int
) -> None:
    spec = data.draw(st.sampled_from(GAUGES))
    site = data.draw(st.integers(0, 4))
    row = data.draw(st.integers(0, len(ASSETS[spec.assets]) - 1))
    (served,) = SERVED.read(site, spec.name, [row], start, start + width)
    truth = CANONICAL.window(site, spec.name, ASSETS[spec.assets][row], start, start + width)
    found = [
        (at, as_canonical(site, spec.name, value))
        for at, value in zip(served.times.tolist(), served.values.tolist(), strict=True)
        if not isnan(value) and value not in DROPPED
    ]
    assert [at for at, _ in found] == truth.times[truth.valid].tolist()
    values = truth.values[truth.valid].tolist()
    if SITES[site].units.get(spec.name.partition(":")[0], "ms") == "ms":
        assert [value for _, value in found] == values
    assert [value for _, value in found] == pytest.approx(values, rel=1e-14, abs=1e-13)


@settings(deadline=None, max_examples=200)
@given(
    data=st.data(),
    start=st.integers(EPOCH - 500, END),
    width=st.integers(1, 4 * 3600),
    busy=st.booleans(),
)
def test_a_reader_finds_what_was_counted(
    data: st.DataObject, start: int, width: int, busy: bool
) -> None:
    spec = data.draw(st.sampled_from(COUNTERS))
    site = 0 if busy else data.draw(st.integers(0, 4))
    row = data.draw(st.integers(0, len(ASSETS[spec.assets]) - 1))
    canonical, of = (BUSY, BUSY_SERVED) if busy else (CANONICAL, SERVED)
    (served,) = of.read(site, spec.name, [row], start, start + width)
    truth = canonical.window(site, spec.name, ASSETS[spec.assets][row], start, start + width)
    assert served.times.tolist() == truth.times[truth.valid].tolist()
    places = np.flatnonzero(truth.valid)
    if len(places) >= 2:
        counted = truth.values[places[0] + 1 : places[-1] + 1].sum()
        assert increase(served.values.tolist()) == counted


@pytest.mark.parametrize("spec", COUNTERS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("of", [SERVED, BUSY_SERVED], ids=["calm", "busy"])
def test_over_the_whole_world_too(of: ServedSeries, spec: SeriesSpec) -> None:
    assets = ASSETS[spec.assets]
    served = of.read(0, spec.name, range(len(assets)), EPOCH, END)
    for asset, (times, values) in zip(assets, served, strict=True):
        truth = of.canonical.window(0, spec.name, asset, EPOCH, END)
        places = np.flatnonzero(truth.valid)
        assert increase(values.tolist()) == truth.values[places[0] + 1 : places[-1] + 1].sum()
        assert not np.isin(values, [NEVER, -1]).any()
        assert (values >= 0).all()
        assert spec.name not in WRAPS or (values < MODULUS).all()
        restarts = of.counters.restarts(0, spec.name, asset)
        assert np.isin(restarts, times).all()
        drops = times[1:][np.diff(values) < 0]
        behind = times[np.minimum(np.searchsorted(times, restarts) + 1, len(times) - 1)]
        wraps = set(drops.tolist()) - set(behind.tolist())
        assert not wraps or spec.name in WRAPS


def test_there_are_restarts_and_wraps_to_be_read() -> None:
    for spec in COUNTERS:
        restarts = SERVED.counters.restarts(0, spec.name, ASSETS[spec.assets][0])
        assert len(restarts) >= 1, spec.name
    (lost,) = SERVED.read(0, "tracking_lost_total", [0], EPOCH, END)
    assert lost.values[0] > MODULUS - 500
    eyes = BUSY_SERVED.read(0, "parcels_total", range(20), EPOCH, END)
    assert all((np.diff(eye.values) < -MODULUS / 2).sum() > 10 for eye in eyes)


def test_tunnels_restart_at_local_midnight() -> None:
    first_4, first_0 = EPOCH + 18 * 3600 + 1800, EPOCH + 4 * 3600
    for site, midnight in ((0, first_0), (4, first_4), (4, first_4 + DAY)):
        restarts = SERVED.counters.restarts(site, "tunnel_scans_total", "ST-1").tolist()
        assert any(midnight <= at <= midnight + 300 for at in restarts)


def test_a_restart_that_would_pass_for_a_wrap_is_put_off() -> None:
    midnight = EPOCH + 28 * 3600
    (scans,) = SERVED.read(0, "tunnel_scans_total", [0], midnight - 1, midnight)
    assert MODULUS - MAX_STEP < scans.values[0] < MODULUS
    late = [at for at in SERVED.counters.restarts(0, "tunnel_scans_total", "ST-1") if at > midnight]
    (scans,) = SERVED.read(0, "tunnel_scans_total", [0], late[0] - 1, late[0])
    assert scans.values[0] > MODULUS


def test_cells_restart_by_themselves_and_eyes_together() -> None:
    cells = {SERVED.counters.restarts(0, "cell_picks_total", cell)[0] for cell in ASSETS["RC"]}
    eyes = [SERVED.counters.restarts(0, "parcels_total", eye).tolist() for eye in ASSETS["PE"]]
    assert len(cells) > 1
    common = set(eyes[0]).intersection(*eyes[1:])
    assert common


@settings(deadline=None, max_examples=40)
@given(
    cuts=st.lists(st.integers(EPOCH - 500, END + 500), min_size=3, max_size=4).map(sorted),
    spec=st.sampled_from(list(SERIES.values())),
    site=st.integers(0, 4),
)
def test_served_windows_are_their_parts_together(
    cuts: list[int], spec: SeriesSpec, site: int
) -> None:
    rows = range(0, len(ASSETS[spec.assets]), 2)
    whole = SERVED.read(site, spec.name, rows, cuts[0], cuts[-1])
    parts = [SERVED.read(site, spec.name, rows, *ends) for ends in pairwise(cuts)]
    for place, (times, values) in enumerate(whole):
        assert times.tolist() == [at for part in parts for at in part[place].times.tolist()]
        assert repr(values.tolist()) == repr(
            [value for part in parts for value in part[place].values.tolist()]
        )


def test_sentinels_are_served_where_they_belong() -> None:
    for series, sentinel in SENTINELS.items():
        rows = range(len(ASSETS[SERIES[series].assets]))
        served = np.concatenate([one.values for one in SERVED.read(0, series, rows, EPOCH, END)])
        odd = np.isnan(served) if isnan(sentinel) else served == sentinel
        assert 0.001 < odd.mean() < 0.5, series
    off = np.isnan(MINUTES.temp[3]) & ~MINUTES.metrics_silent[3, :, 1:2]
    minute, drive = np.argwhere(off[:, 5:])[0]
    begin = EPOCH + 60 * int(minute)
    (temp,) = SERVED.read(3, "drive_temp", [5 + int(drive)], begin, begin + 60)
    assert set(temp.values.tolist()) == {9999.0}  # and not 18,030 °F


def test_labels_and_units_are_the_sites_own() -> None:
    def labels(site: int, series: str, row: int) -> dict[str, str]:
        (held,) = (one for one in SERVED.held(site) if (one.series, one.row) == (series, row))
        assert isinstance(held, Held)
        return dict(held.labels)

    assert labels(2, "divert_fails_total", 6) == {
        "__name__": "dock_divert_fails_total",
        "asset": "ch7",
        "site": "FC3",
    }
    assert labels(4, "cell_state_seconds:blocked", 3) == {
        "__name__": "dock_cell_state_seconds",
        "asset": "Cell 3",
        "site": "FC5",
        "state": "blocked",
    }
    assert unit_of(1, "cell_state_seconds:off") == "ms"
    assert unit_of(0, "sorter_speed") == "m/s"
    assert unit_of(3, "drive_temp") == "fahrenheit"
    assert unit_of(3, "drive_load") == "percent"
    served = [
        SERVED.read(1, f"cell_state_seconds:{state}", [0], EPOCH, EPOCH + 60)[0].values.tolist()
        for state in CELL_STATES
    ]
    assert sum(value for one in served for value in one) in {0, 60_000}


def test_what_is_prepared_reads_the_same() -> None:
    other = ServedSeries(CANONICAL, seed=7)
    other.prepare(1)
    for spec in SERIES.values():
        rows = range(len(ASSETS[spec.assets]))
        for one, again in zip(
            other.read(1, spec.name, rows, END - 4000, END),
            SERVED.read(1, spec.name, rows, END - 4000, END),
            strict=True,
        ):
            assert one.times.tolist() == again.times.tolist()
            assert np.array_equal(one.values, again.values, equal_nan=True)


def test_states_are_served_as_changes() -> None:
    for series, row in (("chute_full", 3), ("eye_blocked", 3)):
        asset = ASSETS[SERIES[series].assets][row]
        (served,) = SERVED.read(0, series, [row], EPOCH + 99, END)
        times, values = CANONICAL.changes(0, series, asset, EPOCH + 99, END)
        assert served.times.tolist() == times.tolist()
        assert served.values.tolist() == values.tolist()


def made(plan: RestartPlan, wanted: Sequence[int], *, refusable: bool) -> Restarts | None:
    """Refused is only what may be past serving: one step to the value that is never shown, or one
    that a wrap would hide."""
    try:
        return plan.made(wanted)
    except ValueError:
        if not refusable:
            raise
        return None


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(
        st.sampled_from([0, 0, 1, 2, 40, 900, 2000, 2001, 5000, 9998, 30_000]), min_size=1
    ),
    wanted=st.lists(st.integers(-5, 200), max_size=9).map(sorted),
    initial=st.integers(0, NEVER - 1),
    wraps=st.booleans(),
)
@example(steps=[9999], wanted=[], initial=0, wraps=False)
@example(steps=[100, 9899, 5], wanted=[], initial=0, wraps=True)
@example(steps=[40] * 2000, wanted=[5, 60], initial=65_000, wraps=True)
def test_no_restart_loses_anything(
    steps: list[int], wanted: list[int], initial: int, wraps: bool
) -> None:
    numbers = np.arange(len(steps) + 1) * 2 + 1
    totals = np.concatenate([[0], np.cumsum(steps)])
    plan = RestartPlan(numbers, totals, initial=initial, wraps=wraps)
    restarts = made(plan, wanted, refusable=max(steps) > MAX_STEP)
    if restarts is None:
        return
    values = totals - restarts.bases[np.searchsorted(restarts.numbers, numbers)]
    if wraps:
        values = values % MODULUS
    assert increase(values.tolist()) == sum(steps)
    assert NEVER not in values
    assert values[0] == initial
