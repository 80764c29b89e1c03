"""Queries, verdicts and answers on their way between the host and a tool in the sandbox.

What comes from there is made of JSON types, and may be anything all the same: the code that writes
it shares its interpreter with the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from triage.fallback.prelude import ZONE_DAYS, zone_offsets
from triage.model.query import (
    Aggregate,
    Answer,
    Call,
    Query,
    Reading,
    Rows,
    Samples,
    Series,
    spelled,
)
from triage.model.verdict import Clause, Truth, Verdict
from triage.trial.model import Setting

_QUERIES: dict[str, type[Any]] = {
    "samples": Samples,
    "aggregate": Aggregate,
    "rows": Rows,
    "call": Call,
}
_TRUTHS = {truth.word: truth for truth in Truth}
_MONTH_S = 30 * 86_400
_MONTHS_KEPT = 64
_DEPTH = 4  # a query's params are a tuple of tuples


class Unreadable(Exception):
    """Not what our own code in the sandbox writes."""


def query_of(document: Any) -> Query:
    """For `check_query` to look at: what is no query, or no value of one, is here an object of a
    class of the same name. Raises Unreadable."""
    match document:
        case {"kind": str(kind), "fields": list(fields)} if kind in _QUERIES:
            made = [_value(field, _DEPTH) for field in fields]
            try:
                return cast("Query", _QUERIES[kind](*made))
            except TypeError as error:
                raise Unreadable(f"a query of {len(made)} fields") from error
        case {"type": name}:
            return cast("Query", stranger(name))
        case _:
            raise Unreadable("no query")


def verdict_of(document: Any) -> Any:
    """For `checked` to look at. Raises Unreadable."""
    match document:
        case {"verdict": [value, clauses, explanation, subject]}:
            return Verdict(
                value=_value(value, _DEPTH),
                clauses=_value(clauses, _DEPTH),
                explanation=_value(explanation, _DEPTH),
                subject=_value(subject, _DEPTH),
            )
        case {"type": name}:
            return stranger(name)
        case _:
            raise Unreadable("no verdict")


def _value(spelling: Any, depth: int) -> Any:
    if depth <= 0:
        raise Unreadable("nested too deeply")
    match spelling:
        case ["plain", None | str() | bool() | int() | float() as plain]:
            return plain
        case ["at", str(text)]:
            try:
                return datetime.fromisoformat(text)
            except ValueError as error:
                raise Unreadable("no moment") from error
        case ["truth", str(word)] if word in _TRUTHS:
            return _TRUTHS[word]
        case ["tuple", list(items)]:
            return tuple(_value(item, depth - 1) for item in items)
        case ["clause", list(fields)] if len(fields) == len(Clause._fields):
            return Clause(*(_value(field, depth - 1) for field in fields))
        case ["type", name]:
            return stranger(name)
        case _:
            raise Unreadable("no value")


def stranger(name: Any) -> Any:
    """What a value of a type that has no place here is told by: its type's name, in the same words
    as when it is met in process."""
    known = name if isinstance(name, str) and name.isidentifier() else "object"
    return type(known, (), {})()


def answer_document(answer: Answer) -> dict[str, Any]:
    """An answer as the code in the sandbox reads it. Labels and columns keep their order, and
    floats every bit; those that JSON does not have are spelled as `encode_answer` does. The answer
    must be one that it encodes."""
    if isinstance(answer, tuple) and answer:
        if isinstance(answer[0], Series):
            return {
                "series": [
                    [dict(one.labels), list(one.times), list(spelled(one.values))] for one in answer
                ]
            }
        if isinstance(answer[0], Reading):
            return {"readings": [[dict(one.labels), spelled((one.value,))[0]] for one in answer]}
    if isinstance(answer, tuple):
        return {"rows": list(answer)}
    return {"json": answer}


def setting_document(setting: Setting, reads_parents: Sequence[str]) -> dict[str, Any]:
    """What of a setting the tool may see."""
    site, moment = setting.site, setting.timestamp.astimezone(UTC)
    parents = {name: setting.parents[name] for name in reads_parents if name in setting.parents}
    return {
        "site": site.name,
        "zone": site.zone,
        "units": dict(site.units),
        "facts": dict(site.facts),
        "fired_at": moment.isoformat(),
        "entity": setting.entity,
        "labels": dict(setting.labels),
        "params": dict(setting.params),
        "parents": {
            name: {
                "value": verdict.value.word,
                "clauses": [list(clause) for clause in verdict.clauses],
                "explanation": verdict.explanation,
                "subject": verdict.subject,
            }
            for name, verdict in parents.items()
        },
        "offsets": _offsets(site.zone, int(moment.timestamp()) // _MONTH_S),
    }


@lru_cache(maxsize=_MONTHS_KEPT)
def _offsets(zone: str, month: int) -> list[list[int]]:
    """Of a month at once: to look a zone's changes up takes half a millisecond, as long as all
    else that is done for a setting here."""
    begin = datetime.fromtimestamp(month * _MONTH_S, UTC)
    return zone_offsets(zone, begin, days=ZONE_DAYS + _MONTH_S // 86_400)
