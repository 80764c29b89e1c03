"""The prelude's names do, in the sandbox's interpreter, what those of tool_api do in this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pydantic_monty
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.unit.fallback.monty import plain_inputs
from triage import tool_api
from triage.evaluation.context import ToolContext
from triage.fallback.prelude import prelude, without_imports, zone_offsets
from triage.model.alert import Alert, AlertId, Severity
from triage.model.site import Site
from triage.sop.procedure import SiteProfile

DRIVER = """
def decoded(value):
    if isinstance(value, dict) and "times" in value:
        return Series(value["labels"], tuple(value["times"]), tuple(value["values"]))
    if isinstance(value, dict) and "at" in value:
        return START + timedelta(microseconds=value["at"])
    if isinstance(value, dict) and "clauses" in value:
        return [Clause(*clause) for clause in value["clauses"]]
    return value

def shown(name, args, kwargs):
    try:
        given = {key: decoded(value) for key, value in kwargs.items()}
        return repr(FUNCTIONS[name](*[decoded(one) for one in args], **given))
    except (ValueError, TypeError, OverflowError, ZeroDivisionError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"

"""
NAMES = [
    "aggregate",
    "asset_id",
    "asset_ids",
    "call",
    "compare",
    "conclude",
    "held",
    "increase",
    "last",
    "mean",
    "median",
    "no_data",
    "quantile",
    "rows",
    "samples",
    "selector",
    "span_s",
    "trend",
    "valid",
]
FUNCTIONS = f"FUNCTIONS = {{{', '.join(f'{name!r}: {name}' for name in NAMES)}}}\n"
START = """
from datetime import datetime, timedelta, timezone
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""
LAST = "[shown(*case) for case in cases]"
Case = tuple[str, list[Any], dict[str, Any]]
_FLOAT = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")
# A run holds many cases and the message names the one at fault: nothing is left to shrink.
BATCHES = settings(max_examples=25, deadline=None, phases=(Phase.generate,))


@pytest.fixture(scope="module")
def pool() -> Iterator[pydantic_monty.Monty]:
    with pydantic_monty.Monty(min_processes=1, max_processes=1) as pool:
        yield pool


def in_sandbox(pool: pydantic_monty.Monty, code: str, **inputs: Any) -> Any:
    with pool.checkout() as session:
        session.feed_run(prelude(), inputs=plain_inputs())
        return session.feed_run(without_imports(code), inputs=inputs)


def here(cases: list[Case]) -> Any:
    names: dict[str, Any] = {name: getattr(tool_api, name) for name in tool_api.__all__}
    exec(START + FUNCTIONS + DRIVER, names)  # noqa: S102 - our own text, a few lines up
    return [names["shown"](*case) for case in cases]


def alike(pool: pydantic_monty.Monty, cases: list[Case]) -> None:
    there = in_sandbox(pool, START + FUNCTIONS + DRIVER + LAST, cases=cases)
    for case, ours, theirs in zip(cases, here(cases), there, strict=True):
        assert respelled(theirs) == respelled(ours), case


def respelled(shown: str) -> str:
    """Of two texts of 17 digits that are one float, the interpreters do not always print the
    same. Every bit still counts."""
    return _FLOAT.sub(lambda found: repr(float(found[0])), shown)


finite = st.floats(-1e9, 1e9) | st.integers(-1000, 1000).map(float)
value = finite | st.sampled_from((0.0, 1.0, -0.0, nan, inf, -inf, 65535.0, 5e-324, 1.7e308))
moments = st.integers(-(10**15), 10**15).map(lambda at: {"at": at})
# Of one age: what repr() escapes differs between the two tables of Unicode.
texts = st.text(st.characters(max_codepoint=0x24F), max_size=12)
word = st.text(alphabet="abXY_09", max_size=4).map(lambda rest: "m" + rest)
plain = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | texts
FACTS = {"words": {"CHUTE": "CH", "CELL": "RC"}, "width": {"CH": 3, "RC": 2}}


@st.composite
def series(draw: st.DrawFn, *, longest: int = 12) -> dict[str, Any]:
    times = sorted(draw(st.lists(st.floats(1.76e9, 1.77e9), max_size=longest, unique=True)))
    values = draw(st.lists(value, min_size=len(times), max_size=len(times)))
    return {"labels": {"asset": "CH-1"}, "times": times, "values": values}


@st.composite
def states(draw: st.DrawFn) -> Case:
    """Changes of a state around a window, some at its very edges."""
    start = 1_767_225_600  # the driver's START
    at = st.integers(-600, 600)
    times = sorted(draw(st.lists(at, max_size=10, unique=True)))
    values = [draw(st.sampled_from((0.0, 1.0, 2.0))) for _ in times]
    one = {"labels": {}, "times": [float(start + t) for t in times], "values": values}
    low, high = sorted((draw(at), draw(at)))
    window = [{"at": low * 1_000_000}, {"at": high * 1_000_000}]
    return "held", [one, *window], {"carry_s": draw(st.sampled_from((0.0, 60, 300.5, inf)))}


def case(name: str, *args: st.SearchStrategy[Any], **kwargs: st.SearchStrategy[Any]) -> Any:
    return st.tuples(st.just(name), st.tuples(*args).map(list), st.fixed_dictionaries(kwargs))


clause = st.tuples(
    texts, plain, st.sampled_from(("<", ">=")), plain, texts, st.none() | st.booleans()
)
clauses = st.lists(clause.map(list), max_size=4).map(lambda some: {"clauses": some})
matchers = st.dictionaries(word | texts, texts, max_size=3)
names_written = st.lists(
    st.sampled_from(
        ("CH", "chute", "Cell ", "rc-", "ß", "7", "007", " ", "_", "-", "é", "٣", "1e")
    ),
    max_size=6,
).map("".join)
window_s = st.floats(0, 1e7) | st.integers(0, 10**6)
CASES: st.SearchStrategy[Case] = st.one_of(
    case("valid", st.lists(value, max_size=8), sentinels=st.lists(value, max_size=2)),
    case("increase", series(), modulus=st.sampled_from((0, 65536.0)), max_step=st.just(2000.0)),
    states(),
    case("span_s", series()),
    case("trend", series(longest=20)),
    case("mean", st.lists(value, max_size=8)),
    case("median", st.lists(value, max_size=8)),
    case("quantile", st.lists(value, max_size=8), st.floats(-0.1, 1.1)),
    case("last", series()),
    case(
        "compare",
        texts,
        value,
        st.sampled_from((*["<", ">", "<=", ">=", "==", "!=", "=~"],)),
        value,
        texts,
    ),
    case("conclude", clauses, texts, subject=texts, any_of=st.booleans()),
    case("no_data", texts, subject=texts),
    case("asset_id", names_written, words=st.just(FACTS["words"]), width=st.just(FACTS["width"])),
    case("asset_ids", names_written, words=st.just(FACTS["words"]), width=st.just(FACTS["width"])),
    case("samples", word, texts, moments, window_s),
    case("aggregate", word, texts, moments, window_s, st.just("quantile"), st.floats(0, 1)),
    st.tuples(st.just("rows"), st.tuples(word, texts).map(list), st.dictionaries(word, plain)),
    st.tuples(st.just("call"), st.tuples(word, word).map(list), st.dictionaries(word, plain)),
    case("selector", word | texts, without=matchers, matching=matchers, not_matching=matchers),
    st.tuples(
        st.just("selector"),
        word.map(lambda one: [one]),
        st.dictionaries(word.map(lambda one: "l" + one), texts),
    ),
)


@BATCHES
@given(cases=st.lists(CASES, min_size=20, max_size=60))
def test_every_function_says_the_same(pool: pydantic_monty.Monty, cases: list[Case]) -> None:
    alike(pool, cases)


def test_every_name_of_tool_api_is_there(pool: pydantic_monty.Monty) -> None:
    assert in_sandbox(pool, f"len([{', '.join(tool_api.__all__)}])") == len(tool_api.__all__)


def test_names_of_ones_own_do_not_break_it(pool: pydantic_monty.Monty) -> None:
    code = """
json = re = fsum = quantile = Series = Verdict = Truth = Clause = Samples = timedelta = 3
found = [median([1.0, 2.0]), mean([1.0, 3.0]), call("a", "b", x=1).arguments, ago(60),
         no_data("x").value.value, conclude([compare("a", 1, ">", 0)], "x").value.value]
found
"""
    assert in_sandbox(pool, code) == [
        1.5,
        2.0,
        '{"x":1}',
        "2026-11-18T15:06:00+00:00",
        "no_data",
        "true",
    ]


def test_a_truth_is_one_of_three(pool: pydantic_monty.Monty) -> None:
    code = """
yes = conclude([compare("a", 1, ">", 0)], "x")
[yes.value is Truth.TRUE, yes.value is Truth.FALSE, yes.value == Truth.TRUE,
 no_data("").value is Truth.NO_DATA, {Truth.TRUE: 1}[yes.value], yes.value.value, yes.value.word]
"""
    assert in_sandbox(pool, code) == [True, False, True, True, 1, "true", "true"]


def test_queries_are_values(pool: pydantic_monty.Monty) -> None:
    code = """
first = samples("m", "up", timestamp, 60)
again = samples("m", "up", timestamp, 60.0)
other = rows("w", "SELECT 1", a=1, b=None)
[first == again, hash(first) == hash(again), {other: 5}[rows("w", "SELECT 1", b=None, a=1)],
 first == other, isinstance(first, Samples), isinstance(first, Rows), list(first)[:2]]
"""
    assert in_sandbox(pool, code) == [True, True, 5, False, True, False, ["m", "up"]]


ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Casablanca",
    "America/Santiago",
    "UTC",
)
FIRED = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
LOCAL_START = datetime(2026, 1, 1)  # noqa: DTZ001 - a wall clock's time has no zone


