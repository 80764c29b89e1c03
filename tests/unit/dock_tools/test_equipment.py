from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.dock_tools.dock_world import NOW, Case, World, check, of, params_of, utc

CLOSED = {"name": "RC-02 estop", "ok": True}
OPEN = {"name": "SG-1 gate", "ok": False}
LOST = {"name": "RC-02 gate", "ok": -1}


def ago(seconds: float) -> str:
    return utc(NOW - timedelta(seconds=seconds))


def told(tool: str, asset: str, *, entity: str, old: float = 0, **answer: Any) -> World:
    """The controller was last heard `old` seconds before NOW; it is asked for `asset` only."""
    said = {"asset": asset, "as_of": ago(old), **answer}
    return World(entity=entity, calls={tool: {asset: said}})


def safety(*inputs: Any, old: float = 0, entity: str = "Cell 2") -> World:
    return told("safety_inputs", "RC-02", entity=entity, old=old, inputs=list(inputs))


SAFETY = of(
    "rc_safety_stop",
    ("all closed", safety(CLOSED), "false", "RC-02"),
    ("one open", safety(CLOSED, OPEN), "true", "RC-02"),
    ("one lost", safety(CLOSED, LOST), "no_data", "RC-02"),
    ("one open, one lost", safety(LOST, OPEN), "true", "RC-02"),
    ("heard a minute ago", safety(OPEN, old=60), "true", "RC-02"),
    ("not heard since", safety(OPEN, old=61), "no_data", "RC-02"),
    ("stale and closed", safety(CLOSED, old=61), "no_data", "RC-02"),
    ("no inputs", safety(), "false", "RC-02"),
)


def fault(code: int | str, latched: float | None = None, old: float = 0) -> World:
    at = None if latched is None else ago(latched)
    return told("fault_code", "DRV-3", entity="drive 3", old=old, code=code, latched_at=at)


DRIVE = of(
    "rc_drive_fault",
    ("none", fault(0), "false", "DRV-3"),
    ("a number", fault(7), "true", "DRV-3"),
    ("a word", fault("F0007"), "true", "DRV-3"),
    ("a word for none", fault("F0000"), "false", "DRV-3"),
    ("lost", fault(-1), "no_data", "DRV-3"),
    ("lost but latched", fault(-1, 60), "no_data", "DRV-3"),
    ("latched a while ago", fault(0, 900), "true", "DRV-3"),
    ("latched longer ago", fault(0, 901), "false", "DRV-3"),
    ("on for hours", fault(7, 9000), "true", "DRV-3"),
    ("heard a minute ago", fault(7, old=60), "true", "DRV-3"),
    ("not heard since", fault(7, 30, old=61), "no_data", "DRV-3"),
)


def resets(*seconds: float, code: int | str = 7, protective: bool = False, old: float = 0) -> World:
    return told(
        "resets",
        "INF-2",
        entity="inf_2",
        old=old,
        code=code,
        protective=protective,
        resets=[ago(one) for one in seconds],
    )


RESETS = of(
    "con_reset_allowed",
    ("never", resets(), "true", "INF-2"),
    ("twice", resets(60, 1800), "true", "INF-2"),
    ("three times", resets(60, 1800, 3599), "false", "INF-2"),
    ("one of them an hour ago", resets(60, 1800, 3600), "true", "INF-2"),
    ("one right now", resets(0, 1, 2), "false", "INF-2"),
    ("protective", resets(protective=True), "false", "INF-2"),
    ("no fault", resets(code=0), "true", "INF-2"),
    ("a word", resets(code="F0031"), "true", "INF-2"),
    ("lost", resets(code=-1), "no_data", "INF-2"),
    ("heard a minute ago", resets(old=60), "true", "INF-2"),
    ("not heard since", resets(60, 61, 62, old=61), "no_data", "INF-2"),
)


def carriers(disabled: int, total: int = 500, old: float = 0) -> World:
    answer = {"total": total, "disabled": disabled}
    return told("carriers", "LS-1", entity="CH-001", old=old, **answer)


CARRIERS = of(
    "rc_carriers_out",
    ("one of one", carriers(1, total=1), "true", "LS-1"),
    ("at the limit", carriers(15), "true", "LS-1"),
    ("under it", carriers(14), "false", "LS-1"),
    ("none", carriers(0), "false", "LS-1"),
    ("lost", carriers(-1), "no_data", "LS-1"),
    ("none at all", carriers(0, total=0), "no_data", "LS-1"),
    ("heard a minute ago", carriers(15, old=60), "true", "LS-1"),
    ("not heard since", carriers(15, old=61), "no_data", "LS-1"),
)


def door(name: str, *ready: tuple[bool | int, float], docked: bool = True) -> dict[str, Any]:
    """Devices: whether each is ready, and for how many seconds."""
    devices = [
        {"name": f"d{place}", "ready": one, "since": ago(since)}
        for place, (one, since) in enumerate(ready)
    ]
    return {"door": name, "docked": docked, "devices": devices}


def doors(
    *each: dict[str, Any], entity: str = "STG-03", asset: str = "STG-03", old: float = 0
) -> World:
    return told("doors", asset, entity=entity, old=old, doors=list(each))


STUCK, SOUND, LINKLESS = (False, 300), (True, 9000), (-1, 9000)
DOORS = of(
    "rc_door_fault",
    ("sound", doors(door("DD-05", SOUND)), "false", "STG-03"),
    ("stuck", doors(door("DD-05", SOUND, STUCK)), "true", "DD-05"),
    ("not long enough", doors(door("DD-05", (False, 299))), "false", "STG-03"),
    ("nothing docked", doors(door("DD-05", STUCK, docked=False)), "false", "STG-03"),
    ("lost", doors(door("DD-05", SOUND, LINKLESS)), "no_data", "STG-03"),
    (
        "lost where nothing is docked",
        doors(door("DD-05", LINKLESS, docked=False)),
        "false",
        "STG-03",
    ),
    ("stuck and lost", doors(door("DD-05", LINKLESS), door("DD-06", STUCK)), "true", "DD-06"),
    (
        "the first of two",
        doors(door("DD-05", STUCK), door("DD-06", (False, 9000))),
        "true",
        "DD-05",
    ),
    ("a door", doors(door("DD-06", STUCK), entity="Door 6", asset="DD-06"), "true", "DD-06"),
    ("a chute's lane", doors(door("DD-06", STUCK), entity="ch15"), "true", "DD-06"),
    (
        "the next chute's",
        doors(door("DD-08", STUCK), entity="ch16", asset="STG-04"),
        "true",
        "DD-08",
    ),
    ("all", doors(door("dd2", STUCK), entity="ZN-1", asset="LS-1"), "true", "DD-02"),
    ("none docked at all", doors(entity="", asset="LS-1"), "false", ""),
    ("heard a minute ago", doors(door("DD-05", STUCK), old=60), "true", "DD-05"),
    ("not heard since", doors(door("DD-05", STUCK), old=61), "no_data", "STG-03"),
)

CASES = [*SAFETY, *DRIVE, *RESETS, *CARRIERS, *DOORS]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
