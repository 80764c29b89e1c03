"""JSON replies, and errors as one shape: `{"error": {"status", "problem", …}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from triage.errors import StoreError


class HttpProblem(Exception):
    """A request that ends with an error status. `detail` goes into the reply's `error` object."""

    def __init__(
        self,
        status: int,
        problem: str,
        headers: Mapping[str, str] | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})
        self.detail = dict(detail or {})
        super().__init__(problem)

    def response(self) -> Response:
        return reply(
            {"error": {"status": self.status, "problem": self.problem, **self.detail}},
            status=self.status,
            headers=self.headers,
        )


def reply(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        orjson.dumps(document),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )


def store_unavailable(error: StoreError) -> HttpProblem:
    return HttpProblem(503, f"the store did not answer: {error}", {"Retry-After": "1"})
