from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.dock_tools.dock_rows import (
    forecast,
    labels,
    minute,
    mix,
    pause,
    unread,
)
from tests.unit.dock_tools.dock_world import (
    T2,
    WEEKS,
    Case,
    Row,
    World,
    check,
    of,
    params_of,
)

LAG = timedelta(seconds=120)
TWO_O_CLOCKS = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 in New York for the second time
BERLIN = "Europe/Berlin"


def printed(*no_reads: list[Row], all_labels: list[Row] | None = None) -> World:
    eight = [labels(f"PR-0{number}", 100, ago=300) for number in range(1, 9)]
    return World(
        entity="ST-1",
        tables={
            "no_read": [row for rows in no_reads for row in rows],
            "label_count": eight if all_labels is None else all_labels,
        },
    )


LABELS = of(
    "rc_label_print_poor",
    ("half of them", printed(unread("PR-03", 15), unread("PR-04", 15, 1)), "true", "PR-03"),
    (
        "under half",
        printed(unread("PR-03", 14), unread("PR-04", 13), unread("PR-05", 3)),
        "false",
        "PR-03",
    ),
    ("spelled otherwise", printed(unread("pr4", 20), unread("Printer 4", 10)), "true", "PR-04"),
    ("few identified", printed(unread("PR-03", 29), unread(None, 50)), "no_data", "ST-1"),
    ("written twice", printed(unread("PR-03", 20), unread("PR-03", 20)), "no_data", "ST-1"),
    ("at the window's open end", printed(unread("PR-03", 30, 3600)), "no_data", "ST-1"),
    ("at its closed end", printed(unread("PR-03", 30, 3599)), "true", "PR-03"),
    ("after the lag", printed(unread("PR-03", 30, -1)), "no_data", "ST-1"),
    (
        "thrice its share exactly",
        printed(
            unread("PR-03", 18),
            unread("PR-04", 12),
            all_labels=[labels("PR-03", 20), labels("PR-04", 80)],
        ),
        "true",
        "PR-03",
    ),
    (
        "under thrice its share",
        printed(
            unread("PR-03", 18),
            unread("PR-04", 12),
            all_labels=[labels("PR-03", 21), labels("PR-04", 79)],
        ),
        "false",
        "PR-03",
    ),
    (
        "labels written twice",
        printed(
            unread("PR-03", 18),
            unread("PR-04", 12),
            all_labels=[labels("PR-03", 20), labels("PR-03", 20), labels("PR-04", 80)],
        ),
        "true",
        "PR-03",
    ),
    ("no labels", printed(unread("PR-03", 30), all_labels=[]), "no_data", "PR-03"),
    ("feed silent", World(entity="st2", feed=False), "no_data", "ST-2"),
)


def read(*rows: Row, at: datetime = T2 + LAG, site: str = "FC1", entity: str = "LS-1") -> World:
    return World(entity=entity, at=at, site=site, tables={"flow_minute": rows})


REPEATED = TWO_O_CLOCKS - LAG
NO_DESTINATION = of(
    "rc_no_destination",
    ("at the limit", read(minute(reads=1000, unassigned=15)), "true", "LS-1"),
    ("under it", read(minute(reads=1000, unassigned=14)), "false", "LS-1"),
    ("just enough reads", read(minute(reads=300, unassigned=30)), "true", "LS-1"),
    ("too few reads", read(minute(reads=299, unassigned=30)), "no_data", "LS-1"),
    ("the window's open end", read(minute(900, reads=900, unassigned=90)), "no_data", "LS-1"),
    ("its first minute", read(minute(840, reads=900, unassigned=90)), "true", "LS-1"),
    ("after the lag", read(minute(-60, reads=900, unassigned=90)), "no_data", "LS-1"),
    (
        "written twice",
        read(*[minute(reads=400, unassigned=8)] * 2, minute(60, reads=600, unassigned=0)),
        "false",
        "LS-1",
    ),
    (
        "the second of two hours",
        read(
            minute(reads=400, unassigned=0, end=REPEATED),
            minute(3600, reads=400, unassigned=400, end=REPEATED),
            at=TWO_O_CLOCKS,
        ),
        "false",
        "LS-1",
    ),
    (
        "the first of two hours",
        read(
            minute(-3600, reads=400, unassigned=0, end=REPEATED - timedelta(hours=1)),
            minute(reads=400, unassigned=400, end=REPEATED - timedelta(hours=1)),
            at=TWO_O_CLOCKS - timedelta(hours=1),
        ),
        "true",
        "LS-1",
    ),
    (
        "across the hour that is left out",
        read(
            minute(
                600,
                reads=400,
                unassigned=6,
                end=datetime(2026, 3, 29, 1, 5, tzinfo=UTC),
                zone=BERLIN,
            ),
            at=datetime(2026, 3, 29, 1, 7, tzinfo=UTC),
            site="FC2",
            entity="",
        ),
        "true",
        "",
    ),
    ("feed silent", World(entity="Chute 7", feed=False), "no_data", "CH-007"),
)


