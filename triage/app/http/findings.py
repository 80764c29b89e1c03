"""Findings about tools, to read."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from triage.app.findings import finding_document, finding_page
from triage.app.http.access import Gate
from triage.app.http.paging import page_limit, wants_closed
from triage.app.http.replies import HttpProblem, reply, store_unavailable
from triage.errors import PayloadError, StoreError
from triage.ports import WatchKind, WatchLog

_KINDS = frozenset(("", *(kind.value for kind in WatchKind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingServices:
    findings: WatchLog
    gate: Gate


class FindingEndpoints:
    def __init__(self, services: FindingServices) -> None:
        self._services = services

    async def page(self, request: Request) -> Response:
        """The open ones, newest first; with `closed` the closed ones; of `node` and `kind` where
        they are given."""
        self._services.gate.admit(request, "read")
        query = request.query_params
        closed = wants_closed(request)
        kind = query.get("kind", "")
        if kind not in _KINDS:
            raise HttpProblem(400, f"kind must be one of {', '.join(sorted(_KINDS - {''}))}")
        limit = page_limit(request)
        try:
            found = await self._services.findings.findings(
                node=query.get("node", ""), closed=closed
            )
            page, cursor = finding_page(
                found, kind=kind, cursor=query.get("cursor", ""), limit=limit
            )
        except PayloadError as error:
            raise HttpProblem(400, str(error)) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        return reply({"findings": [finding_document(one) for one in page], "cursor": cursor})
