from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.dock_tools.dock_rows import heads, on_shift, ticket
from tests.unit.dock_tools.dock_world import T2, Case, Row, World, check, of, params_of, utc

HOUR = 3600
REPEATED = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 in New York for the second time


def manned(entity: str, *rows: Row, site: str = "FC1") -> World:
    return World(entity=entity, site=site, tables={"labor_slot": rows})


LABOR = of(
    "rc_labor_short",
    ("at the limit", manned("LS-1", heads("sort", 17)), "false", "LS-1"),
    ("under it", manned("LS-1", heads("sort", 16)), "true", "LS-1"),
    ("another site's limit", manned("LS-1", heads("sort", 16), site="FC5"), "false", "LS-1"),
    ("the worst of the areas", manned("LS-1", heads("sort", 20), heads("load", 5)), "true", "LS-1"),
    (
        "a donor does not count",
        manned("LS-1", heads("sort", 20), heads("pick", 5)),
        "false",
        "LS-1",
    ),
    ("just enough planned", manned("LS-1", heads("sort", 3, planned=4)), "true", "LS-1"),
    ("too few planned", manned("LS-1", heads("sort", 1, planned=3)), "no_data", "LS-1"),
    ("badges not read", manned("LS-1", heads("sort", None), heads("load", 20)), "false", "LS-1"),
    ("none read", manned("LS-1", heads("sort", None)), "no_data", "LS-1"),
    ("the shift has settled", manned("LS-1", heads("sort", 9, shift_ago=900)), "true", "LS-1"),
    ("not yet", manned("LS-1", heads("sort", 9, shift_ago=899)), "no_data", "LS-1"),
    (
        "not yet in one area",
        manned("LS-1", heads("sort", 9), heads("load", None, shift_ago=60)),
        "no_data",
        "LS-1",
    ),
    (
        "a donor's shift does not matter",
        manned("LS-1", heads("sort", 9), heads("pick", 9, shift_ago=60)),
        "true",
        "LS-1",
    ),
    ("the slot before", manned("LS-1", heads("sort", 9, slot_ago=900)), "no_data", "LS-1"),
    ("the slot behind", manned("LS-1", heads("sort", 9, slot_ago=-900)), "no_data", "LS-1"),
    ("feed silent", World(entity="Sorter 1", feed=False), "no_data", "LS-1"),
)

MOVABLE = of(
    "con_labor_movable",
    ("two to spare", manned("LS-1", heads("pick", 23)), "true", "LS-1"),
    ("less than two", manned("LS-1", heads("pick", 22)), "false", "LS-1"),
    ("two of them trained", manned("LS-1", heads("pick", 40, trained=2)), "true", "LS-1"),
    ("one of them trained", manned("LS-1", heads("pick", 40, trained=1)), "false", "LS-1"),
    (
        "a minute too little left",
        manned("LS-1", heads("pick", 40, shift_in=45 * 60)),
        "false",
        "LS-1",
    ),
    ("just enough left", manned("LS-1", heads("pick", 40, shift_in=45 * 60 + 1)), "true", "LS-1"),
    (
        "time here, people there",
        manned("LS-1", heads("pick", 40, shift_in=60), heads("pack", 20)),
        "false",
        "LS-1",
    ),
    (
        "one area will do",
        manned("LS-1", heads("pick", 40, shift_in=60), heads("pack", 23)),
        "true",
        "LS-1",
    ),
    (
        "outbound has none to give",
        manned("LS-1", heads("sort", 40), heads("pick", 20)),
        "false",
        "LS-1",
    ),
    ("badges not read", manned("LS-1", heads("pick", None)), "no_data", "LS-1"),
    ("only outbound known", manned("LS-1", heads("sort", 40)), "no_data", "LS-1"),
    ("the slot before", manned("LS-1", heads("pick", 40, slot_ago=900)), "no_data", "LS-1"),
    ("feed silent", World(entity="LOOP 1", feed=False), "no_data", "LS-1"),
)


