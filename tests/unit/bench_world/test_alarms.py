import itertools
from collections import defaultdict

import pytest

from bench.world.alarms import HOLD_OFF, SEVERITIES, RawAlarm, raw_alarms
from bench.world.layout import ASSETS, EPOCH
from bench.world.minutes import Episode, Minutes
from bench.world.simulate import simulate

ENTITIES = {
    "al_pick_fail_high": "RC",
    "al_robot_cell_down": "RC",
    "al_chute_full": "CH",
    "al_container_lag": "CH",
    "al_jam_repeat": "PE",
    "al_recirc_high": "LS",
    "al_induct_rate_low": "LS",
    "al_sorter_stopped": "LS",
    "al_no_read_high": "ST",
    "al_infeed_backup": "INF",
    "al_staging_over": "STG",
    "al_departure_risk": "STG",
    "al_drive_warning": "DRV",
}


@pytest.fixture(scope="module")
def world() -> Minutes:
    return simulate(4, EPOCH, 3, 1)


@pytest.fixture(scope="module")
def alarms(world: Minutes) -> list[RawAlarm]:
    return raw_alarms(world, 0)


def test_the_same_world_raises_the_same_alarms(world: Minutes, alarms: list[RawAlarm]) -> None:
    assert raw_alarms(world, 0) == alarms
    assert [one.at for one in alarms] == sorted(one.at for one in alarms)
    assert len({one.alarm for one in alarms}) >= 10


def test_alarms_name_what_they_are_about(alarms: list[RawAlarm]) -> None:
    for one in alarms:
        assert one.severity == SEVERITIES[one.alarm]
        assert EPOCH < one.at <= EPOCH + 3 * 86_400 + 60
        if one.alarm == "al_divert_fail_high":
            assert one.entity in {*ASSETS["CH"], "LS-1"}
        else:
            assert one.entity in ASSETS[ENTITIES[one.alarm]]


def test_an_alarm_that_lasts_is_held_off(alarms: list[RawAlarm]) -> None:
    times = defaultdict(list)
    for one in alarms:
        times[one.alarm, one.entity].append(one.at)
    for at in times.values():
        # the second within the minute is drawn for each alarm anew
        assert all(b - a > 60 * (HOLD_OFF - 1) for a, b in itertools.pairwise(at))


def test_a_stopped_loop_and_a_jammed_eye_are_told() -> None:
    def one(fault: str, asset: str, minute: int, lasts: int) -> Episode:
        start = EPOCH + 60 * minute
        return Episode(
            fault=fault,
            site=0,
            asset=asset,
            onset=start,
            start=start,
            end=start + 60 * lasts,
            severity=0.9,
            episode=minute,
        )

    jams = [one("jam", "PE-22", 1000 + 12 * row, 4) for row in range(3)]
    told = (one("safety_stop", "LS-1", 1150, 10), *jams)
    found = raw_alarms(simulate(4, EPOCH, 1, 1, told), 0)
    stopped = [a.at for a in found if a.alarm == "al_sorter_stopped"]
    jammed = [a.at for a in found if a.alarm == "al_jam_repeat" and a.entity == "PE-22"]

    assert any(60 <= at - (EPOCH + 60 * 1150) < 180 for at in stopped)
    assert any(60 <= at - (EPOCH + 60 * 1024) < 180 for at in jammed)