def real_context(zone: str) -> ToolContext:
    site = Site(name="FC1", zone=zone, units={}, facts={})
    alert = Alert(
        alert_id=AlertId("0" * 32),
        integration="test",
        tenant="",
        fingerprint="1",
        alarm="al",
        site="FC1",
        entity="",
        severity=Severity.WARNING,
        fired_at=FIRED,
        accepted_at=FIRED,
        labels={},
        annotations={},
    )
    return ToolContext(alert, SiteProfile(site=site, params={}, parents={}, known=True))


def clocks(pool: pydantic_monty.Monty, zone: str, code: str, **inputs: Any) -> Any:
    site = Site(name="FC1", zone=zone, units={}, facts={})
    with pool.checkout() as session:
        session.feed_run(prelude(), inputs=plain_inputs(site=site, fired_at=FIRED))
        return session.feed_run(without_imports(code), inputs=inputs)


def local_times(zone: str) -> list[datetime]:
    """Every quarter of an hour of two days around each change, and some of every month."""
    around = [
        datetime.fromtimestamp(at + step * 900, UTC).replace(tzinfo=None)
        for at, _ in zone_offsets(zone, FIRED)[1:]
        for step in range(-96, 97)
    ]
    usual = [LOCAL_START + timedelta(days=day, minutes=37 * day) for day in range(0, 360, 5)]
    return [*around, *usual]


