"""The HTTP interface over the parts of one run."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette

from triage.adapters.store import Store
from triage.app.current import Current
from triage.app.deliveries import Deliveries
from triage.app.fallback import Agent
from triage.app.http.access import Gate, RequestLimit, token
from triage.app.http.application import http_application
from triage.app.http.dead_letters import DeadLetterServices
from triage.app.http.decisions import ReadServices
from triage.app.http.findings import FindingServices
from triage.app.http.gaps import GapServices
from triage.app.http.intake import IntakeServices
from triage.app.http.operations import OperationServices
from triage.app.http.shadows import ShadowServices
from triage.app.readiness import Readiness
from triage.app.settings import Settings
from triage.app.sns import SnsGuard, fetch_from_aws
from triage.ports import Clock
from triage.telemetry.metrics import Metrics


def application(
    *,
    settings: Settings,
    store: Store,
    deliveries: Deliveries,
    current: Current,
    agent: Agent,
    metrics: Metrics,
    clock: Clock,
    is_draining: Callable[[], bool],
) -> Starlette:
    http, sns = settings.http, settings.intake.sns
    gate = Gate([token(t.name, t.token, t.scopes) for t in http.tokens])
    guard = SnsGuard(
        verify=sns.verify_signatures,
        topic_arns=frozenset(sns.topic_arns),
        fetch=fetch_from_aws,
    )
    readiness = Readiness(
        store=store,
        deliveries=deliveries,
        current=current,
        agent=agent,
        is_draining=is_draining,
    )
    return http_application(
        IntakeServices(
            alerts=store.alerts,
            queue=deliveries.queue,
            clock=clock,
            gate=gate,
            limit=RequestLimit(http.max_concurrent_requests),
            max_body_bytes=http.max_body_bytes,
            metrics=metrics.intake,
            field_map=current.field_map,
            verify=guard.verify,
            confirm=guard.confirm,
            is_draining=is_draining,
        ),
        ReadServices(decisions=store.decisions, ledger=store.ledger, gate=gate),
        OperationServices(
            gate=gate,
            metrics=metrics,
            ledger=store.ledger,
            gaps=store.gaps,
            clock=clock,
            readiness=readiness.document,
            reload=current.reload,
            observe=deliveries.observe,
        ),
        GapServices(gaps=store.gaps, gate=gate, clock=clock),
        DeadLetterServices(
            dead_letters=store.dead_letters,
            queue=deliveries.queue,
            field_map=current.field_map,
            streams=settings.streams,
            gate=gate,
            clock=clock,
        ),
        ShadowServices(shadows=store.shadows, gate=gate),
        FindingServices(findings=store.watch, gate=gate),
    )