def reported(entity: str, *rows: Row) -> World:
    return World(entity=entity, tables={"ticket": rows})


DAY3 = 72 * HOUR - 120  # before T2, so just 72 hours before NOW
TICKETS = of(
    "con_ticket_open",
    ("on the first robot of its drive", reported("DRV-10", ticket("RC-00")), "true", "DRV-10"),
    ("on the last eye's infeed", reported("PE-45", ticket("INF-4")), "true", "PE-45"),
    ("on the second lane's door", reported("DD-03", ticket("STG-02")), "true", "DD-03"),
    ("on it", reported("ch7", ticket("pls look at CHUTE 007!!")), "true", "CH-007"),
    ("on another", reported("CH-007", ticket("CH-070"), ticket("CH-17")), "false", "CH-007"),
    (
        "the second that it names",
        reported("DD-04", ticket("Maintenance / Lane 9, Door04")),
        "true",
        "DD-04",
    ),
    ("on the eye's infeed", reported("PE-23", ticket("infeed-2 stops again")), "true", "PE-23"),
    ("on another infeed", reported("PE-23", ticket("INF-3")), "false", "PE-23"),
    ("on the drive's infeed", reported("DRV-4", ticket("inf_4")), "true", "DRV-4"),
    ("on the loop of its drive", reported("DRV-0", ticket("Sorter 1")), "true", "DRV-0"),
    (
        "on the robot of its drive",
        reported("DRV-13", ticket("check Cell 3 (operator)")),
        "true",
        "DRV-13",
    ),
    ("on the chute's loop", reported("CH-044", ticket("PM LS 1")), "true", "CH-044"),
    ("on the door's lane", reported("Door 6", ticket("LANE 03")), "true", "DD-06"),
    ("a child's ticket is not the parent's", reported("INF-2", ticket("PE-23")), "false", "INF-2"),
    ("nor is a grandparent's", reported("STG-03", ticket("ZN-1")), "false", "STG-03"),
    ("assigned", reported("RC-02", ticket("rc2", "ASSIGNED")), "true", "RC-02"),
    ("in progress", reported("RC-02", ticket("rc2", "in-progress")), "true", "RC-02"),
    ("in progress too", reported("RC-02", ticket("rc2", "IN_PROGRESS")), "true", "RC-02"),
    ("on hold", reported("RC-02", ticket("rc2", "On Hold")), "false", "RC-02"),
    ("closed without a date", reported("RC-02", ticket("rc2", "Closed")), "false", "RC-02"),
    ("closed since", reported("RC-02", ticket("rc2", "Closed", closed=-1)), "true", "RC-02"),
    ("just closed", reported("RC-02", ticket("rc2", "Open", closed=0)), "false", "RC-02"),
    ("three days old", reported("RC-02", ticket("rc2", opened=DAY3)), "true", "RC-02"),
    ("older", reported("RC-02", ticket("rc2", opened=DAY3 + 1)), "false", "RC-02"),
    ("just opened", reported("RC-02", ticket("rc2", opened=0)), "true", "RC-02"),
    ("opened after the lag", reported("RC-02", ticket("rc2", opened=-1)), "false", "RC-02"),
    ("two separators", reported("RC-02", ticket("rc - 2")), "false", "RC-02"),
    ("no asset", reported("the dock", ticket("the dock")), "false", "the dock"),
    ("no text", reported("RC-02", {**ticket("rc2"), "asset_text": None}), "false", "RC-02"),
    ("feed silent", World(entity="robot 2", feed=False), "no_data", "RC-02"),
)


def crew(*rows: Row, at: datetime = T2 + timedelta(seconds=120)) -> World:
    return World(
        entity="RC-01",
        at=at,
        tables={
            "roster": [row for row in rows if "person_id" in row],
            "ticket": [row for row in rows if "ticket_id" in row],
        },
    )


ANNA = on_shift("anna")


def urgent(status: str = "Open", closed: float | None = None, **more: str) -> Row:
    told = {"priority": "P2", "assignee": "anna", **more}
    return ticket("RC-03", status, opened=90 * 24 * HOUR, closed=closed, **told)