@pytest.mark.parametrize("zone", ZONES)
def test_localise_as_zoneinfo_does(pool: pydantic_monty.Monty, zone: str) -> None:
    texts_told = [moment.isoformat(" ") for moment in local_times(zone)]
    context = real_context(zone)
    code = "[[context.localise(text, fold=fold).isoformat() for fold in (0, 1)] for text in told]"
    assert clocks(pool, zone, code, told=texts_told) == [
        [context.localise(text, fold=fold).isoformat() for fold in (0, 1)] for text in texts_told
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_wall_clock_and_weeks_before(pool: pydantic_monty.Monty, zone: str) -> None:
    moments = [at.replace(tzinfo=UTC) for at in local_times(zone)]
    # The last weeks of what is known of the zone's clocks lie further back than 400 days.
    told = [at.isoformat() for at in moments if abs(at - FIRED) < timedelta(days=360)]
    code = """
from datetime import datetime
found = []
for text in told:
    moment = datetime.fromisoformat(text)
    before = same_time_weeks_before(context, moment, 4)
    found.append([context.wall_clock(moment).isoformat(), *[at.isoformat() for at in before]])
found
"""
    context = real_context(zone)
    assert clocks(pool, zone, code, told=told) == [
        [
            context.wall_clock(moment).isoformat(),
            *[at.isoformat() for at in tool_api.same_time_weeks_before(context, moment, 4)],
        ]
        for moment in map(datetime.fromisoformat, told)
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_offsets_are_those_of_the_zone(zone: str) -> None:
    offsets = zone_offsets(zone, FIRED)
    begin = int((FIRED - timedelta(days=400)).timestamp())
    assert offsets[0][0] == begin
    for at in range(begin, begin + 800 * 86_400, 3571):
        known = [offset for since, offset in offsets if since <= at][-1]
        moment = datetime.fromtimestamp(at, ZoneInfo(zone))
        assert timedelta(seconds=known) == moment.utcoffset()


TIME_CODE = """
from datetime import UTC, datetime, timedelta
def tried(kind, given):
    try:
        if kind == "delta":
            return repr(timedelta(**given))
        if kind == "from":
            return repr(datetime.fromtimestamp(given, UTC))
        return repr(datetime.fromisoformat(given))
    except (ValueError, OverflowError):
        return "refused"
"""
parts = (
    st.floats(-1e5, 1e5)
    | st.integers(-(10**5), 10**5)
    | st.integers(-99, 99).map(lambda n: n + 0.5)
)
deltas = st.dictionaries(
    st.sampled_from(
        ["days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"]
    ),
    parts,
)
iso = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(("2026-11-01", "20261101", "2026-02-30", "2026-1-01", "0001-01-01")),
    st.sampled_from(("T", " ", "é")),
    st.sampled_from(
        (
            "01:30:00",
            "013000",
            "01:30",
            "0130",
            "01",
            "01:30:00.1",
            "01:30:00,123456789",
            "25:00",
            "1",
        )
    ),
    st.sampled_from(
        ("", "Z", "+05:30", "-0500", "+02", "+00:00", "-00:00", "+24:00", "+01:00:30", "z")
    ),
)
times = st.one_of(
    st.tuples(st.just("delta"), deltas),
    st.tuples(st.just("from"), st.floats(-6e10, 2.5e11) | st.integers(0, 2**33)),
    st.tuples(st.just("iso"), iso),
)


@BATCHES
@given(cases=st.lists(times, min_size=20, max_size=60))
def test_time_as_datetime_has_it(pool: pydantic_monty.Monty, cases: list[tuple[str, Any]]) -> None:
    names: dict[str, Any] = {}
    exec(TIME_CODE, names)  # noqa: S102 - our own text, a few lines up
    theirs = in_sandbox(pool, TIME_CODE + "[tried(*case) for case in cases]", cases=cases)
    for one, there in zip(cases, theirs, strict=True):
        assert there == names["tried"](*one), one
