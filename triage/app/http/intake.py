"""Alerts come in here. A 2xx is sent after they are durable, and not before."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from triage.app.http.access import Gate, RequestLimit, plain_headers, read_body
from triage.app.http.replies import HttpProblem, reply
from triage.errors import Overloaded, PayloadError, SourceFailed, StoreError
from triage.intake.fields import FieldMap
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Accepted
from triage.ports import AlertLog, Clock, Queue
from triage.telemetry.edge_metrics import IntakeMetrics
from triage.worker.accepting import LOGGER, count, publish_new

NATIVE = "native"
# Alertmanager's webhook retries on 5xx and takes any 4xx, 429 too, for final; Grafana's
# alerting is the same code.
RETRIES_ON_5XX_ONLY = frozenset({"alertmanager", "grafana"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeServices:
    """`field_map` gives the current map of a format, None for a format that is not known.
    `confirm` completes an SNS subscription; `verify` raises PayloadError for a message whose
    signature does not hold. Both raise SourceFailed when AWS cannot be asked."""

    alerts: AlertLog
    queue: Queue
    clock: Clock
    gate: Gate
    limit: RequestLimit
    max_body_bytes: int
    metrics: IntakeMetrics
    field_map: Callable[[str], FieldMap | None]
    verify: Callable[[Parsed], Awaitable[None]]
    confirm: Callable[[Parsed], Awaitable[Mapping[str, Any]]]
    is_draining: Callable[[], bool]


class IntakeEndpoint:
    def __init__(self, services: IntakeServices) -> None:
        self._services = services
        self._log = structlog.get_logger(LOGGER)

    async def __call__(self, request: Request) -> Response:
        services = self._services
        name = request.path_params.get("format", NATIVE)
        field_map = services.field_map(name)
        if field_map is None:
            raise HttpProblem(404, f"there is no payload format {name!r}")
        began = time.monotonic()
        code = 500
        try:
            with services.limit:
                response = await self._take(request, name, field_map)
            code = response.status_code
        except HttpProblem as problem:
            code = problem.status
            raise
        finally:
            services.metrics.cell(name).request(code, time.monotonic() - began)
        return response

    async def _take(self, request: Request, name: str, field_map: FieldMap) -> Response:
        services = self._services
        services.gate.admit(request, "ingest")
        if services.is_draining():
            raise HttpProblem(
                503, "the daemon is shutting down", {"Retry-After": "5", "Connection": "close"}
            )
        body = await read_body(request, services.max_body_bytes)
        try:
            parsed = parse(
                IntakeRequest(
                    format=name,
                    body=body,
                    headers=plain_headers(request),
                    received_at=services.clock.now(),
                    tenant=request.headers.get("x-scope-orgid", ""),
                    integration=request.query_params.get("integration", name),
                ),
                field_map,
            )
            await services.verify(parsed)
            accepted = await self._accept(name, parsed)
            extra = await services.confirm(parsed)
        except PayloadError as error:
            services.metrics.cell(name).rejected()
            self._log.warning("refused", format=name, field=error.field, problem=error.problem)
            raise HttpProblem(
                400, str(error), detail={"field": error.field, "problem": error.problem}
            ) from error
        except SourceFailed as error:
            self._log.warning("not_verified", format=name, error=str(error))
            raise HttpProblem(503, error.detail, {"Retry-After": "5"}) from error
        count(services.metrics.cell(name), name, parsed, accepted)
        return reply(
            {
                "alert_ids": [a.alert_id for a in accepted if a.alert_id is not None],
                "alerts": [
                    {"alert_id": a.alert_id, "status": a.status.value}
                    for a in accepted
                    if a.alert_id is not None
                ],
                "rejected": [
                    {"index": r.index, "field": r.field, "problem": r.problem}
                    for r in parsed.rejected
                ],
                "truncated": parsed.truncated,
                **parsed.reply,
                **extra,
            },
            status=202,
        )

    async def _accept(self, name: str, parsed: Parsed) -> list[Accepted]:
        services = self._services
        if not parsed.arrivals:
            return []
        try:
            accepted = await services.alerts.accept(parsed.arrivals)
        except Overloaded as error:
            status = 503 if name in RETRIES_ON_5XX_ONLY else 429
            raise HttpProblem(
                status, str(error), {"Retry-After": str(error.retry_after_s)}
            ) from error
        except StoreError as error:
            raise HttpProblem(
                503, f"nothing was accepted: {error}", {"Retry-After": "1"}
            ) from error
        await publish_new(services.queue, accepted)
        return accepted