TECHNICIANS = of(
    "con_tech_free",
    ("one free", crew(ANNA), "true", "RC-01"),
    ("nobody", crew(), "false", "RC-01"),
    ("another skill", crew(on_shift("bob", skill="it")), "false", "RC-01"),
    ("another role", crew(on_shift("bob", role="area_lead")), "false", "RC-01"),
    ("just come", crew(on_shift("anna", since=0)), "true", "RC-01"),
    ("comes later", crew(on_shift("anna", since=-1)), "false", "RC-01"),
    ("just gone", crew(on_shift("anna", until=0)), "false", "RC-01"),
    ("goes soon", crew(on_shift("anna", until=1)), "true", "RC-01"),
    ("busy", crew(ANNA, urgent()), "false", "RC-01"),
    ("written twice", crew(ANNA, ANNA, urgent()), "false", "RC-01"),
    ("another is free", crew(ANNA, on_shift("bob"), urgent()), "true", "RC-01"),
    (
        "busy twice",
        crew(ANNA, on_shift("bob"), urgent(), urgent("assigned", priority="P1")),
        "true",
        "RC-01",
    ),
    ("who is busy is not here", crew(ANNA, urgent(assignee="carl")), "true", "RC-01"),
    ("not urgent", crew(ANNA, urgent(priority="P3")), "true", "RC-01"),
    ("parked", crew(ANNA, urgent("WAITING_PARTS")), "true", "RC-01"),
    ("done since", crew(ANNA, urgent("done", closed=-1)), "false", "RC-01"),
    ("just done", crew(ANNA, urgent("done", closed=0)), "true", "RC-01"),
    (
        "opened after the lag",
        crew(ANNA, {**urgent(), "opened_utc": utc(T2 + timedelta(seconds=1))}),
        "true",
        "RC-01",
    ),
    (
        "went in the first of two hours",
        crew(on_shift("anna", since=9000, until=-3000, end=REPEATED), at=REPEATED),
        "false",
        "RC-01",
    ),
    ("feed silent", World(entity="rc-1", feed=False), "no_data", "RC-01"),
)


def counted(entity: str, *told: tuple[float, int, int | None], part: str = "GRIPPER-KIT") -> World:
    """Seconds before T2, on hand and reserved."""
    stock = [
        {
            "part": part,
            "at_utc": utc(T2 - timedelta(seconds=ago)),
            "on_hand": there,
            "reserved": kept,
        }
        for ago, there, kept in told
    ]
    return World(entity=entity, tables={"spare_stock": stock})


SPARES = of(
    "con_spare_on_hand",
    ("one left", counted("RC-04", (0, 2, 1)), "true", "RC-04"),
    ("all reserved", counted("RC-04", (0, 2, 2)), "false", "RC-04"),
    ("reserved is null", counted("RC-04", (0, 1, None)), "true", "RC-04"),
    ("the latest count", counted("RC-04", (900, 5, 0), (60, 0, 0)), "false", "RC-04"),
    ("written twice", counted("RC-04", (60, 0, 0), (60, 0, 0), (900, 5, 0)), "false", "RC-04"),
    ("counted after the lag", counted("RC-04", (60, 0, 0), (-1, 5, 0)), "false", "RC-04"),
    ("counted long ago", counted("RC-04", (9e6, 1, 0)), "true", "RC-04"),
    ("another part", counted("RC-04", (0, 5, 0), part="CUP-SET"), "false", "RC-04"),
    ("never counted", counted("Robot 4"), "false", "RC-04"),
    ("no part is kept", counted("CH-007", (0, 5, 0)), "no_data", "CH-007"),
    ("no asset", counted("RC", (0, 5, 0)), "no_data", "RC"),
    ("feed silent", World(entity="cell4", feed=False), "no_data", "RC-04"),
)

CASES = [*LABOR, *MOVABLE, *TICKETS, *TECHNICIANS, *SPARES]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