def mixed(now: list[Row], *weeks: list[Row]) -> World:
    rows = [*now, *(row for week in weeks for row in week)]
    return World(entity="RC-02", tables={"item_mix": rows})


def week(number: int, polybag: int = 20, ago: float = 0, **classes: int) -> list[Row]:
    """So many of a thousand are bags, `number` weeks ago."""
    counts = {"box": 1000 - 10 * polybag, "polybag": 10 * polybag, **classes}
    return mix(ago, end=WEEKS[number - 1] - LAG, **counts)


USUAL = [week(number) for number in (1, 2, 3, 4)]
ITEM_MIX = of(
    "rc_item_mix_hard",
    (
        "the window's open end",
        mixed([*mix(box=800, polybag=200), *mix(1800, polybag=900)], *USUAL),
        "false",
        "RC-02",
    ),
    ("its first second", mixed(mix(1799, box=700, polybag=300), *USUAL), "true", "RC-02"),
    (
        "after the lag",
        mixed([*mix(box=800, polybag=200), *mix(-1, polybag=900)], *USUAL),
        "false",
        "RC-02",
    ),
    ("ten points more", mixed(mix(box=700, polybag=300), *USUAL), "true", "RC-02"),
    ("less than that", mixed(mix(box=701, polybag=299), *USUAL), "false", "RC-02"),
    (
        "odd shapes count too",
        mixed(mix(box=600, flat=100, polybag=100, irregular=200), *USUAL),
        "true",
        "RC-02",
    ),
    ("unknown ones do not", mixed(mix(box=490, polybag=210, unknown=300), *USUAL), "true", "RC-02"),
    ("too many unknown", mixed(mix(box=489, polybag=210, unknown=301), *USUAL), "no_data", "RC-02"),
    ("just enough", mixed(mix(box=200, polybag=100), *USUAL), "true", "RC-02"),
    ("too few", mixed(mix(box=199, polybag=100), *USUAL), "no_data", "RC-02"),
    ("all unknown", mixed(mix(unknown=1000), *USUAL), "no_data", "RC-02"),
    ("three weeks", mixed(mix(box=700, polybag=300), *USUAL[1:]), "true", "RC-02"),
    ("two weeks", mixed(mix(box=700, polybag=300), *USUAL[2:]), "no_data", "RC-02"),
    (
        "a week that is not known",
        mixed(mix(box=700, polybag=300), *USUAL[:2], week(3, unknown=900)),
        "no_data",
        "RC-02",
    ),
    (
        "the middle of the weeks",
        mixed(mix(box=700, polybag=300), week(1, 10), week(2, 20), week(3, 20), week(4, 90)),
        "true",
        "RC-02",
    ),
    (
        "an hour off before clocks changed",
        mixed(mix(box=700, polybag=300), *USUAL[:2], week(3, ago=3600), week(4, ago=3600)),
        "no_data",
        "RC-02",
    ),
    ("written twice", mixed(mix(box=100, polybag=50) * 2, *USUAL), "no_data", "RC-02"),
    ("feed silent", World(entity="rc2", feed=False), "no_data", "RC-02"),
)


def flowed(rows: list[Row], plan: list[Row], breaks: list[Row] | None = None) -> World:
    tables = {"flow_minute": rows, "forecast": plan, "break_plan": breaks or []}
    return World(entity="INF-1", tables=tables)


