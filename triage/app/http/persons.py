"""Who changes something by hand, and why: the body of every such request."""

from __future__ import annotations

import orjson
from starlette.requests import Request

from triage.app.http.access import read_body
from triage.app.http.replies import HttpProblem
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS

MAX_BODY_BYTES = 32 * 1024
LIMITS = {"by": CLOSED_BY_CHARS, "note": NOTE_CHARS}


async def who_and_why(request: Request, caller: str) -> tuple[str, str]:
    """`by`, the `caller` unless the body says another, and `note`. Raises HttpProblem."""
    body = await read_body(request, MAX_BODY_BYTES)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(400, f"the body is not JSON: {error}") from error
    if not isinstance(document, dict) or not document.keys() <= LIMITS.keys():
        raise HttpProblem(400, 'the body must be {"by": "who", "note": "why"}')
    for name, limit in LIMITS.items():
        text = document.get(name, "")
        if not isinstance(text, str) or len(text) > limit:
            raise HttpProblem(400, f"{name} must be text of at most {limit} characters")
    by = str(document.get("by", "")).strip() or caller
    if not by:
        raise HttpProblem(400, "by is missing: say who does this")
    return by, str(document.get("note", ""))
