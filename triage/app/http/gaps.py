"""Gaps: what no tool could answer, to read and to close."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from triage.app.gaps import group_document, not_open
from triage.app.http.access import Gate
from triage.app.http.paging import page_limit, wants_closed
from triage.app.http.persons import who_and_why
from triage.app.http.replies import HttpProblem, reply, store_unavailable
from triage.errors import PayloadError, StoreError
from triage.ports import Clock, GapLog


@dataclass(frozen=True, slots=True, kw_only=True)
class GapServices:
    gaps: GapLog
    gate: Gate
    clock: Clock


class GapEndpoints:
    def __init__(self, services: GapServices) -> None:
        self._services = services

    async def page(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        query = request.query_params
        closed = wants_closed(request)
        try:
            page = await self._services.gaps.gap_page(
                closed=closed,
                node=query.get("node", ""),
                cursor=query.get("cursor", ""),
                limit=page_limit(request),
            )
        except PayloadError as error:
            raise HttpProblem(400, str(error)) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        return reply(
            {"gaps": [group_document(group) for group in page.gaps], "cursor": page.cursor}
        )

    async def one(self, request: Request) -> Response:
        """`limit` is how many of its cases are told, the newest first."""
        self._services.gate.admit(request, "read")
        gap_id, gaps = request.path_params["gap_id"], self._services.gaps
        limit = page_limit(request)
        try:
            group = await gaps.gap(gap_id)
            if group is None:
                raise HttpProblem(404, not_open(gap_id, None))
            return reply(group_document(group, await gaps.gap_cases(gap_id, limit=limit)))
        except StoreError as error:
            raise store_unavailable(error) from error

    async def close(self, request: Request) -> Response:
        """Answers with the closed gap; 409 when it is closed already."""
        caller = self._services.gate.admit(request, "admin")
        gap_id, gaps = request.path_params["gap_id"], self._services.gaps
        by, note = await who_and_why(request, caller)
        try:
            closed = await gaps.close_gap(gap_id, by=by, note=note, at=self._services.clock.now())
            group = await gaps.gap(gap_id)
        except StoreError as error:
            raise store_unavailable(error) from error
        if not closed or group is None:
            raise HttpProblem(404 if group is None else 409, not_open(gap_id, group))
        return reply(group_document(group))
