"""Decisions, the evidence behind them, and the ledger, to read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from triage.app.http.access import Gate
from triage.app.http.paging import page_limit
from triage.app.http.replies import HttpProblem, reply, store_unavailable
from triage.app.ledger import ledger_document
from triage.errors import PayloadError, StoreError
from triage.model.alert import AlertId
from triage.ports import DecisionFilter, DecisionLog, LedgerView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadServices:
    decisions: DecisionLog
    ledger: LedgerView
    gate: Gate


class DecisionEndpoints:
    def __init__(self, services: ReadServices) -> None:
        self._services = services

    async def page(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        query = request.query_params
        limit = page_limit(request)
        wanted = DecisionFilter(
            outcome=query.get("outcome", ""),
            alarm=query.get("alarm", ""),
            site=query.get("site", ""),
            since=_instant(query.get("since"), "since"),
            until=_instant(query.get("until"), "until"),
        )
        try:
            page = await self._services.decisions.page(
                wanted, cursor=query.get("cursor", ""), limit=limit
            )
        except PayloadError as error:
            raise HttpProblem(400, str(error)) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        return reply({"decisions": list(page.decisions), "cursor": page.cursor})

    async def one(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        alert_id = AlertId(request.path_params["alert_id"])
        try:
            document = await self._services.decisions.get(alert_id)
        except StoreError as error:
            raise store_unavailable(error) from error
        if document is None:
            raise HttpProblem(404, f"no alert {alert_id!r} was ever accepted")
        return reply(document, status=200 if "outcome" in document else 202)

    async def evidence(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        digest = request.path_params["answer_sha256"]
        try:
            body = await self._services.decisions.evidence(digest)
        except StoreError as error:
            raise store_unavailable(error) from error
        if body is None:
            raise HttpProblem(404, f"no answer {digest!r} is stored: it was purged, or never came")
        return Response(body, media_type="application/json")

    async def ledger(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        full = request.query_params.get("full", "") in {"1", "true"}
        try:
            return reply(ledger_document(await self._services.ledger.ledger(full=full)))
        except StoreError as error:
            raise store_unavailable(error) from error


def _instant(text: str | None, name: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError as error:
        raise HttpProblem(400, f"{name} must be an ISO 8601 timestamp") from error
    if moment.tzinfo is None:
        raise HttpProblem(400, f"{name} must state its offset, for example 2026-01-31T08:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise HttpProblem(400, f"{name} is out of range") from error
