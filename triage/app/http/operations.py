"""Health, readiness, metrics and reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from triage.app.http.access import Gate
from triage.app.http.replies import HttpProblem, reply
from triage.errors import ConfigError, InvalidFiles, StoreError
from triage.ports import Clock, GapLog, LedgerView
from triage.telemetry.metrics import Metrics


async def nothing_more() -> None:
    """The metrics are up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationServices:
    """`readiness` maps a check to "ok" or to what is wrong, `"ready"` being the verdict of all.
    `reload` returns what is now current and raises ConfigError when the old one was kept.
    `observe` brings up to date what the metrics say of others; it takes two seconds at most."""

    gate: Gate
    metrics: Metrics
    ledger: LedgerView
    gaps: GapLog
    clock: Clock
    readiness: Callable[[], Awaitable[Mapping[str, Any]]]
    reload: Callable[[], Awaitable[Mapping[str, Any]]]
    observe: Callable[[], Awaitable[None]] = nothing_more


class OperationEndpoints:
    def __init__(self, services: OperationServices) -> None:
        self._services = services

    async def healthy(self, _: Request) -> Response:
        """Answers as long as the event loop turns: the watchdog sees to the rest."""
        return reply({"status": "healthy"})

    async def ready(self, _: Request) -> Response:
        document = await self._services.readiness()
        return reply(document, status=200 if document["ready"] else 503)

    async def metrics(self, request: Request) -> Response:
        services = self._services
        try:
            services.metrics.ledger.update(await services.ledger.ledger(), services.clock.now())
            services.metrics.fallback.open_gaps(await services.gaps.open_gaps())
            services.metrics.runtime.store_up.labels().set(1.0)
        except StoreError:
            # The page must still be there: it is how anyone learns that the store is not.
            services.metrics.runtime.store_up.labels().set(0.0)
        await services.observe()
        # In a thread: a page of some hundred series takes 15 ms, which alerts must not wait for.
        body, content_type = await asyncio.to_thread(
            services.metrics.render, request.headers.get("accept", "")
        )
        return Response(body, headers={"Content-Type": content_type})

    async def reload(self, request: Request) -> Response:
        self._services.gate.admit(request, "admin")
        try:
            return reply(await self._services.reload())
        except InvalidFiles as error:
            raise HttpProblem(
                422,
                "the old configuration was kept",
                detail={
                    "findings": [
                        {
                            "file": finding.file,
                            "line": finding.line,
                            "where": finding.where,
                            "problem": finding.problem,
                            "fix": finding.fix,
                        }
                        for finding in error.findings
                    ]
                },
            ) from error
        except ConfigError as error:
            raise HttpProblem(422, f"the old configuration was kept: {error}") from error
