"""Queries and answers in a case's line: from the documents that decisions show back to values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from triage.errors import ToolFailed
from triage.evaluation.judge import check_query
from triage.model.canonical import canonical_json
from triage.model.query import (
    Aggregate,
    AggregateFunction,
    Call,
    Query,
    Rows,
    Samples,
    decode_answer,
    read_instant,
)
from triage.sop.located import plain

_FUNCTIONS = get_args(AggregateFunction)
_KEYS: Mapping[str, tuple[str, ...]] = {
    "samples": ("selector", "start", "end"),
    "aggregate": ("selector", "start", "end", "function"),
    "rows": ("sql", "params"),
    "call": ("tool", "arguments"),
}
_FORMS: Mapping[str, str] = {"samples": "series", "aggregate": "readings", "rows": "rows"}


def query_of(document: Mapping[str, Any]) -> Query:
    """The inverse of `query_document`; times may have any offset. Raises ValueError with what is
    wrong, also for a query that no tool may ask."""
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError(f"`kind` must be one of {', '.join(_KEYS)}")
    wanted = {"kind", "source", *_KEYS[kind]}
    if kind == "aggregate" and document.get("function") == "quantile":
        wanted.add("quantile")
    if missing := sorted(wanted - document.keys()):
        raise ValueError(f"`{missing[0]}` is missing in a query of kind {kind}")
    if unknown := sorted(document.keys() - wanted):
        raise ValueError(f"the key `{plain(unknown[0])}` is unknown in a query of kind {kind}")
    query = _query(kind, document)
    try:
        check_query(query, (query.source,))
    except ToolFailed as error:
        raise ValueError(error.detail) from None
    return query


def answer_problem(kind: str, answer: Mapping[str, Any], body: bytes) -> str:
    """What is wrong with an encoded answer to a query of this kind, "" if nothing is. `answer` is
    `body` as JSON types."""
    try:
        decoded = decode_answer(body)
    except (ValueError, TypeError) as error:
        return str(error)
    form, wanted = next(iter(answer)), _FORMS.get(kind, "")
    # Nothing found is spelled as no rows, whatever was asked.
    if not wanted or form == wanted or (form == "rows" and not decoded):
        return ""
    return f"a query of kind {kind} is answered with `{wanted}`, not with `{form}`"


def _query(kind: str, document: Mapping[str, Any]) -> Query:
    source = _text(document, "source")
    if kind == "rows":
        params = sorted(_object(document, "params").items())
        return Rows(source, _text(document, "sql"), tuple(params))
    if kind == "call":
        arguments = canonical_json(_object(document, "arguments")).decode()
        return Call(source, _text(document, "tool"), arguments)
    selector = _text(document, "selector")
    start, end = _instant(document, "start"), _instant(document, "end")
    if kind == "samples":
        return Samples(source, selector, start, end)
    function = document["function"]
    if function not in _FUNCTIONS:
        raise ValueError(f"`function` must be one of {', '.join(_FUNCTIONS)}")
    quantile = _quantile(document["quantile"]) if function == "quantile" else 0.0
    return Aggregate(source, selector, start, end, function, quantile)


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document[key]
    if isinstance(value, str):
        return value
    raise ValueError(f"`{key}` must be text")


def _object(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = document[key]
    if isinstance(value, dict):
        return value
    raise ValueError(f"`{key}` must be an object")


def _instant(document: Mapping[str, Any], key: str) -> datetime:
    moment = read_instant(document[key])
    if moment is None:
        raise ValueError(f"`{key}` must be an ISO 8601 time with its offset")
    return moment


def _quantile(value: Any) -> float:
    try:
        number = float(value) if type(value) in {str, int, float} else -1.0
    except ValueError:
        number = -1.0
    if 0 <= number <= 1:
        return number
    raise ValueError("`quantile` must be a number from 0 to 1")
