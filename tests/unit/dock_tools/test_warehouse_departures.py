from __future__ import annotations

import pytest

from tests.unit.dock_tools.dock_rows import (
    departure,
    loaded,
)
from tests.unit.dock_tools.dock_series import full
from tests.unit.dock_tools.dock_world import Case, Row, World, check, of, params_of


def loading(entity: str, *rows: Row | list[Row], **params: float) -> World:
    flat = [row for one in rows for row in (one if isinstance(one, list) else [one])]
    return World(
        entity=entity,
        tables={
            "departure": [row for row in flat if "cpt_utc" in row],
            "loading": [row for row in flat if "loaded" in row],
        },
        params=params,
    )


HOUR = departure("D1", "STG-03", 3600)
DEPARTURE = of(
    "obs_departure_short",
    (
        "one short, one not",
        loading(
            "LS-1",
            HOUR,
            departure("D2", "STG-07", 3600),
            loaded("D1", (900, 999), (0, 999)),
            loaded("D2", (900, 9), (0, 9)),
        ),
        "true",
        "STG-07",
    ),
    (
        "least of what is planned, not of parcels",
        loading(
            "LS-1",
            HOUR,
            departure("D2", "STG-01", 3600, planned=500),
            loaded("D1", (900, 600), (0, 600)),
            loaded("D2", (900, 400), (0, 400)),
        ),
        "true",
        "STG-03",
    ),
    (
        "nothing planned",
        loading(
            "STG-03", departure("D1", "STG-03", 3600, planned=0), loaded("D1", (900, 0), (0, 0))
        ),
        "false",
        "STG-03",
    ),
    # 0.2 a second for an hour.
    ("at the limit", loading("STG-03", HOUR, loaded("D1", (900, 80), (0, 260))), "false", "STG-03"),
    ("short", loading("STG-03", HOUR, loaded("D1", (900, 79), (0, 259))), "true", "STG-03"),
    (
        "nothing more comes",
        loading("STG-03", HOUR, loaded("D1", (900, 979), (0, 979))),
        "true",
        "STG-03",
    ),
    (
        "the older row must be old enough",
        loading("STG-03", HOUR, loaded("D1", (899, 80), (0, 260))),
        "no_data",
        "STG-03",
    ),
    (
        "the newest that is old enough",
        loading("STG-03", HOUR, loaded("D1", (1800, 0), (900, 80), (600, 250), (0, 260))),
        "false",
        "STG-03",
    ),
    (
        "one from long ago will do",
        loading("STG-03", HOUR, loaded("D1", (90_000, 0), (9000, 0), (0, 1800))),
        "false",
        "STG-03",
    ),
    (
        "the gap counts from an old snapshot",
        loading("STG-03", HOUR, loaded("D1", (1380, 900), (480, 990))),
        "false",
        "STG-03",
    ),
    (
        "the snapshot is too old",
        loading("STG-03", HOUR, loaded("D1", (1500, 900), (481, 900))),
        "no_data",
        "STG-03",
    ),
    (
        "after the lag",
        loading("STG-03", HOUR, loaded("D1", (900, 0), (-1, 0))),
        "no_data",
        "STG-03",
    ),
    (
        "written twice",
        loading("STG-03", [HOUR] * 2, loaded("D1", (900, 79), (0, 259)) * 2),
        "true",
        "STG-03",
    ),
    ("none due", loading("STG-03"), "false", "STG-03"),
    ("pulled right now", loading("STG-03", departure("D1", "STG-03", 0)), "false", "STG-03"),
    ("at the horizon", loading("STG-03", departure("D1", "STG-03", 7200)), "no_data", "STG-03"),
    ("behind it", loading("STG-03", departure("D1", "STG-03", 7201)), "false", "STG-03"),
    ("a chute's lane", loading("ch15", HOUR, loaded("D1", (900, 0), (0, 0))), "true", "STG-03"),
    ("another lane's", loading("DD-07", HOUR, loaded("D1", (900, 0), (0, 0))), "false", "DD-07"),
    (
        "the worst of all, one unknown",
        loading(
            "LS-1",
            HOUR,
            departure("D2", "STG-07", 3600),
            departure("D3", "STG-09", 3600, planned=500),
            loaded("D1", (900, 900), (0, 900)),
            loaded("D3", (900, 400), (0, 400)),
        ),
        "true",
        "STG-09",
    ),
    ("feed silent", World(entity="STG_3", feed=False), "no_data", "STG-03"),
)


def awaited(entity: str, *rows: Row, chutes: dict[str, float] | None = None) -> World:
    series = [full(chute, seconds) for chute, seconds in (chutes or {}).items()]
    return World(entity=entity, tables={"departure": rows}, series=series)


