"""The routes."""

from __future__ import annotations

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from triage.app.http.dead_letters import DeadLetterEndpoints, DeadLetterServices
from triage.app.http.decisions import DecisionEndpoints, ReadServices
from triage.app.http.findings import FindingEndpoints, FindingServices
from triage.app.http.gaps import GapEndpoints, GapServices
from triage.app.http.intake import IntakeEndpoint, IntakeServices
from triage.app.http.operations import OperationEndpoints, OperationServices
from triage.app.http.replies import HttpProblem
from triage.app.http.shadows import ShadowEndpoints, ShadowServices


def http_application(
    intake: IntakeServices,
    reading: ReadServices,
    operations: OperationServices,
    gap_services: GapServices,
    dead_letter_services: DeadLetterServices,
    shadow_services: ShadowServices,
    finding_services: FindingServices,
) -> Starlette:
    take = IntakeEndpoint(intake)
    decisions = DecisionEndpoints(reading)
    gaps = GapEndpoints(gap_services)
    operate = OperationEndpoints(operations)

    async def take_alerts(request: Request) -> Response:
        return await take(request)

    return Starlette(
        routes=[
            Route("/api/v1/alerts", take_alerts, methods=["POST"]),
            Route("/api/v1/alerts/{format}", take_alerts, methods=["POST"]),
            Route("/api/v1/decisions", decisions.page, methods=["GET"]),
            Route("/api/v1/decisions/{alert_id}", decisions.one, methods=["GET"]),
            Route("/api/v1/evidence/{answer_sha256}", decisions.evidence, methods=["GET"]),
            Route("/api/v1/ledger", decisions.ledger, methods=["GET"]),
            Route("/api/v1/gaps", gaps.page, methods=["GET"]),
            Route("/api/v1/gaps/{gap_id}", gaps.one, methods=["GET"]),
            Route("/api/v1/gaps/{gap_id}/close", gaps.close, methods=["POST"]),
            *_dead_letter_routes(dead_letter_services),
            *_shadow_routes(shadow_services),
            Route("/api/v1/findings", FindingEndpoints(finding_services).page, methods=["GET"]),
            Route("/-/healthy", operate.healthy, methods=["GET"]),
            Route("/-/ready", operate.ready, methods=["GET"]),
            Route("/-/reload", operate.reload, methods=["POST"]),
            Route("/metrics", operate.metrics, methods=["GET"]),
        ],
        exception_handlers={
            HttpProblem: _problem,
            HTTPException: _http_exception,
            Exception: _fault,
        },
    )


def _dead_letter_routes(services: DeadLetterServices) -> list[Route]:
    dead_letters = DeadLetterEndpoints(services)
    one = "/api/v1/dead-letters/{dead_letter_id}"
    return [
        Route("/api/v1/dead-letters", dead_letters.page, methods=["GET"]),
        Route(one, dead_letters.one, methods=["GET"]),
        Route(f"{one}/redrive", dead_letters.redrive, methods=["POST"]),
        Route(f"{one}/discard", dead_letters.discard, methods=["POST"]),
    ]


def _shadow_routes(services: ShadowServices) -> list[Route]:
    shadows = ShadowEndpoints(services)
    return [
        Route("/api/v1/shadows", shadows.tallies, methods=["GET"]),
        Route("/api/v1/shadows/{node}/comparisons", shadows.comparisons, methods=["GET"]),
    ]


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)
    return error.response()


async def _http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return HttpProblem(error.status_code, error.detail, error.headers).response()


async def _fault(request: Request, error: Exception) -> Response:
    structlog.get_logger("triage.http").error(
        "request_crashed", path=request.url.path, exc_info=error
    )
    return HttpProblem(500, "a fault of triage; its log has the details").response()
