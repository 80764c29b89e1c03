"""Queries a tool may ask, and the answers sources give. Both have one canonical byte form.

A query is a value: equal queries of one attempt are asked once. An answer's bytes are what is
stored as evidence, and decoding them gives exactly what the tool saw when it was live.

Queries are named tuples, unlike every other value here: a query is made, hashed and compared
about ten times an attempt, and a tuple does that in C, three to five times faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

import orjson

from triage.model.canonical import canonical_json, sha256_hex

Parameter = str | int | float | bool | None
AggregateFunction = Literal["count", "min", "max", "sum", "quantile"]


class Samples(NamedTuple):
    """Raw samples of `selector` with start < time <= end. Answer: `tuple[Series, ...]`."""

    source: str
    selector: str
    start: datetime
    end: datetime


class Aggregate(NamedTuple):
    """`function` over the samples of each series with start < time <= end.

    `quantile` is in [0, 1] and only read by the function of that name.
    Answer: `tuple[Reading, ...]`, one a series that has at least one sample in the window.
    """

    source: str
    selector: str
    start: datetime
    end: datetime
    function: AggregateFunction
    quantile: float = 0.0


class Rows(NamedTuple):
    """A read-only SQL query with `:name` parameters. Answer: `tuple[dict[str, …], ...]`.

    `params` are (name, value) pairs sorted by name. Values never become SQL text.
    """

    source: str
    sql: str
    params: tuple[tuple[str, Parameter], ...] = ()


class Call(NamedTuple):
    """An MCP tool call. `arguments` is a canonical JSON object. Answer: any JSON value."""

    source: str
    tool: str
    arguments: str = "{}"


Query = Samples | Aggregate | Rows | Call


@dataclass(frozen=True, slots=True)
class Series:
    """`times` are seconds since the epoch, ascending; `values` has the same length."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    labels: Mapping[str, str]
    value: float


_NUMBERS = {int, float}  # and not bool, which is an int
_SPELLED = ("NaN", "+Inf", "-Inf")

Answer = Any
"""`tuple[Series, ...] | tuple[Reading, ...] | tuple[dict, ...] | JSON`, by the query's type."""


def query_document(query: Query) -> dict[str, Any]:
    """The query as JSON types, stable across versions: it is stored with decisions."""
    match query:
        case Samples():
            return {
                "kind": "samples",
                "source": query.source,
                "selector": query.selector,
                "start": _instant(query.start),
                "end": _instant(query.end),
            }
        case Aggregate():
            document = {
                "kind": "aggregate",
                "source": query.source,
                "selector": query.selector,
                "start": _instant(query.start),
                "end": _instant(query.end),
                "function": query.function,
            }
            if query.function == "quantile":
                document["quantile"] = repr(query.quantile)
            return document
        case Rows():
            return {
                "kind": "rows",
                "source": query.source,
                "sql": query.sql,
                "params": dict(query.params),
            }
        case Call():
            return {
                "kind": "call",
                "source": query.source,
                "tool": query.tool,
                "arguments": orjson.loads(query.arguments),
            }


def query_digest(query: Query) -> str:
    """SHA-256 of the canonical query: the key a recording is looked up by."""
    return sha256_hex(canonical_json(query_document(query)))


def encode_answer(answer: Answer) -> bytes:
    """Canonical bytes of an answer.

    Non-finite floats in series and readings become the strings "NaN", "+Inf", "-Inf", as
    Prometheus spells them; rows and JSON hold finite ones only, adapters see to that.
    Raises TypeError for a value that has no JSON form.
    """
    if isinstance(answer, tuple) and answer:
        first = answer[0]
        if isinstance(first, Series):
            return canonical_json(
                {"series": [[_plain(s.labels), s.times, spelled(s.values)] for s in answer]}
            )
        if isinstance(first, Reading):
            return canonical_json(
                {"readings": [[_plain(r.labels), spelled((r.value,))[0]] for r in answer]}
            )
    if isinstance(answer, tuple):
        return canonical_json({"rows": answer})
    return canonical_json({"json": answer})


def decode_answer(body: bytes) -> Answer:
    """The inverse of `encode_answer`. Raises ValueError for bytes of any other form."""
    match orjson.loads(body):
        case {"series": list(series), **others} if not others:
            return tuple(_decode_series(one) for one in series)
        case {"readings": list(readings), **others} if not others:
            return tuple(_decode_reading(one) for one in readings)
        case {"rows": list(rows), **others} if not others:
            return tuple(rows)
        case {"json": value, **others} if not others:
            return value
        case _:
            raise ValueError("not an encoded answer")


def _decode_series(item: object) -> Series:
    match item:
        case [dict(labels), list(times), list(values)] if len(times) == len(values):
            if set(map(type, times)) <= _NUMBERS:
                return Series(_checked(labels), tuple(map(float, times)), _read(values))
    raise ValueError("not an encoded series")


def _decode_reading(item: object) -> Reading:
    match item:
        case [dict(labels), value]:
            return Reading(_checked(labels), _read([value])[0])
    raise ValueError("not an encoded reading")


def _checked(labels: dict[str, Any]) -> dict[str, str]:
    if all(type(value) is str for value in labels.values()):
        return labels
    raise ValueError("not the labels of an encoded answer")


def _read(values: list[Any]) -> tuple[float, ...]:
    """The inverse of `spelled`."""
    if not {type(value) for value in values if value not in _SPELLED} <= _NUMBERS:
        raise ValueError("not the values of an encoded answer")
    return tuple(map(float, values))


def _plain(labels: Mapping[str, str]) -> dict[str, str]:
    return labels if isinstance(labels, dict) else dict(labels)


def spelled(values: tuple[float, ...]) -> tuple[float | str, ...]:
    """As JSON holds them: what is not finite as "NaN", "+Inf" or "-Inf"."""
    if all(map(math.isfinite, values)):
        return cast("tuple[float | str, ...]", values)
    return tuple(
        v if math.isfinite(v) else "NaN" if math.isnan(v) else "+Inf" if v > 0 else "-Inf"
        for v in values
    )


def read_instant(value: object) -> datetime | None:
    """Text of an ISO 8601 time with its offset, as aware UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    return None


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
