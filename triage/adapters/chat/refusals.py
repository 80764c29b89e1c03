"""What an HTTP status other than success means, and what may be done about it.

A completion has no side effect but costs tokens and seconds. So it is asked for again only where
the endpoint turned it away before it began: 429, 503, 529 (overloaded, as some providers say it)
and 502, by which a gateway tells that nobody behind it took the request. Not after 500, which is
the same for the same request more often than not, and not after 504, a read timeout at second
hand: the tokens are spent, and would be again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from triage.adapters.chat.body import RESPONSE_FORMAT
from triage.adapters.chat.setback import Setback
from triage.adapters.chat.wire import Reply
from triage.errors import ModelFailure

OVERLOADED = 529
TURNED_AWAY = frozenset({502, 503, OVERLOADED})
NEEDS_A_PERSON = {
    401: "check the API key",
    402: "the account at the provider has to be paid",
    403: "check the API key, and that it may use the model",
    404: "check model, and llm_url: the base of the API, like http://127.0.0.1:8177/v1",
    405: "check llm_url: the base of the API, like http://127.0.0.1:8177/v1",
}
"""Every request will be refused alike until somebody acts: these count as failures of the
endpoint, which is then left alone. Other 4xx are about one request, and the endpoint is well."""
UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
LONGEST_WAIT_S = 86_400.0
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class Said(NamedTuple):
    """An error's own text, and of the OpenAI API's errors its code and parameter."""

    text: str
    code: str = ""
    param: str = ""


def refused(reply: Reply, now: Callable[[], datetime]) -> Setback:
    """`now` is aware UTC; asked only when a date comes without the endpoint's own clock."""
    status = reply.status
    said = read_error(reply.body)
    problem = f"answered {status}"
    if status == HTTPStatus.TOO_MANY_REQUESTS or status in TURNED_AWAY:
        return Setback(
            failure=ModelFailure.RATE_LIMITED
            if status == HTTPStatus.TOO_MANY_REQUESTS
            else ModelFailure.SERVER_ERROR,
            problem=problem,
            said=said.text,
            repeat=True,
            wait_s=retry_after(reply, now),
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Setback(failure=ModelFailure.SERVER_ERROR, problem=problem, said=said.text)
    if status >= HTTPStatus.BAD_REQUEST:
        return Setback(
            failure=ModelFailure.REJECTED,
            problem=problem,
            said=said.text,
            fix=NEEDS_A_PERSON.get(status, ""),
            counts=status in NEEDS_A_PERSON,
            unsupported=_unsupported(said),
        )
    return Setback(
        failure=ModelFailure.PROTOCOL,
        problem=problem,
        said=said.text,
        fix="redirects are not followed: set llm_url to the final address",
    )


def _unsupported(said: Said) -> str:
    """The parameter that this endpoint does not take. Of structured output servers tell in words
    of their own, with a code or parameter of any name or none."""
    if said.code in UNSUPPORTED:
        return said.param
    words = f"{said.param} {said.text}"
    return RESPONSE_FORMAT if RESPONSE_FORMAT in words or "json_schema" in words else ""


def read_error(body: bytes) -> Said:
    """The message of an error in any of the usual shapes, else the whole body."""
    try:
        return error_of(orjson.loads(body))
    except orjson.JSONDecodeError:
        return Said(body.decode("utf-8", "replace"))


def error_of(document: Any) -> Said:
    """Likewise, of a decoded body."""
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return Said(_text(error))
    message = next(
        (error[key] for key in ("message", "detail", "error", "msg") if error.get(key)), error
    )
    return Said(_text(message), _word(error.get("code")), _word(error.get("param")))


def retry_after(reply: Reply, now: Callable[[], datetime]) -> float | None:
    """Seconds, None when the header is absent or says nothing that can be read. A date is held
    against the endpoint's own clock where it tells the time: ours may differ."""
    value = reply.retry_after.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_WAIT_S)
    moment = _date(value)
    if moment is None:
        return None
    there = _date(reply.date) or now()
    return min(max(0.0, (moment - there).total_seconds()), LONGEST_WAIT_S)


def _date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