PLANNED = forecast(arrivals=300)  # 20 a minute, 600 in half an hour
VOLUME = of(
    "rc_volume_over_plan",
    ("at the limit", flowed([minute(arrivals=720)], PLANNED), "true", "INF-1"),
    ("under it", flowed([minute(arrivals=719)], PLANNED), "false", "INF-1"),
    ("the window's open end", flowed([minute(1800, arrivals=720)], PLANNED), "false", "INF-1"),
    ("its first minute", flowed([minute(1740, arrivals=720)], PLANNED), "true", "INF-1"),
    ("written twice", flowed([minute(arrivals=400)] * 2, PLANNED * 2), "false", "INF-1"),
    (
        "plan just big enough",
        flowed([minute(arrivals=600)], forecast(arrivals=250)),
        "true",
        "INF-1",
    ),
    ("plan too small", flowed([minute(arrivals=600)], forecast(arrivals=249)), "no_data", "INF-1"),
    (
        # T2 is 15:05: 5 minutes of its slot, 15 of the one before, 10 of the one before that.
        "each minute in its own quarter",
        flowed(
            [minute(arrivals=2100)],
            [
                {**row, "arrivals": count}
                for row, count in zip(PLANNED, (3000, 300, 675, 9000), strict=True)
            ],
        ),
        "true",
        "INF-1",
    ),
    (
        "a quarter without a plan",
        flowed([minute(arrivals=600)], forecast(arrivals=750, slots=2)[1:]),
        "false",
        "INF-1",
    ),
    ("nothing arrived", flowed([], PLANNED), "false", "INF-1"),
    ("nothing planned", flowed([minute(arrivals=9)], []), "no_data", "INF-1"),
    ("feed silent", World(entity="Infeed 1", feed=False), "no_data", "INF-1"),
)

PACKED = forecast(pack=100)  # 100 in a quarter of an hour
UPSTREAM = of(
    "rc_upstream_stop",
    ("half of it", flowed([minute(pack_completions=50)], PACKED), "false", "INF-1"),
    ("under half", flowed([minute(pack_completions=49)], PACKED), "true", "INF-1"),
    ("nothing packed", flowed([], PACKED), "true", "INF-1"),
    ("the window's open end", flowed([minute(900, pack_completions=90)], PACKED), "true", "INF-1"),
    ("its first minute", flowed([minute(840, pack_completions=90)], PACKED), "false", "INF-1"),
    ("written twice", flowed([minute(pack_completions=30)] * 2, PACKED), "true", "INF-1"),
    ("plan too small", flowed([], forecast(pack=99)), "no_data", "INF-1"),
    ("in a break", flowed([], PACKED, [pause(600, 600)]), "false", "INF-1"),
    ("a break begins", flowed([], PACKED, [pause(0, 600)]), "false", "INF-1"),
    ("a break ends", flowed([], forecast(pack=1000), [pause(600, 0)]), "true", "INF-1"),
    ("too little beside the break", flowed([], PACKED, [pause(600, 0)]), "no_data", "INF-1"),
    (
        "a break's minutes count on neither side",
        flowed([minute(840, pack_completions=200)], forecast(pack=900), [pause(600, 0)]),
        "false",
        "INF-1",
    ),
    (
        "nor do parcels packed in it",
        flowed([minute(60, pack_completions=800)], forecast(pack=900), [pause(600, 0)]),
        "true",
        "INF-1",
    ),
    ("a break without a plan", flowed([], [], [pause(600, 600)]), "false", "INF-1"),
    ("a break an hour later", flowed([], PACKED, [pause(-1800, 2700)]), "true", "INF-1"),
    (
        "a break in the first of two hours",
        World(
            at=TWO_O_CLOCKS,
            tables={
                "forecast": forecast(pack=100, end=REPEATED),
                "break_plan": [pause(600, 600, REPEATED - timedelta(hours=1))],
            },
        ),
        "true",
        "",
    ),
    ("feed silent", World(entity="DRV 1", feed=False), "no_data", "DRV-1"),
)

CASES = [*LABELS, *NO_DESTINATION, *ITEM_MIX, *VOLUME, *UPSTREAM]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
