"""How much of a list one request may ask for."""

from __future__ import annotations

from starlette.requests import Request

from triage.app.http.access import LONGEST_NUMBER
from triage.app.http.replies import HttpProblem

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000


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
