"""What an agent's call of a face asked, as a tool would ask it.

An agent reaches metrics and tables through a face's tools, and what is recorded is a call. A tool
asks `samples`, `aggregate` and `rows`, and their answers have another form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from triage.model.canonical import canonical_json
from triage.model.case import RecordedAnswer
from triage.model.query import Aggregate, Rows, Samples, query_document, read_instant

LOOKUPS, LOOKED_FOR = frozenset(("metrics", "tables")), frozenset(("contains", "limit"))
"""Tools of a face that tell what there is, and what they take: no tool of ours can ask them."""


def is_lookup(call: Mapping[str, Any]) -> bool:
    arguments = call.get("arguments", {})
    plain = isinstance(arguments, Mapping) and arguments.keys() <= LOOKED_FOR
    return call.get("kind") == "call" and call.get("tool") in LOOKUPS and plain


def as_tools_ask(answers: Sequence[RecordedAnswer]) -> tuple[RecordedAnswer, ...]:
    """Recorded answers with those of an agent's calls of faces as a tool would have got them; what
    was only looked up is left out. Where a tool got an answer itself, that is the one that counts:
    it comes last."""
    asked: list[RecordedAnswer] = []
    called: list[RecordedAnswer] = []
    for answer in answers:
        if is_lookup(answer.query):
            continue
        query, body = as_asked(answer.query, answer.body)
        if query is answer.query:
            asked.append(answer)
        else:
            called.append(RecordedAnswer(query, body, answer.failure))
    return (*called, *asked)


def as_asked(call: Mapping[str, Any], body: bytes) -> tuple[Mapping[str, Any], bytes]:
    """`call` is the document of a `Call` to a face, `body` its encoded answer, empty where there is
    none. A call that the face did not understand stays as it is, with its answer."""
    try:
        if call.get("kind") != "call":
            return call, body
        query = _query(call)
        return query, _body(str(query["kind"]), body) if body else b""
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        return call, body


def _query(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """As `query_document` makes it."""
    given = call["arguments"]
    match call["tool"]:
        case "samples":
            return query_document(Samples(*_window(call)))
        case "aggregate":
            function = given["function"]
            quantile = float(given.get("quantile", 0)) if function == "quantile" else 0.0
            return query_document(Aggregate(*_window(call), function, quantile))
        case "query":
            params = tuple(sorted(given.get("params", {}).items()))
            return query_document(Rows(call["source"], given["sql"], params))
    raise ValueError("a tool that no face has")


def _window(call: Mapping[str, Any]) -> tuple[str, str, datetime, datetime]:
    given = call["arguments"]
    start, end = (read_instant(given[key]) for key in ("start", "end"))
    if start is None or end is None:
        raise ValueError("a time without an offset")
    return call["source"], given["selector"], start, end


def _body(kind: str, body: bytes) -> bytes:
    data = orjson.loads(body)["json"]
    match kind:
        case "samples":
            series = [[one["labels"], one["times"], one["values"]] for one in data["series"]]
            return canonical_json({"series": series} if series else {"rows": []})
        case "aggregate":
            readings = [[one["labels"], one["value"]] for one in data["readings"]]
            return canonical_json({"readings": readings} if readings else {"rows": []})
        case _:
            return canonical_json({"rows": data["rows"]})
