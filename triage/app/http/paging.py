"""What part of a list one request asks for."""

from __future__ import annotations

from starlette.requests import Request

from triage.app.http.access import LONGEST_NUMBER
from triage.app.http.replies import HttpProblem

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
_TRUTHS = {"": False, "0": False, "false": False, "1": True, "true": True}


def wants_closed(request: Request) -> bool:
    """The parameter `closed`. Raises HttpProblem 400."""
    closed = _TRUTHS.get(request.query_params.get("closed", "").lower())
    if closed is None:
        raise HttpProblem(400, "closed must be true or false")
    return closed


def page_limit(request: Request) -> int:
    """The parameter `limit`. Raises HttpProblem 400."""
    given = request.query_params.get("limit", str(DEFAULT_LIMIT))
    if (
        not (given.isascii() and given.isdecimal())
        or len(given) > LONGEST_NUMBER
        or not 1 <= int(given) <= MAX_LIMIT
    ):
        raise HttpProblem(400, f"limit must be a number from 1 to {MAX_LIMIT}")
    return int(given)
