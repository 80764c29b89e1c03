"""Whatever a tool does or returns is a value: never a crash, never half a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    MEMORY,
    World,
    by_node,
    library,
    memory,
    one_node,
    query,
    reasons,
    tool,
    value,
)
from triage.errors import ToolFailed
from triage.evaluation.judge import (
    MAX_CLAUSES,
    MAX_NAME,
    MAX_PARAMS,
    MAX_QUERIES,
    MAX_QUERY_TEXT,
    MAX_TEXT,
    check_query,
    checked,
)
from triage.library.catalogue import Tool
from triage.model.canonical import canonical_json
from triage.model.decision import decision_document
from triage.model.query import (
    Aggregate,
    Call,
    Query,
    Rows,
    Samples,
    Series,
    query_digest,
    query_document,
)
from triage.model.verdict import Clause, Truth, Verdict

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def outcome(one: Tool) -> tuple[str, str]:
    """The node's reason (or verdict) and the failure's detail; the decision can be stored."""
    world = World(sop=one_node(one), library=library(one), sources=[memory({"a": value(20)})])
    decided = await world.decide()
    canonical_json(decision_document(decided.decision))
    result = by_node(decided)["a"]
    return reasons([result])["a"], result.failure.detail if result.failure else ""


# --- raising --------------------------------------------------------------------------------------


class Unprintable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no")


def _endless(n: int) -> int:
    return _endless(n + 1) + 1


def _raise(error: BaseException) -> Any:
    raise error


RAISING: dict[str, tuple[Callable[[], Any], str]] = {
    "key": (lambda: dict[str, int]()["queue"], "KeyError: 'queue'"),
    "index": (lambda: list[int]()[0], "IndexError"),
    "zero": (lambda: 1 / 0, "ZeroDivisionError"),
    "system exit": (lambda: _raise(SystemExit(3)), "SystemExit: 3"),
    "memory": (lambda: _raise(MemoryError()), "MemoryError"),
    "recursion": (lambda: _endless(0), "RecursionError"),
    "timeout": (lambda: _raise(TimeoutError("mine")), "TimeoutError: mine"),
    "stop": (lambda: _raise(StopIteration()), "StopIteration"),
    "stop async": (lambda: _raise(StopAsyncIteration()), "StopAsyncIteration"),
    "group": (lambda: _raise(ExceptionGroup("many", [ValueError()])), "ExceptionGroup: many"),
    "assertion": (lambda: _raise(AssertionError()), "AssertionError"),
    "unprintable": (lambda: _raise(Unprintable()), "Unprintable: its message raised RuntimeError"),
    "surrogate": (lambda: _raise(ValueError("\ud800")), "ValueError: ?"),
    "long": (lambda: _raise(ValueError("x" * 10**6)), "ValueError: xxx"),
    "truth": (lambda: bool(Truth.FALSE), "TypeError: a Truth has three values"),
}


@pytest.mark.parametrize("what", RAISING)
@pytest.mark.parametrize("where", ["queries", "evaluate"])
@on_virtual_time
async def test_what_a_tool_raises_is_its_failure_with_the_line(what: str, where: str) -> None:
    action, told = RAISING[what]

    def raising(*_: object) -> Any:
        return action()

    one = (
        tool("a", queries=raising, evaluate=raising)
        if where == "queries"
        else tool("a", queries=lambda *_: [], evaluate=raising)
    )
    reason, detail = await outcome(one)
    assert reason == "tool_raised"
    assert told in detail
    assert re.match(r"a/v1\.py:[1-9]\d*: ", detail)
    assert __file__ not in detail
    assert len(detail) < 1000


@on_virtual_time
async def test_the_line_is_the_deepest_one_in_the_tools_own_file() -> None:
    """Not that of the library function it called: the tool is what its maker can mend."""
    source = "def evaluate(w, t, c):\n    x = 1\n    return parse('[')\n"
    names: dict[str, Any] = {"parse": re.compile}
    exec(compile(source, "/srv/tools_lib/a/v1.py", "exec"), names)  # noqa: S102 - as the loader does
    _, detail = await outcome(tool("a", queries=lambda *_: [], evaluate=names["evaluate"]))
    assert detail.startswith("a/v1.py:3: error: ")


# --- queries --------------------------------------------------------------------------------------


class OddList(list[Any]):
    def __len__(self) -> int:
        raise ValueError("odd")


class OddText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ValueError("odd")

    def __hash__(self) -> int:
        raise ValueError("odd")


class OddZone(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise ValueError("odd")

    def dst(self, _: datetime | None) -> timedelta:
        raise ValueError("odd")

    def tzname(self, _: datetime | None) -> str:
        raise ValueError("odd")


class OddMoment(datetime):
    def astimezone(self, tz: tzinfo | None = None) -> Any:
        raise ValueError("odd")


class OddQuery(Rows):
    __slots__ = ()

    def __hash__(self) -> int:
        raise ValueError("odd")


def _series(selector: Any = "up", start: Any = AT, end: Any = AT) -> Any:
    return Samples(MEMORY, selector, start, end)


def _aggregate(function: Any = "max", quantile: Any = 0.0) -> Any:
    return Aggregate(MEMORY, "up", AT, AT, function, quantile)


def _rows(params: Any, sql: Any = "select 1") -> Any:
    return Rows(MEMORY, sql, params)


BAD_QUERIES: dict[str, Any] = {
    "none": None,
    "text": "select 1",
    "dict": {"source": MEMORY},
    "tuple": (MEMORY, "up", AT, AT),
    "verdict": Verdict(value=Truth.TRUE),
    "type": Samples,
    "subclass": OddQuery(MEMORY, "select 1"),
    "short": tuple.__new__(Samples, (MEMORY,)),
    "empty": tuple.__new__(Rows, ()),
    "long": tuple.__new__(Samples, (MEMORY, "up", AT, AT, AT)),
    "source none": Samples(None, "up", AT, AT),  # type: ignore[arg-type]  # what a tool may do
    "source odd": Samples(OddText(MEMORY), "up", AT, AT),
    "source list": Samples([], "up", AT, AT),  # type: ignore[arg-type]  # what a tool may do
    "selector number": _series(5),
    "selector odd": _series(OddText("up")),
    "selector surrogate": _series("\ud800"),
    "selector huge": _series("x" * (MAX_QUERY_TEXT + 1)),
    "start none": _series(start=None),
    "start text": _series(start="2026-03-01T12:00:00Z"),
    "start number": _series(start=0.0),
    "start naive": _series(start=datetime(2026, 3, 1)),  # noqa: DTZ001 - what a tool may do
    "end naive": _series(end=datetime(2026, 3, 1)),  # noqa: DTZ001 - what a tool may do
    "start odd": _series(start=OddMoment(2026, 3, 1, tzinfo=UTC)),
    "start odd zone": _series(start=datetime(2026, 3, 1, tzinfo=OddZone())),
    "date": _series(start=AT.date()),
    "function unknown": _aggregate("stddev"),
    "function surrogate": _aggregate("\ud800"),
    "function huge": _aggregate("x" * 10**6),
    "function none": _aggregate(None),
    "quantile text": _aggregate("quantile", "0.5"),
    "quantile none": _aggregate("quantile", None),
    "sql none": _rows((), None),
    "sql surrogate": _rows((), "\udfff"),
    "params list": _rows([("a", 1)]),
    "params dict": _rows({"a": 1}),
    "params not pairs": _rows((1, 2)),
    "params triple": _rows((("a", 1, 2),)),
    "params single": _rows((("a",),)),
    "params list pair": _rows((["a", 1],)),
    "param name": _rows(((1, 1),)),
    "param name surrogate": _rows((("\ud800", 1),)),
    "param list": _rows((("a", [1]),)),
    "param bytes": _rows((("a", b"x"),)),
    "param moment": _rows((("a", AT),)),
    "param nan": _rows((("a", nan),)),
    "param infinite": _rows((("a", -inf),)),
    "param wide": _rows((("a", 10**30),)),
    "param surrogate": _rows((("a", "\ud800"),)),
    "param odd": _rows((("a", OddText("x")),)),
    "param huge": _rows((("a", "x" * (MAX_QUERY_TEXT + 1)),)),
    "params many": _rows(tuple((f"p{n}", n) for n in range(MAX_PARAMS + 1))),
    "tool none": Call(MEMORY, None),  # type: ignore[arg-type]  # what a tool may do
    "arguments none": Call(MEMORY, "t", None),  # type: ignore[arg-type]  # what a tool may do
    "arguments dict": Call(MEMORY, "t", {}),  # type: ignore[arg-type]  # what a tool may do
    "arguments text": Call(MEMORY, "t", "x = 1"),
    "arguments array": Call(MEMORY, "t", "[]"),
    "arguments nan": Call(MEMORY, "t", '{"a": NaN}'),
    "arguments deep": Call(MEMORY, "t", '{"a":' * 3000 + "1" + "}" * 3000),
    "arguments surrogate": Call(MEMORY, "t", '{"a": "\\ud800"}'),
    "arguments huge": Call(MEMORY, "t", " " * MAX_QUERY_TEXT + "{}"),
}


@pytest.mark.parametrize("what", BAD_QUERIES)
@on_virtual_time
async def test_what_is_no_query_fails_the_node(what: str) -> None:
    """It would end the attempt later: when it is hashed, asked or written into the decision."""
    one = tool("a", queries=lambda *_: [query("a"), BAD_QUERIES[what]])
    reason, detail = await outcome(one)
    assert reason == "invalid_queries"
    assert 10 < len(detail) < 1000


GOOD_QUERIES: dict[str, Query] = {
    "samples": Samples(MEMORY, 'up{a="é"}', AT - timedelta(minutes=1), AT),
    "zone": Samples(MEMORY, "up", AT.astimezone(ZoneInfo("Asia/Kolkata")), AT),
    "offset": Samples(MEMORY, "up", AT.astimezone(timezone(timedelta(hours=-3))), AT),
    "aggregate": Aggregate(MEMORY, "up", AT, AT, "quantile", 0.5),
    "aggregate whole": Aggregate(MEMORY, "up", AT, AT, "quantile", 1),
    "rows": Rows(MEMORY, "select :a", (("a", "é"), ("b", 1), ("c", 1.5), ("d", None), ("e", True))),
    "rows without": Rows(MEMORY, "select 1"),
    "wide": Rows(MEMORY, "select :a", (("a", 2**63 - 1),)),
    "call": Call(MEMORY, "t", '{"a":[1,"é"]}'),
    "call without": Call(MEMORY, "t"),
}


@pytest.mark.parametrize("what", GOOD_QUERIES)
def test_what_is_one_passes(what: str) -> None:
    good = GOOD_QUERIES[what]
    check_query(good, (MEMORY,))
    hash(good)
    canonical_json(query_document(good))


_ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.datetimes(timezones=st.none() | st.just(UTC)), st.lists(st.integers()),
    st.tuples(st.text(), st.integers()), st.tuples(st.tuples(st.text(), st.floats() | st.text())),
    st.sampled_from(["max", "quantile", "{}", '{"a": 1}', MEMORY]), st.just(AT),
    st.characters(categories=["Cs"]),
)  # fmt: skip


@given(
    kind=st.sampled_from([Samples, Aggregate, Rows, Call]), fields=st.lists(_ANYTHING, max_size=7)
)
def test_whatever_passes_can_be_hashed_and_recorded(kind: Any, fields: list[Any]) -> None:
    made = tuple.__new__(kind, [MEMORY, *fields])
    try:
        check_query(made, (MEMORY,))
    except ToolFailed:
        return
    hash(made)
    query_digest(made)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "NoneType"),
        ({}, "dict"),
        (query("a"), "Rows, not a list"),
        ("select", "str"),
        ((one for one in [query("a")]), "generator"),
        (iter([query("a")]), "list_iterator"),
        ({query("a")}, "set"),
        (OddList([query("a")]), "OddList"),
        ([query(f"q{n}") for n in range(MAX_QUERIES + 1)], "65 queries"),
        ([[query("a")]], "a list is not a query"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
@on_virtual_time
async def test_what_is_no_list_of_queries_fails_the_node(returned: Any, told: str) -> None:
    reason, detail = await outcome(tool("a", queries=lambda *_: returned))
    assert (reason, told in detail) == ("invalid_queries", True), detail


@on_virtual_time
async def test_as_many_queries_as_are_allowed_are_asked() -> None:
    one = tool("a", queries=lambda *_: tuple(query(f"q{n}") for n in range(MAX_QUERIES)),
               evaluate=lambda *_: verdict())  # fmt: skip
    assert await outcome(one) == ("true", "")


# --- verdicts -------------------------------------------------------------------------------------


def verdict(**fields: Any) -> Verdict:
    return Verdict(**{"value": Truth.TRUE, "explanation": "so", **fields})


def clause(**fields: Any) -> Clause:
    return Clause(
        **{"name": "n", "observed": 1.0, "op": ">", "threshold": 0.5, "holds": True, **fields}
    )


class OddVerdict(Verdict):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError("odd")


class OddClause(Clause):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError("odd")


class OddTuple(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Any:
        raise ValueError("odd")


class OddNumber(float):
    def __float__(self) -> float:
        raise ValueError("odd")


class OddInt(int):
    def __le__(self, other: object) -> bool:
        raise ValueError("odd")


class OddTruth(Enum):
    TRUE = "true"


def _hollow(kind: type[Any], *fields: Any) -> Any:
    """A named tuple made past its constructor, with too few fields."""
    return tuple.__new__(kind, fields)


BAD_VERDICTS: dict[str, Any] = {
    "none": None,
    "true": True,
    "truth": Truth.TRUE,
    "dict": {"value": Truth.TRUE, "clauses": (), "explanation": "", "subject": ""},
    "text": "true",
    "tuple": (Truth.TRUE, ()),
    "type": Verdict,
    "number": 1.0,
    "subclass": _hollow(OddVerdict),
    "value none": verdict(value=None),
    "value bool": verdict(value=True),
    "value text": verdict(value="true"),
    "value other enum": verdict(value=OddTruth.TRUE),
    "hollow": _hollow(Verdict),
    "hollow clauses": _hollow(Verdict, Truth.TRUE),
    "explanation none": verdict(explanation=None),
    "explanation bytes": verdict(explanation=b"so"),
    "explanation surrogate": verdict(explanation="\ud800"),
    "explanation long": verdict(explanation="x" * (MAX_TEXT + 1)),
    "explanation huge": verdict(explanation="é" * 10**7),
    "explanation odd": verdict(explanation=OddText("so")),
    "subject none": verdict(subject=None),
    "subject number": verdict(subject=7),
    "subject surrogate": verdict(subject="x\udc00"),
    "subject long": verdict(subject="x" * (MAX_NAME + 1)),
    "clauses list": verdict(clauses=[clause()]),
    "clauses none": verdict(clauses=None),
    "clauses clause": verdict(clauses=clause()),
    "clauses odd": verdict(clauses=OddTuple([clause()])),
    "clauses generator": verdict(clauses=(one for one in [clause()])),
    "clauses many": verdict(clauses=(clause(),) * (MAX_CLAUSES + 1)),
    "clause none": verdict(clauses=(None,)),
    "clause tuple": verdict(clauses=(("n", 1.0),)),
    "clause verdict": verdict(clauses=(verdict(),)),
    "clause subclass": verdict(clauses=(_hollow(OddClause),)),
    "clause hollow": verdict(clauses=(_hollow(Clause),)),
    "clause half": verdict(clauses=(_hollow(Clause, "n", 1.0),)),
    "name none": verdict(clauses=(clause(name=None),)),
    "name odd": verdict(clauses=(clause(name=OddText("n")),)),
    "name long": verdict(clauses=(clause(name="n" * (MAX_NAME + 1)),)),
    "op none": verdict(clauses=(clause(op=None),)),
    "unit none": verdict(clauses=(clause(unit=None),)),
    "unit surrogate": verdict(clauses=(clause(unit="\ud800"),)),
    "holds truth": verdict(clauses=(clause(holds=Truth.TRUE),)),
    "holds number": verdict(clauses=(clause(holds=1),)),
    "holds text": verdict(clauses=(clause(holds="yes"),)),
    "observed wide": verdict(clauses=(clause(observed=10**30),)),
    "observed low": verdict(clauses=(clause(observed=-(2**63) - 1),)),
    "observed list": verdict(clauses=(clause(observed=[1]),)),
    "observed complex": verdict(clauses=(clause(observed=1j),)),
    "observed bytes": verdict(clauses=(clause(observed=b"1"),)),
    "observed series": verdict(clauses=(clause(observed=Series({}, (), ())),)),
    "observed moment": verdict(clauses=(clause(observed=AT),)),
    "observed odd": verdict(clauses=(clause(observed=OddNumber(1)),)),
    "observed odd int": verdict(clauses=(clause(observed=OddInt(1)),)),
    "observed surrogate": verdict(clauses=(clause(observed="\ud800"),)),
    "observed long": verdict(clauses=(clause(observed="x" * (MAX_TEXT + 1)),)),
    "threshold wide": verdict(clauses=(clause(threshold=2**63),)),
    "threshold list": verdict(clauses=(clause(threshold=[]),)),
}


@pytest.mark.parametrize("what", BAD_VERDICTS)
@on_virtual_time
async def test_what_is_no_verdict_fails_the_node(what: str) -> None:
    one = tool("a", evaluate=lambda *_: BAD_VERDICTS[what])
    reason, detail = await outcome(one)
    assert reason == "invalid_result"
    assert 10 < len(detail) < 1000


GOOD_VERDICTS: dict[str, Verdict] = {
    "bare": Verdict(value=Truth.NO_DATA),
    "nan": verdict(clauses=(clause(observed=nan, holds=False),)),
    "infinite": verdict(clauses=(clause(observed=-inf, threshold=inf),)),
    "words": verdict(clauses=(clause(observed="down", threshold="up", op="!="),)),
    "truth values": verdict(clauses=(clause(observed=True, threshold=False, op="!="),)),
    "nothing": verdict(clauses=(clause(observed=None, threshold=None, holds=None),)),
    "edges": verdict(clauses=(clause(observed=2**63 - 1, threshold=-(2**63)),)),
    "unicode": verdict(explanation="é😀" * 500, subject="ü"),
    "empty": verdict(explanation="", clauses=(clause(name="", op="", unit=""),)),
    "full": verdict(explanation="x" * MAX_TEXT, clauses=(clause(),) * MAX_CLAUSES),
}


@pytest.mark.parametrize("what", GOOD_VERDICTS)
@on_virtual_time
async def test_what_is_one_is_taken_as_it_is(what: str) -> None:
    good = GOOD_VERDICTS[what]
    assert checked(good) is good
    assert await outcome(tool("a", evaluate=lambda *_: good)) == (good.value.word, "")


@on_virtual_time
async def test_a_coroutine_from_a_tool_that_is_not_dynamic_is_no_verdict() -> None:
    made: list[Any] = []

    async def evaluate(*_: object) -> Verdict:
        return verdict()

    def keeping(*_: object) -> Any:
        made.append(evaluate())
        return made[0]

    assert (await outcome(tool("a", evaluate=keeping)))[0] == "invalid_result"
    made[0].close()


@on_virtual_time
async def test_the_marker_names_the_tool_while_its_code_runs_and_only_then() -> None:
    class Mark:
        def __init__(self) -> None:
            self.running: Tool | None = None
            self.entered: list[str] = []

        def enter(self, tool: Tool) -> None:
            self.running = tool
            self.entered.append(tool.node)

        def leave(self) -> None:
            self.running = None

    mark = Mark()
    seen: list[Tool | None] = []

    def queries(*_: object) -> list[Query]:
        seen.append(mark.running)
        return []

    def evaluate(*_: object) -> Verdict:
        seen.append(mark.running)
        raise ValueError

    one = tool("a", queries=queries, evaluate=evaluate)
    await World(sop=one_node(one), library=library(one), sources=[], marker=mark).decide()
    assert seen == [one, one]
    assert mark.running is None
    assert mark.entered == ["a", "a"]
