import dataclasses

import numpy as np
import pytest

from bench.world.layout import ASSETS, EPOCH
from bench.world.minutes import Minutes
from bench.world.simulate import ARRAYS, simulate
from bench.world.simulate_effects import effects
from bench.world.simulate_flow import State, run
from bench.world.simulate_inputs import inputs_of
from bench.world.simulate_plan import site_plan

SEED = 3


@pytest.fixture(scope="module")
def world() -> Minutes:
    return simulate(SEED, EPOCH, 1, 2)


def test_the_arrays_are_those_of_minutes(world: Minutes) -> None:
    others = {"start", "sites", "minutes", "departures", "episodes"}
    assert {*ARRAYS, *others} == {field.name for field in dataclasses.fields(Minutes)}
    for name in ARRAYS:
        assert getattr(world, name).shape[:2] == (2, 1440), name
    assert world.full.shape[2] == len(ASSETS["CH"])


def test_the_same_seed_gives_the_same_bytes(world: Minutes) -> None:
    again = simulate(SEED, EPOCH, 1, 2)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(world, name), getattr(again, name), err_msg=name)


def test_a_site_does_not_hang_on_the_others(world: Minutes) -> None:
    alone = simulate(SEED, EPOCH, 1, 1)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(world, name)[:1], getattr(alone, name), err_msg=name)


def test_no_parcel_is_lost() -> None:
    """What was packed is loaded, in the hospital lane or still inside, faults or not."""
    told = simulate(SEED, EPOCH, 1, 2).episodes
    plans = [site_plan(SEED, site, EPOCH, 1440, told) for site in range(2)]
    doing = effects(told, EPOCH, 1440, 2)
    state = State(sites=2)
    run(state, inputs_of(SEED, 0, doing, plans, slice(1440, 2880)))

    out = state.loaded_total + state.hospital_total + state.inside()
    np.testing.assert_array_equal(out, state.packed_total)
    assert (state.packed_total > 50_000).all()
    for queue in (state.ready, state.infeed, state.fresh, state.circling, state.chute):
        assert (queue >= 0).all()
    assert (state.container >= 0).all()
    assert (state.empties >= 0).all()
    assert (state.staged >= 0).all()


def test_counts_agree_with_each_other(world: Minutes) -> None:
    np.testing.assert_array_equal(world.inducted, world.scans.sum(axis=2, dtype=np.int64))
    np.testing.assert_array_equal(
        world.reads.astype(np.int64) + world.no_reads.sum(axis=2, dtype=np.int64), world.inducted
    )
    placed = world.picks.sum(axis=2, dtype=np.int64) - world.fails.sum(axis=2, dtype=np.int64)
    np.testing.assert_array_equal(placed + world.manual.sum(axis=2, dtype=np.int64), world.inducted)
    np.testing.assert_array_equal(world.state_s.sum(axis=3), 60)
    assert (world.divert_fails <= world.attempts).all()
    assert (world.lane_full <= world.divert_fails).all()
    assert (world.unassigned <= world.reads).all()


def test_an_ordinary_day_lies_in_the_ordinary_ranges() -> None:
    quiet = simulate(SEED, EPOCH, 1, 2, ())
    busy = quiet.forecast_arrivals > 50

    def usual(values: np.ndarray) -> float:
        return float(np.nanmean(values[busy], dtype=np.float64))

    assert 30 < usual(quiet.occupancy) < 65
    assert 250 < usual(quiet.gap_mm) < 450
    assert 0.3 < usual(quiet.double_pct) < 1.5
    assert 1 < usual(quiet.recirc_pct) < 3
    assert 2 < 100 * quiet.fails.sum() / quiet.picks.sum() < 5
    assert 0.5 < 100 * quiet.no_reads.sum() / quiet.scans.sum() < 1.5
    fails = quiet.divert_fails.sum(dtype=np.int64) - quiet.lane_full.sum(dtype=np.int64)
    assert 0.1 < 100 * fails / quiet.attempts.sum() < 0.4
    assert 100 * quiet.lane_full.sum() / quiet.attempts.sum() < 0.6
    assert 3 < usual(quiet.leak) < 10
    assert 30 < usual(quiet.freeflow) < 70
    assert 1 < usual(quiet.no_grasp) < 4
    assert 6.0 < usual(quiet.air) < 6.8
    assert 45 < usual(quiet.load) < 75
    assert 40 < usual(quiet.temp) < 65
    assert usual(quiet.full) < 0.1


def test_trailers_come_about_when_planned_and_are_loaded_in_time() -> None:
    quiet = simulate(SEED, EPOCH, 2, 2, ())
    table = quiet.departures
    assert (np.diff(table["cpt"]) >= 0).all()
    assert (table["docked"] >= table["arrival"]).all()
    done = []
    for row in range(len(table["cpt"])):
        first, last = ((int(table[n][row]) - EPOCH) // 60 for n in ("docked", "cpt"))
        if first >= 0 and last <= quiet.minutes:
            lane = int(table["lane"][row]) - 1
            loaded = quiet.loaded[int(table["site"][row]), first:last, lane].sum()
            done.append(loaded / table["planned"][row])
    assert len(done) > 100
    assert np.mean(np.array(done) >= 0.98) > 0.93


@pytest.mark.parametrize(
    ("days", "sites", "start"), [(0, 1, EPOCH), (1, 6, EPOCH), (1, 1, EPOCH + 5)]
)
def test_a_world_that_cannot_be_is_refused(days: int, sites: int, start: int) -> None:
    with pytest.raises(ValueError, match="a world needs"):
        simulate(SEED, start, days, sites)
