"""Alerts decided outside the daemon: nothing is accepted, stored or sent.

What a daemon would be started with is loaded, its sources are opened, and all is closed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry

from triage.app.fallback import agent
from triage.app.field_maps import field_maps
from triage.app.procedure import Loaded, load_procedure
from triage.app.sections import IntakeSection
from triage.app.settings import Settings
from triage.app.sources import open_sources
from triage.engine.engine import Decided, Engine, EngineOptions
from triage.engine.snapshot import Snapshot, snapshot
from triage.errors import Finding
from triage.evaluation.judge import NoMark
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest, Rejected
from triage.model.alert import Alert, Arrival, ArrivalKind, episode_id, occurrence_id
from triage.ports import Clock
from triage.telemetry.decision_metrics import NodeMetrics
from triage.telemetry.edge_metrics import SourceMetrics
from triage.telemetry.fallback_metrics import FallbackMetrics

FIRST_EPISODE = 1


@runtime_checkable
class Probed(Protocol):
    """A source that can say who it is. Raises SourceFailed or ToolFailed."""

    async def probe(self, *, timeout_s: float) -> str: ...


# --- deciding ---------------------------------------------------------------------------------


class OwnLane:
    """Nobody else waits for a slot."""

    async def enter_slow(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOff:
    """`warnings` are what a start would have warned of."""

    snapshot: Snapshot
    warnings: tuple[Finding, ...]
    engine: Engine
    clock: Clock

    async def decide(self, alert: Alert) -> Decided:
        """As `Engine.decide`. It counts as accepted now: it waited in no queue."""
        alert = replace(alert, accepted_at=self.clock.now())
        return await self.engine.decide(alert, self.snapshot, lane=OwnLane())


@asynccontextmanager
async def one_off(
    settings: Settings, clock: Clock, quarantined: Mapping[str, str]
) -> AsyncIterator[OneOff]:
    """`quarantined` maps the SHA-256 of a tool that may not run to the reason.

    Raises ConfigError for what would keep a daemon from starting. A source that is down does
    not: nodes that ask it fail, as they would there.
    """
    loaded: Loaded = await asyncio.to_thread(load_procedure, settings, quarantined)
    registry = CollectorRegistry()
    async with AsyncExitStack() as stack:
        helper = await stack.enter_async_context(
            agent(
                settings.fallback,
                library=settings.sop.library,
                secrets=settings.secrets(),
                metrics=FallbackMetrics.register(registry),
                clock=clock,
            )
        )
        engine = Engine(
            options=EngineOptions(
                deadline_s=settings.engine.deadline_s,
                fallback_deadline_s=settings.engine.fallback_deadline_s,
                prefetch=settings.engine.prefetch,
            ),
            clock=clock,
            marker=NoMark(),
            metrics=NodeMetrics.register(registry),
            fallback=helper.fallback,
        )
        # Settled: a daemon's sources have long been connected when an alert comes.
        sources = await stack.enter_async_context(
            open_sources(
                settings.sources,
                clock,
                metrics=SourceMetrics.register(registry),
                fallback=settings.fallback,
            )
        )
        yield OneOff(
            snapshot=snapshot(loaded.sop, loaded.sites, loaded.library, sources),
            warnings=loaded.warnings,
            engine=engine,
            clock=clock,
        )


# --- reading a payload ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """`events` are entries that a daemon would only record."""

    alerts: tuple[Alert, ...]
    events: tuple[Arrival, ...]
    rejected: tuple[Rejected, ...]
    truncated: int


def read_payload(
    intake: IntakeSection,
    *,
    format: str,  # noqa: A002 - the word of intake
    body: bytes,
    now: datetime,
    at: datetime | None = None,
) -> Payload:
    """The alerts of one payload, fired at `at` where it is given. Ids are those that a store with
    no earlier episode would give. Raises PayloadError when nothing in it can be an alert."""
    field_map = field_maps(intake)[format]
    parsed = parse(IntakeRequest(format=format, body=body, received_at=now), field_map)
    events = [
        arrival
        for arrival in parsed.arrivals
        if arrival.kind is ArrivalKind.EVENT and arrival.event != "rejected"
    ]
    return Payload(
        alerts=tuple(
            _alert(arrival, now, at)
            for arrival in parsed.arrivals
            if arrival.kind is not ArrivalKind.EVENT
        ),
        events=tuple(events),
        rejected=parsed.rejected,
        truncated=parsed.truncated,
    )


def _alert(arrival: Arrival, now: datetime, at: datetime | None) -> Alert:
    key = (arrival.integration, arrival.tenant, arrival.fingerprint)
    resolved = arrival.kind is ArrivalKind.RESOLVED
    return Alert(
        alert_id=episode_id(*key, FIRST_EPISODE)
        if arrival.starts_at_ns is None
        else occurrence_id(*key, arrival.starts_at_ns),
        integration=arrival.integration,
        tenant=arrival.tenant,
        fingerprint=arrival.fingerprint,
        alarm=arrival.alarm,
        site=arrival.site,
        entity=arrival.entity,
        severity=arrival.severity,
        fired_at=at or arrival.fired_at,
        accepted_at=now,
        labels=arrival.labels,
        annotations=arrival.annotations,
        resolved_at=(arrival.observed_at or now) if resolved else None,
        unmatched_resolve=resolved,
    )
