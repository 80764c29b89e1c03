"""The controllers: pure, within their shape, and telling every fault that is theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.world.canonical import Equipment
from bench.world.equipment import CanonicalEquipment, Controllers
from bench.world.equipment_answers import CALLS, BadCall, ServedEquipment
from bench.world.equipment_assets import UnknownAsset
from bench.world.equipment_facts import facts_of, read_equipment, write_equipment
from bench.world.equipment_source import WorldEquipment
from bench.world.layout import ASSETS, EPOCH
from bench.world.minutes import Episode, Minutes
from tests.unit.bench_world.floor_minutes import SEED, floor_minutes
from triage.errors import ToolFailed, ToolFailure
from triage.tool_api import call, rows

MINUTES = floor_minutes(sites=2)
END = MINUTES.start + 60 * MINUTES.minutes
TRIES = 40  # instants, of which most must be heard and linked
EVERY = tuple(asset for assets in ASSETS.values() for asset in assets)

instants = st.integers(MINUTES.start - 3600, END + 3600)


def fresh(seed: int = SEED, site: int = 0, minutes: Minutes = MINUTES) -> Equipment:
    return CanonicalEquipment(minutes, seed, site)


def episode(fault: str, asset: str = "") -> Episode:
    return next(
        one
        for one in MINUTES.episodes
        if one.fault == fault and one.site == 0 and asset in {"", one.asset}
    )


def answers(ask: Callable[[int], Any], first: int, last: int, *, tries: int = TRIES) -> list[Any]:
    """What was heard within 60 s, at instants spread over first..last."""
    at = [first + (last - first) * number // tries for number in range(tries)]
    return [told for one in at if one - (told := ask(one))["as_of"] <= 60]


# --- every answer -----------------------------------------------------------------------------


@settings(deadline=None)
@given(asset=st.sampled_from(EVERY), at=instants, other=instants)
def test_answers_depend_on_nothing_but_the_question(asset: str, at: int, other: int) -> None:
    one, another = fresh(), fresh()
    for ask in ("safety_inputs", "fault_code", "resets"):
        getattr(another, ask)(asset, other)
        told = getattr(one, ask)(asset, at)
        assert told == getattr(another, ask)(asset, at) == getattr(one, ask)(asset, at)
        assert told["asset"] == asset
        assert told["as_of"] <= at


@settings(deadline=None)
@given(asset=st.sampled_from(EVERY), at=instants)
def test_drives_and_inputs_have_their_shape(asset: str, at: int) -> None:
    of = fresh()
    inputs = of.safety_inputs(asset, at)["inputs"]
    assert len(inputs) in {3, 6}
    assert all(one["ok"] in {True, False, -1} for one in inputs)
    assert len({one["name"] for one in inputs}) == len(inputs)
    fault, reset = of.fault_code(asset, at), of.resets(asset, at)
    assert fault["code"] >= -1
    assert fault["latched_at"] is None or fault["latched_at"] <= fault["as_of"]
    assert isinstance(reset["protective"], bool)
    assert reset["resets"] == sorted(reset["resets"])
    assert all(reset["as_of"] - 86_400 < one <= reset["as_of"] for one in reset["resets"])
    if fault["code"] > 0:
        assert reset["code"] == fault["code"]


@settings(deadline=None, max_examples=50)
@given(at=instants)
def test_loop_doors_eyes_and_routes_have_their_shape(at: int) -> None:
    of = fresh()
    carriers = of.carriers("LS-1", at)
    assert carriers["total"] == 480
    assert -1 <= carriers["disabled"] <= 480
    doors = of.doors("LS-1", at)
    assert [one["door"] for one in doors["doors"]] == list(ASSETS["DD"])
    for door in doors["doors"]:
        assert isinstance(door["docked"], bool)
        assert [one["name"] for one in door["devices"]] == ["leveller", "restraint", "conveyor"]
        assert all(one["since"] <= doors["as_of"] for one in door["devices"])
    assert of.doors("STG-02", at)["doors"] == of.doors("LS-1", at)["doors"][2:4]
    assert of.doors("DD-04", at)["doors"] == of.doors("LS-1", at)["doors"][3:4]
    eyes = of.eye_margin("INF-2", at)["eyes"]
    assert [one["eye"] for one in eyes] == [f"PE-2{number}" for number in range(1, 6)]
    assert of.eye_margin("PE-23", at)["eyes"] == eyes[2:3]
    assert all(one["margin_pct"] == -1 or 2 <= one["margin_pct"] <= 100 for one in eyes)
    assert [one["eye"] for one in of.eye_margin("LS-1", at)["eyes"]] == list(ASSETS["CH"])
    routes = of.routes(at)
    assert [one["chute"] for one in routes["routes"]] == list(ASSETS["CH"])
    for one in routes["routes"]:
        assert one["cpt"] > routes["as_of"]
        assert one["alternate"] != one["chute"]
        assert one["alternate"] is None or one["alternate"] in ASSETS["CH"]


def test_sites_and_seeds_differ() -> None:
    at = range(EPOCH, EPOCH + 86_400, 600)
    told = [
        [of.routes(one)["as_of"] for one in at] for of in (fresh(), fresh(site=1), fresh(seed=9))
    ]
    assert told[0] != told[1] != told[2] != told[0]


@pytest.mark.parametrize(
    ("ask", "asset"),
    [
        ("safety_inputs", "CH-999"),
        ("fault_code", "ch7"),
        ("resets", ""),
        ("carriers", "CH-001"),
        ("doors", "INF-1"),
        ("eye_margin", "RC-01"),
    ],
)
def test_unknown_assets_are_told(ask: str, asset: str) -> None:
    with pytest.raises(UnknownAsset, match=repr(asset)):
        getattr(fresh(), ask)(asset, EPOCH)


# --- faults -----------------------------------------------------------------------------------


def broken(told: Any) -> bool:
    return any(one["ok"] is False for one in told["inputs"])


def test_a_safety_stop_opens_inputs_of_what_it_stops() -> None:
    of, stop = fresh(), episode("safety_stop", "INF-2")

    def told(asset: str, first: int) -> list[bool]:
        heard = answers(lambda at: of.safety_inputs(asset, at), first, stop.end)
        return [broken(one) for one in heard]

    for asset in ("INF-2", "PE-24", "DRV-2"):
        assert any(told(asset, stop.start + 21))
    for asset in ("INF-1", "LS-1", "RC-02"):
        found = told(asset, stop.start)
        assert found
        assert not any(found)


def test_the_sorters_stop_is_its_chutes() -> None:
    of, stop = fresh(), episode("safety_stop", "LS-1")
    told = answers(lambda at: of.safety_inputs("CH-033", at), stop.start + 21, stop.end)
    assert any(broken(one) for one in told)
    code = answers(lambda at: of.fault_code("LS-1", at), stop.start, stop.end)
    assert not any(one["code"] > 0 for one in code)


def test_a_drive_fault_has_a_code_that_latches() -> None:
    of, fault = fresh(), episode("drive_fault", "DRV-13")
    told = answers(lambda at: of.fault_code("RC-03", at), fault.start + 21, fault.end)
    codes = {one["code"] for one in told if one["code"] != -1}
    assert len(codes) == 1
    assert codes.pop() > 0
    assert any(one["latched_at"] is not None and one["latched_at"] >= fault.start for one in told)
    after = answers(lambda at: of.fault_code("RC-03", at), fault.end + 30, fault.end + 600)
    assert any(one["code"] == 0 and one["latched_at"] >= fault.start for one in after)


def test_carriers_creep_out_and_come_back() -> None:
    of, fault = fresh(), episode("carriers_out")
    before, during, after = (
        max(one["disabled"] for one in answers(lambda at: of.carriers("LS-1", at), first, last))
        for first, last in (
            (fault.onset - 9000, fault.onset),
            (fault.start, fault.end),
            (fault.end + 30, fault.end + 9000),
        )
    )
    assert during >= 15 > max(before, after)


@pytest.mark.parametrize("eye", ["PE-23", "CH-031"])
def test_a_dirty_eyes_margin_falls(eye: str) -> None:
    of, fault = fresh(), episode("photo_eye_dirty", eye)

    def margins(first: int, last: int) -> list[int]:
        told = answers(lambda at: of.eye_margin(eye, at), first, last)
        return [margin for one in told if (margin := one["eyes"][0]["margin_pct"]) != -1]

    clean, dirty = margins(fault.end + 60, fault.end + 9000), margins(fault.start + 3000, fault.end)
    assert min(clean) > 60
    assert max(dirty) < 25


def test_a_door_fault_keeps_one_device_from_being_ready() -> None:
    of, fault = fresh(), episode("door_fault")

    def waiting(at: int) -> list[str]:
        (door,) = of.doors(fault.asset, at)["doors"]
        assert door["docked"]
        return [
            device["name"]
            for device in door["devices"]
            if device["ready"] is False and at - device["since"] >= 300
        ]

    told = [waiting(at) for at in range(fault.start + 330, fault.end - 30, 120)]
    assert max(map(len, told)) == 1
    assert not any(waiting(at) for at in range(fault.start - 1200, fault.start, 60))


def test_links_are_lost_and_controllers_fall_silent_sometimes() -> None:
    of = fresh()
    stale = lost = 0
    at = range(MINUTES.start, END, 30)
    for one in at:
        told = of.carriers("LS-1", one)
        stale += one - told["as_of"] > 60
        lost += told["disabled"] == -1
    assert 0.002 < stale / len(at) < 0.05
    assert 0.002 < lost / len(at) < 0.05


# --- as it is served --------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "equipment.json"
    write_equipment(path, MINUTES, SEED)
    return path


def test_a_file_holds_all_that_is_needed(file: Path) -> None:
    told = read_equipment(file)
    assert list(told) == ["FC1", "FC2"]
    assert told["FC2"] == facts_of(MINUTES, SEED, 1)
    of, again = fresh(site=1), Controllers(told["FC2"])
    for at in range(MINUTES.start, END, 7001):
        assert of.doors("LS-1", at) == again.doors("LS-1", at)
        assert of.fault_code("RC-03", at) == again.fault_code("RC-03", at)
    assert [one.name for one in file.parent.iterdir()] == ["equipment.json"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "equipment.json"
    for text in ("[]", '{"FC1": {"seed": 1}}', "no json"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"write_equipment|Expecting"):
            read_equipment(path)


def test_served_codes_and_times(file: Path) -> None:
    served = ServedEquipment(read_equipment(file))
    fault = episode("drive_fault", "DRV-0")
    spelled, numbers = set(), set()
    for second in range(fault.start + 30, fault.end, 40):
        at = (
            f"2026-09-01T{second % 86_400 // 3600:02d}:{second % 3600 // 60:02d}:{second % 60:02d}Z"
        )
        numbers.add(served.answer("fault_code", "FC1", at, "LS-1")["code"])
        told = served.answer("resets", "FC2", at, "LS-1")
        spelled.add(told["code"])
        assert told["as_of"].endswith("Z")
        assert told["as_of"] <= at
        assert all(one <= told["as_of"] for one in told["resets"])
    assert any(isinstance(one, int) and one > 0 for one in numbers)
    assert not any(isinstance(one, str) for one in numbers)
    texts = [one for one in spelled if isinstance(one, str)]
    assert texts
    assert all(one[0] == "F" and len(one) == 5 and int(one[1:]) > 0 for one in texts)
    assert {one for one in spelled if isinstance(one, int)} <= {0, -1}


@pytest.mark.parametrize(
    ("given_call", "told"),
    [
        (("fault_code", "FC9", "2026-09-01T07:45:00Z", "LS-1"), "FC1, FC2"),
        (("fault_code", "FC1", "yesterday", "LS-1"), "2026-11-02T07:45:00Z"),
        (("fault_code", "FC1", "2026-09-01T07:45:00", "LS-1"), "no offset"),
        (("fault_code", "FC1", "2026-09-01T07:45:00Z", "chute 7"), "CH-007"),
    ],
)
def test_bad_calls_say_what_is_wrong(
    file: Path, given_call: tuple[str, str, str, str], told: str
) -> None:
    with pytest.raises(BadCall, match=told):
        ServedEquipment(read_equipment(file)).answer(*given_call)


async def test_the_source_answers_calls(file: Path) -> None:
    source = WorldEquipment(ServedEquipment(read_equipment(file)))
    await source.open()
    at = "2026-09-01T07:45:00Z"
    assert source.name == "equipment"
    routes = await source.ask(call("equipment", "routes", site="FC1", at=at), timeout_s=1)
    assert len(routes["routes"]) == 60
    assert list(routes) == sorted(routes)
    for query in (
        rows("equipment", "SELECT 1"),
        call("equipment", "rootes", site="FC1", at=at),
        call("equipment", "carriers", site="FC1", at=at),
        call("equipment", "carriers", site="FC1", at=at, asset=7),
        call("equipment", "carriers", site="FC1", at=at, asset="LS-2"),
    ):
        with pytest.raises(ToolFailed) as caught:
            await source.ask(query, timeout_s=1)
        assert caught.value.failure is ToolFailure.QUERY_REJECTED
    await source.close()
    assert set(CALLS) >= {"routes", "carriers"}
