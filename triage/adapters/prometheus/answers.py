"""From what the query API replied to an answer, or to the error that names who must act."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from itertools import pairwise
from typing import Any, TypeVar

import orjson

from triage.adapters.prometheus.http import Reply
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Reading, Series

QUOTED_LENGTH = 300  # characters of a server's own words that an error repeats

Labelled = TypeVar("Labelled", Series, Reading)

_PLAIN = frozenset({"", "identity"})
_TOO_LONG = frozenset({HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_URI_TOO_LONG})
_REJECTED = _TOO_LONG | {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_NOT_THE_QUERY = frozenset({"timeout", "canceled", "internal", "unavailable"})
"""Values of `errorType` that speak of the server, whatever the status."""


def read_reply(where: str, reply: Reply) -> Mapping[str, Any]:
    """The `data` of a successful reply. `where` names source and server in errors.

    Raises ToolFailed when the server rejects the query, SourceFailed for everything else that is
    no complete success: an answer known to be partial must not pass for a whole one.
    """
    data = _success(where, reply)
    if not isinstance(data, dict):
        raise _protocol(where, "a success without an object `data`")
    return data


def read_names(where: str, reply: Reply) -> list[str]:
    """The values of a label. Raises as `read_reply` does."""
    data = _success(where, reply)
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise _protocol(where, "a success without a list of names")
    return data


def _success(where: str, reply: Reply) -> Any:
    document = _document(reply)
    if reply.status != HTTPStatus.OK or not document or document.get("status") != "success":
        raise _failure(where, reply, document)
    for warning in document.get("warnings") or ():
        _judge_warning(where, str(warning))
    return document.get("data")


def read_matrix(where: str, data: Mapping[str, Any], start_ms: int) -> tuple[Series, ...]:
    """Series sorted by labels, samples at or before `start_ms` dropped; a series that keeps no
    sample is no series of the answer. Milliseconds since the epoch."""
    start = start_ms / 1000  # the same double as the reply's decimal seconds parse to
    series: list[Series] = []
    for item in _result(where, data, "matrix"):
        try:
            labels, points = item["metric"], item["values"]
            first = 0
            while first < len(points) and points[first][0] <= start:
                first += 1
            if first == len(points):
                continue
            series.append(
                Series(
                    labels,
                    tuple(float(at) for at, _ in points[first:]),
                    tuple(float(value) for _, value in points[first:]),
                )
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise _malformed(where, item) from error
    return tuple(_in_order(where, series))


def read_vector(where: str, data: Mapping[str, Any]) -> tuple[Reading, ...]:
    """Readings sorted by labels."""
    readings: list[Reading] = []
    for item in _result(where, data, "vector"):
        try:
            _, value = item["value"]
            readings.append(Reading(item["metric"], float(value)))
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(where, item) from error
    return tuple(_in_order(where, readings))


def _document(reply: Reply) -> dict[str, Any] | None:
    if reply.encoding not in _PLAIN:
        return None
    try:
        document = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _failure(
    where: str, reply: Reply, document: Mapping[str, Any] | None
) -> ToolFailed | SourceFailed:
    status = reply.status
    if document is not None and document.get("status") == "error":
        kind = str(document.get("errorType"))
        words = f"{kind}: {quoted(str(document.get('error')))}"
        if status in _REJECTED and kind not in _NOT_THE_QUERY:
            return ToolFailed(ToolFailure.QUERY_REJECTED, f"{where} rejected the query: {words}")
        return _server_error(where, f"HTTP {status}, {words}")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        # Nothing a tool or a model could mend: an outage that needs a person.
        return _server_error(
            where, f"HTTP {status}, the credentials are refused; mend the source's settings"
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return _server_error(where, f"HTTP {status}, {_body(reply)}")
    if status in _TOO_LONG:
        return ToolFailed(
            ToolFailure.QUERY_REJECTED, f"{where}: HTTP {status}, the query is too long"
        )
    return _protocol(where, _strange(reply))


def _strange(reply: Reply) -> str:
    if reply.encoding not in _PLAIN:
        return f"{quoted(reply.encoding)} encoding, which nobody asked for"
    if reply.status == HTTPStatus.OK:
        return f"not an answer of the query API: {_body(reply)}"
    if HTTPStatus.MULTIPLE_CHOICES <= reply.status < HTTPStatus.BAD_REQUEST:
        return f"HTTP {reply.status}; redirects are not followed, mend the URL"
    return f"HTTP {reply.status}, {_body(reply)}; is the URL the right one?"


def _judge_warning(where: str, warning: str) -> None:
    # Prometheus 3 files remarks on the query itself here, with these prefixes; anything else is
    # a remote read or a store that did not answer.
    if warning.startswith("PromQL info"):
        return
    if warning.startswith("PromQL warning"):
        raise ToolFailed(ToolFailure.QUERY_REJECTED, f"{where} warned: {quoted(warning)}")
    raise _server_error(where, f"the answer is partial: {quoted(warning)}")


def _result(where: str, data: Mapping[str, Any], wanted: str) -> list[dict[str, Any]]:
    kind, result = data.get("resultType"), data.get("result")
    if not isinstance(result, list) or not isinstance(kind, str):
        raise _protocol(where, "no `result` in the answer")
    if kind != wanted:
        raise ToolFailed(
            ToolFailure.QUERY_REJECTED, f"the selector gave a {quoted(kind)}, not a {wanted}"
        )
    return result


def _in_order(where: str, items: list[Labelled]) -> list[Labelled]:
    keyed = sorted(
        ((sorted(item.labels.items()), item) for item in items), key=lambda pair: pair[0]
    )
    for (key, _), (following, _) in pairwise(keyed):
        if key == following:
            raise _protocol(where, f"the same series twice: {quoted(str(dict(key)))}")
    return [item for _, item in keyed]


def _malformed(where: str, item: object) -> ToolFailed | SourceFailed:
    if isinstance(item, dict) and ("histogram" in item or "histograms" in item):
        return ToolFailed(
            ToolFailure.QUERY_REJECTED,
            "the selector finds native histograms; select a float series instead",
        )
    return _protocol(where, f"malformed series {quoted(repr(item))}")


def _protocol(where: str, problem: str) -> SourceFailed:
    return SourceFailed(SourceFailure.PROTOCOL, f"{where}: {problem}")


def _server_error(where: str, problem: str) -> SourceFailed:
    return SourceFailed(SourceFailure.SERVER_ERROR, f"{where}: {problem}")


def _body(reply: Reply) -> str:
    return quoted(reply.body[: 4 * QUOTED_LENGTH].decode("utf-8", "replace")) or "empty body"


def quoted(text: str) -> str:
    """The text on one line, cut to a length that a decision can hold."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTED_LENGTH else line[: QUOTED_LENGTH - 1] + "…"
