"""Each quirk is shown by what shows it, and by nothing less."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from bench.dock import LIBRARY
from bench.make.evidence import Evidence
from bench.make.quirks import Quirk, quirks_of
from bench.make.reading import Field, SaidAnswer, Shown


def quirk(node: str, name: str) -> Quirk:
    tree = ast.parse((LIBRARY / node / "v1.py").read_text())
    return next(one for one in quirks_of(tree) if one.name == name)


def field(
    name: str,
    *types: str,
    low: float | None = None,
    high: float | None = None,
    nulls: int = 0,
    examples: str = "-",
) -> Field:
    return Field(name, types, nulls, low, high, examples)


def shown(kind: str = "series", fields: Sequence[Field] = (), **lines: str) -> Shown:
    answer = SaidAnswer("", kind=kind, size=1, fields=tuple(fields))
    return Shown(text="", lines=lines, answers=(answer,))


DRIVE, TICKET, FAULT = "rc_drive_overload", "con_ticket_open", "rc_drive_fault"
VALUE = field("value", "number", low=5, high=80, examples="5, 80")

CASES = [
    ("rc_air_pressure_low", "units air_pressure psi", Shown(text="", units={"air": "psi"}), False),
    ("rc_air_pressure_low", "units air_pressure psi", Shown(text="", units={}), False),
    (
        "rc_air_pressure_low",
        "units air_pressure psi",
        Shown(text="", units={"air_pressure": "bar"}),
        False,
    ),
    (
        "rc_air_pressure_low",
        "units air_pressure psi",
        Shown(text="", units={"air_pressure": "psi"}),
        True,
    ),
    (
        "rc_tracking_slip",
        "units any ft/min",
        Shown(text="", units={"sorter_speed": "ft/min"}),
        True,
    ),
    (DRIVE, "sentinels", shown(fields=[VALUE]), False),
    (DRIVE, "sentinels", shown(fields=[VALUE._replace(high=9999)]), True),
    (DRIVE, "sentinels", shown(fields=[VALUE._replace(examples="5, 9999, 12")]), True),
    (DRIVE, "sentinels", shown(fields=[VALUE._replace(examples="5, 99990, -12")]), False),
    (DRIVE, "sentinels", shown("rows", [VALUE._replace(high=9999)]), False),
    (FAULT, "lost link", shown("json", [field("code", "integer", low=-1, high=-1)]), True),
    (FAULT, "lost link", shown("json", [field("code", "integer", low=0, high=7)]), False),
    (FAULT, "lost link", shown("json", [field("ok", "truth", examples="true, -1")]), True),
    ("obs_jam_real", "wraps", shown(fields=[field("value.drops", examples="[65501, 3]")]), True),
    ("obs_jam_real", "wraps", shown(fields=[field("value.drops", examples="[2201, 0]")]), False),
    ("obs_jam_real", "wraps", shown(fields=[VALUE._replace(high=65501)]), False),
    ("rc_labor_short", "nulls actual", shown("rows", [field("actual", nulls=2)]), True),
    ("rc_labor_short", "nulls actual", shown("rows", [field("planned", nulls=2)]), False),
    ("rc_labor_short", "nulls actual", shown("rows", [field("actual")]), False),
    (
        "rc_labor_short",
        "nulls actual",
        shown(predicted="failed: raised: TypeError: 'NoneType'"),
        True,
    ),
    ("con_tech_free", "local times", shown("rows", [field("on", "local timestamp")]), True),
    ("con_tech_free", "local times", shown("rows", [field("on_local", "timestamp")]), False),
    (TICKET, "spellings", shown(entity="RC-01"), False),
    (TICKET, "spellings", shown(entity="LS-1"), False),
    (TICKET, "spellings", shown(entity="rc1"), True),
    (TICKET, "spellings", shown(entity="Chute 7"), True),
    (TICKET, "spellings", shown(fields=[field("asset", "text", examples='"ch7", "ch8"')]), True),
    (TICKET, "spellings", shown(fields=[field("code", "text", examples='"F0007", "P1"')]), False),
    (TICKET, "coded words", shown("rows", [field("status", examples='"open"')]), False),
    (TICKET, "coded words", shown("rows", [field("status", examples='"In Progress"')]), True),
    (FAULT, "coded numbers", shown("json", [field("code", "text", examples='"F0007"')]), True),
    (FAULT, "coded numbers", shown("json", [field("code", "integer", examples="7")]), False),
    (
        TICKET,
        "rows written twice",
        shown("rows", [field("written", low=12), field("different", low=11)]),
        True,
    ),
    (
        TICKET,
        "rows written twice",
        shown("rows", [field("written", low=12), field("different", low=12)]),
        False,
    ),
    (TICKET, "rows written twice", shown("rows", [field("written", low=12)]), False),
]


@pytest.mark.parametrize(("node", "name", "one", "expected"), CASES)
def test_what_shows_a_quirk(node: str, name: str, one: Shown, expected: bool) -> None:
    assert quirk(node, name).shown(Evidence([one])) is expected


def test_a_quirk_is_not_shown_by_nothing() -> None:
    for path in LIBRARY.glob("*/v1.py"):
        for one in quirks_of(ast.parse(path.read_text())):
            assert not one.shown(Evidence([])), (path, one.name)


def test_units_of_the_sites_file_show_a_unit() -> None:
    one = quirk("rc_air_pressure_low", "units air_pressure psi")
    assert one.shown(Evidence([], [("air_pressure", "psi")]))
    assert not one.shown(Evidence([], [("air_pressure", "bar"), ("other", "psi")]))


def test_a_step_shows_the_grain() -> None:
    grain = quirk("obs_sorter_slow", "grain 5")
    for step, expected in ((5.0, True), (10.0, False), (None, False)):
        answer = SaidAnswer("", kind="series", size=1, step_s=step)
        assert grain.shown(Evidence([Shown(text="", answers=(answer,))])) is expected


def test_doubled_rows_show_that_rows_are_written_twice() -> None:
    answer = SaidAnswer("", kind="rows", size=4, doubled=1)
    twice = quirk("rc_no_destination", "rows written twice")
    assert twice.shown(Evidence([Shown(text="", answers=(answer,))]))


@pytest.mark.parametrize(
    ("node", "name", "gone", "there"),
    [
        ("rc_air_pressure_low", "units air_pressure psi", "psi", "scale = 1"),
        ("rc_drive_overload", "units drive_temp fahrenheit", "fahrenheit", "quantile"),
        ("rc_drive_overload", "sentinels", "9999", "valid(series.values)"),
        ("rc_drive_fault", "lost link", "code == LOST", "compare('fault code', code"),
        ("rc_photo_eye_dirty", "lost link", "!= -1", "margin_pct"),
        ("rc_tracking_slip", "wraps", "max_step=max_step", "increase(series)"),
        ("con_spare_on_hand", "nulls reserved", "or 0", "row['reserved']"),
        ("con_cpt_slack", "nulls loaded", "['loaded'] is None", "row['loaded'] < row['planned']"),
        ("rc_trailer_absent", "nulls docked_local", "is not None and context", "docked"),
        ("con_tech_free", "local times", "fold=row", "row['on_local'] + 'Z'"),
        ("con_tech_free", "local times", "wall_clock", "(moment + margin)"),
        ("con_tech_free", "coded words", "re.sub", "return status or ''"),
        ("con_tech_free", "rows written twice", "DISTINCT", "SELECT person_id"),
        ("rc_drive_fault", "coded numbers", "lstrip", "return code"),
        ("rc_cup_worn", "spellings", "return asset_id", "return text"),
        ("obs_sorter_slow", "grain 5", "GRAIN_S = 5", "GRAIN_S = 1"),
        ("con_induct_headroom", "grain 60", "MINUTE_S = 60", "MINUTE_S = 30"),
    ],
)
def test_whoever_knows_nothing_of_it(node: str, name: str, gone: str, there: str) -> None:
    tree = ast.parse((LIBRARY / node / "v1.py").read_text())
    assert gone in ast.unparse(tree)
    assert quirk(node, name).spoil(tree)
    text = ast.unparse(tree)
    assert gone not in text
    assert there in text
    compile(text, node, "exec")
    assert not quirk(node, name).spoil(tree)
