from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.dock_tools.dock_rows import (
    lane,
    local,
    on_shift,
    trailer,
    zone_stock,
)
from tests.unit.dock_tools.dock_world import Case, Row, World, check, of, params_of


def staged(entity: str, *rows: Row) -> World:
    return World(entity=entity, tables={"staging_lane": rows})


STAGING = of(
    "obs_staging_crowded",
    ("at the limit", staged("STG-03", lane("STG-03", 90)), "true", "STG-03"),
    ("under it", staged("STG-03", lane("STG-03", 89)), "false", "STG-03"),
    ("closed ones do not count", staged("STG-03", lane("STG-03", 91, closed=10)), "true", "STG-03"),
    (
        "closed ones are not taken",
        staged("STG-03", lane("STG-03", 90, closed=50)),
        "false",
        "STG-03",
    ),
    (
        "the latest decides",
        staged("STG-03", lane("STG-03", 99, ago=300), lane("STG-03", 10)),
        "false",
        "STG-03",
    ),
    ("old enough", staged("STG-03", lane("STG-03", 95, ago=480)), "true", "STG-03"),
    ("too old", staged("STG-03", lane("STG-03", 95, ago=481)), "no_data", "STG-03"),
    ("after the lag", staged("STG-03", lane("STG-03", 95, ago=-1)), "no_data", "STG-03"),
    ("all closed", staged("STG-03", lane("STG-03", 100, closed=100)), "no_data", "STG-03"),
    (
        "a chute's lane",
        staged("Chute 11", lane("STG-03", 95), lane("STG-02", 10)),
        "true",
        "STG-03",
    ),
    ("a door's lane", staged("dd6", lane("STG-03", 10), lane("STG-02", 95)), "false", "STG-03"),
    ("another lane", staged("STG-04", lane("STG-03", 95)), "no_data", "STG-04"),
    ("the most crowded", staged("LS-1", lane("STG-03", 92), lane("STG-10", 96)), "true", "STG-10"),
    (
        "of two alike the first",
        staged("", lane("STG-10", 96), lane("STG-09", 96)),
        "true",
        "STG-09",
    ),
    ("a zone has no lane", staged("ZN-4", lane("STG-01", 96)), "true", "STG-01"),
    (
        "one closed, one not",
        staged("", lane("STG-01", 9, closed=100), lane("STG-02", 95)),
        "true",
        "STG-02",
    ),
    ("odd spelling", staged("STG-A", lane("STG-01", 96)), "true", "STG-01"),
    ("feed silent", World(entity="Lane 3", feed=False), "no_data", "STG-03"),
)


def stocked(entity: str, *rows: Row) -> World:
    return World(entity=entity, tables={"container_zone": rows})


CONTAINERS = of(
    "rc_container_short",
    ("fewer than were used", stocked("ZN-2", zone_stock("ZN-2", 2, 3)), "true", "ZN-2"),
    ("as many as were used", stocked("ZN-2", zone_stock("ZN-2", 3, 3)), "false", "ZN-2"),
    ("too little used", stocked("ZN-2", zone_stock("ZN-2", 0, 2)), "false", "ZN-2"),
    (
        "the latest decides",
        stocked("ZN-2", zone_stock("ZN-2", 0, 9, ago=300), zone_stock("ZN-2", 9, 9)),
        "false",
        "ZN-2",
    ),
    ("old enough", stocked("ZN-2", zone_stock("ZN-2", 0, 9, ago=480)), "true", "ZN-2"),
    ("too old", stocked("ZN-2", zone_stock("ZN-2", 0, 9, ago=481)), "no_data", "ZN-2"),
    ("after the lag", stocked("ZN-2", zone_stock("ZN-2", 0, 9, ago=-1)), "no_data", "ZN-2"),
    (
        "a chute's zone",
        stocked("Chute 16", zone_stock("ZN-2", 0, 9), zone_stock("ZN-1", 9, 9)),
        "true",
        "ZN-2",
    ),
    (
        "the last chute of a zone",
        stocked("CH-015", zone_stock("ZN-2", 0, 9), zone_stock("ZN-1", 9, 9)),
        "false",
        "CH-015",
    ),
    ("a lane's zone", stocked("STG-04", zone_stock("ZN-2", 0, 9)), "true", "ZN-2"),
    ("a door's zone", stocked("DD-07", zone_stock("ZN-2", 0, 9)), "true", "ZN-2"),
    (
        "the shortest of all",
        stocked("LS-1", zone_stock("ZN-1", 2, 5), zone_stock("ZN-3", 1, 9)),
        "true",
        "ZN-3",
    ),
    (
        "one that holds, not the least",
        stocked("", zone_stock("ZN-1", 0, 2), zone_stock("ZN-4", 2, 3)),
        "true",
        "ZN-4",
    ),
    (
        "of two alike the first",
        stocked("", zone_stock("ZN-4", 2, 3), zone_stock("ZN-2", 2, 3)),
        "true",
        "ZN-2",
    ),
    ("feed silent", World(entity="zone 2", feed=False), "no_data", "ZN-2"),
)


def yard(*rows: Row, at: datetime | None = None) -> World:
    world = World(
        entity="STG-03",
        tables={
            "yard_trailer": [row for row in rows if "trailer_id" in row],
            "roster": [row for row in rows if "person_id" in row],
        },
    )
    return world if at is None else World(entity="STG-03", at=at, tables=world.tables)


DRIVER = on_shift("P1", "yard_driver", None)
REPEATED = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 for the second time
YARD = of(
    "con_yard_trailer",
    ("both", yard(trailer("T1"), DRIVER), "true", "STG-03"),
    ("no driver", yard(trailer("T1"), on_shift("P2")), "false", "STG-03"),
    ("no trailer", yard(DRIVER), "false", "STG-03"),
    ("loaded", yard(trailer("T1", status="loaded"), DRIVER), "false", "STG-03"),
    ("storage", yard(trailer("T1", kind="storage"), DRIVER), "false", "STG-03"),
    ("not inspected", yard(trailer("T1", inspected=0), DRIVER), "false", "STG-03"),
    ("just come", yard(trailer("T1", arrived=0), DRIVER), "true", "STG-03"),
    ("comes later", yard(trailer("T1", arrived=-1), DRIVER), "false", "STG-03"),
    ("just gone", yard(trailer("T1", left=0), DRIVER), "false", "STG-03"),
    ("goes later", yard(trailer("T1", left=-1), DRIVER), "true", "STG-03"),
    ("here for weeks", yard(trailer("T1", arrived=2e6), DRIVER), "true", "STG-03"),
    (
        "the shift begins",
        yard(trailer("T1"), on_shift("P1", "yard_driver", None, since=0)),
        "true",
        "STG-03",
    ),
    (
        "the shift is over",
        yard(trailer("T1"), on_shift("P1", "yard_driver", None, until=0)),
        "false",
        "STG-03",
    ),
    (
        "left in the first of two hours",
        yard(
            trailer("T1", left=3000, arrived=9000, end=REPEATED - timedelta(seconds=120)),
            on_shift("P1", "yard_driver", None, end=REPEATED),
            at=REPEATED,
        ),
        "false",
        "STG-03",
    ),
    ("feed silent", World(entity="STG 3", feed=False), "no_data", "STG-03"),
)

CASES = [*STAGING, *CONTAINERS, *YARD]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)


def test_clocks_went_back_between_these_two() -> None:
    """What the case of the two hours rests on."""
    assert local(REPEATED)[0] == local(REPEATED - timedelta(hours=1))[0]
