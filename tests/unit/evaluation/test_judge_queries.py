"""What is no query fails the node, before it can end the attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.evaluation.judging import OddText, outcome
from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    MEMORY,
    query,
    tool,
)
from triage.errors import ToolFailed
from triage.evaluation.judge import (
    MAX_PARAMS,
    MAX_QUERIES,
    MAX_QUERY_TEXT,
    check_query,
)
from triage.model.canonical import canonical_json
from triage.model.query import (
    Aggregate,
    Call,
    Query,
    Rows,
    Samples,
    query_digest,
    query_document,
)
from triage.model.verdict import Truth, Verdict

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class OddList(list[Any]):
    def __len__(self) -> int:
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
    asked = tuple(query(f"q{n}") for n in range(MAX_QUERIES))
    one = tool("a", lambda *_: asked, lambda *_: Verdict(value=Truth.TRUE))
    assert await outcome(one) == ("true", "")