LATE = departure("D1", "STG-03", 5000, plan_ago=900)
TRAILER = of(
    "rc_trailer_absent",
    (
        "the fullest of what is known",
        World(
            entity="",
            tables={"departure": [LATE]},
            series=[full("CH-001", 500), full("CH-011", 400, of=600)],
        ),
        "true",
        "STG-03",
    ),
    (
        "just enough of it known",
        World(
            entity="",
            tables={"departure": [LATE]},
            series=[full("CH-001", 1), full("CH-011", 400, of=540)],
        ),
        "true",
        "STG-03",
    ),
    (
        "too little of it known",
        World(
            entity="",
            tables={"departure": [LATE]},
            series=[full("CH-001", 1), full("CH-011", 400, of=539)],
        ),
        "false",
        "STG-01",
    ),
    (
        "the first of the next zone",
        awaited("ZN-1", LATE, chutes={"CH-016": 900, "CH-015": 9}),
        "true",
        "STG-03",
    ),
    ("late and absent", awaited("STG-03", LATE), "true", "STG-03"),
    (
        "not late enough",
        awaited("STG-03", departure("D1", "STG-03", 5000, plan_ago=899)),
        "false",
        "STG-03",
    ),
    (
        "docked",
        awaited("STG-03", departure("D1", "STG-03", 5000, plan_ago=900, docked_ago=0)),
        "false",
        "STG-03",
    ),
    (
        "docked later",
        awaited("STG-03", departure("D1", "STG-03", 5000, plan_ago=900, docked_ago=-1)),
        "true",
        "STG-03",
    ),
    (
        "the next one decides",
        awaited("STG-03", LATE, departure("D0", "STG-03", 100, plan_ago=900, docked_ago=60)),
        "false",
        "STG-03",
    ),
    ("none due", awaited("STG-03"), "false", "STG-03"),
    (
        "pulled right now",
        awaited("STG-03", departure("D1", "STG-03", 0, plan_ago=900)),
        "false",
        "STG-03",
    ),
    (
        "at the horizon",
        awaited("STG-03", departure("D1", "STG-03", 10_800, plan_ago=900)),
        "true",
        "STG-03",
    ),
    (
        "behind it",
        awaited("STG-03", departure("D1", "STG-03", 10_801, plan_ago=900)),
        "false",
        "STG-03",
    ),
    ("a door's lane", awaited("Door 6", LATE), "true", "STG-03"),
    ("a chute's lane", awaited("CH_12", LATE), "true", "STG-03"),
    ("another lane", awaited("CH-010", LATE), "false", "STG-02"),
    (
        "the fullest chute's lane",
        awaited("LS-1", LATE, chutes={"ch13": 500, "ch14": 400}),
        "true",
        "STG-03",
    ),
    (
        "the fullest of the zone",
        awaited("ZN-1", LATE, chutes={"CH-016": 900, "CH-011": 300, "CH-001": 200}),
        "true",
        "STG-03",
    ),
    ("no chute known", awaited("LS-1", LATE, chutes={}), "no_data", "LS-1"),
    ("none of the zone known", awaited("ZN-2", LATE, chutes={"CH-011": 300}), "no_data", "ZN-2"),
    ("feed silent", World(entity="ch12", feed=False), "no_data", "CH-012"),
)

SLACK = of(
    "con_cpt_slack",
    ("an hour", loading("RC-01", HOUR), "true", "RC-01"),
    ("a second less", loading("RC-01", departure("D1", "STG-03", 3599)), "false", "RC-01"),
    (
        "that one is loaded",
        loading("RC-01", departure("D1", "STG-03", 600), loaded("D1", (0, 1000))),
        "true",
        "RC-01",
    ),
    (
        "one parcel is missing",
        loading("RC-01", departure("D1", "STG-03", 600), loaded("D1", (0, 999))),
        "false",
        "RC-01",
    ),
    (
        "it was loaded after the lag",
        loading("RC-01", departure("D1", "STG-03", 600), loaded("D1", (0, 999), (-1, 1000))),
        "false",
        "RC-01",
    ),
    (
        "the latest row decides",
        loading("RC-01", departure("D1", "STG-03", 600), loaded("D1", (600, 1000), (0, 900))),
        "false",
        "RC-01",
    ),
    ("none", loading("RC-01"), "true", "RC-01"),
    ("pulled right now", loading("RC-01", departure("D1", "STG-03", 0)), "true", "RC-01"),
    (
        "at the horizon",
        loading("RC-01", departure("D1", "STG-03", 3600), slack_horizon_s=3600, cpt_slack_min=480),
        "false",
        "RC-01",
    ),
    (
        "behind it",
        loading("RC-01", departure("D1", "STG-03", 3601), slack_horizon_s=3600, cpt_slack_min=480),
        "true",
        "RC-01",
    ),
    ("before the next", loading("RC-01", HOUR, departure("D2", "STG-01", 600)), "false", "RC-01"),
    ("feed silent", World(entity="Cell 1", feed=False), "no_data", "RC-01"),
)


CASES = [*DEPARTURE, *TRAILER, *SLACK]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
