"""Walks an alert through the procedure: the traversal says what is next, evaluation does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, assert_never

from triage.engine.snapshot import Snapshot
from triage.evaluation.answers import AnswerBook
from triage.evaluation.judge import Marker
from triage.evaluation.layer import AgentAccess, Attempt
from triage.model.alert import Alert, AlertId
from triage.model.decision import (
    Decision,
    DroppedAction,
    DropReason,
    Edge,
    NodeId,
    NodeResult,
    Outcome,
    decision_sha256,
)
from triage.model.gap import Gap, gaps_of
from triage.ports import Clock, Fallback, Lane
from triage.telemetry.decision_metrics import NodeMetrics
from triage.traversal import Conclude, Conclusion, EvaluateLayer, advance, begin, conclude

Prefetch = Literal["layer", "subtree"]

UNROUTED = "unrouted"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Both deadlines are seconds from the start of the attempt."""

    deadline_s: float = 5.0
    fallback_deadline_s: float = 60.0
    prefetch: Prefetch = "layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """`evidence` maps SHA-256 to the bytes of an answer; `gaps` are what no tool could answer."""

    decision: Decision
    evidence: Mapping[str, bytes]
    gaps: tuple[Gap, ...] = ()


class Engine:
    """Holds nothing of any alert: `decide` may run any number of times at once."""

    def __init__(
        self,
        *,
        options: EngineOptions,
        clock: Clock,
        marker: Marker,
        metrics: NodeMetrics,
        fallback: Fallback | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._marker = marker
        self._metrics = metrics
        self._fallback = fallback

    async def decide(
        self, alert: Alert, snapshot: Snapshot, *, lane: Lane, attempt: int = 1
    ) -> Decided:
        """One attempt. Ends within the deadline (the fallback's, once one is entered).

        Safe to cancel: nothing outlives the call. Raises only for a fault of this project.
        """
        evaluated_at = self._clock.now()
        first = begin(snapshot.sop, alert.alarm, alert.entity)
        profile = snapshot.sites.profile(alert.site)
        if alert.resolved_at is not None or alert.coalesced_into is not None or first is None:
            decision = self._without_walk(alert, snapshot, evaluated_at, attempt)
            return Decided(decision=decision, evidence={})
        began = self._clock.monotonic()
        book = AnswerBook(
            snapshot.sources,
            deadline=began + self._options.deadline_s,
            left_s=self._options.deadline_s,
        )
        try:
            run = Attempt(
                alert=alert,
                sop=snapshot.sop,
                library=snapshot.library,
                profile=profile,
                book=book,
                monotonic=self._clock.monotonic,
                marker=self._marker,
                metrics=self._metrics,
                lane=lane,
                fallback=self._access(snapshot, began),
            )
            if self._options.prefetch == "subtree":
                run.prefetch(self._downstream(alert, snapshot))
            ended = await self._walk(first, run)
        finally:
            await book.close()
        decision = self._decision(
            alert,
            snapshot,
            conclude(ended.walk, profile.within),
            evaluated_at=evaluated_at,
            attempt=attempt,
            site=profile.site.name,
            nodes=tuple(ended.walk.results.values()),
            edges=ended.walk.edges,
            round_trips=book.round_trips,
            stages_ms={
                "sources": round(run.sources_s * 1000, 3),
                "evaluate": round(run.evaluate_s * 1000, 3),
            },
            warnings=()
            if profile.known
            else (f"site {alert.site!r} is not in the sites file: defaults were used",),
        )
        return Decided(
            decision=decision,
            evidence={**book.evidence(), **run.agent_bodies},
            gaps=gaps_of(decision, snapshot.sop.text),
        )

    async def _walk(self, step: EvaluateLayer | Conclude, run: Attempt) -> Conclude:
        while True:
            match step:
                case EvaluateLayer():
                    results = await run.evaluate(step.nodes, step.walk.layer)
                    step = advance(step.walk, results)
                case Conclude():
                    return step
                case _:
                    assert_never(step)

    def _access(self, snapshot: Snapshot, began: float) -> AgentAccess | None:
        if self._fallback is None:
            return None
        return AgentAccess(
            fallback=self._fallback,
            sources=snapshot.sources,
            deadline=began + self._options.fallback_deadline_s,
        )

    def _downstream(self, alert: Alert, snapshot: Snapshot) -> tuple[NodeId, ...]:
        return snapshot.downstream[snapshot.sop.routed(alert.alarm)]

    def _without_walk(
        self, alert: Alert, snapshot: Snapshot, evaluated_at: datetime, attempt: int
    ) -> Decision:
        outcome = Outcome.ESCALATE
        if alert.resolved_at is not None:
            outcome = Outcome.RESOLVED
        elif alert.coalesced_into is not None:
            outcome = Outcome.COALESCED
        unrouted = outcome is Outcome.ESCALATE
        nothing = Conclusion(
            outcome=outcome, degraded=False, observed=(), root_causes=(), actions=(), dropped=()
        )
        return self._decision(
            alert,
            snapshot,
            nothing,
            evaluated_at=evaluated_at,
            attempt=attempt,
            site=alert.site,
            reason=UNROUTED if unrouted else "",
            warnings=(_unrouted(alert, snapshot),) if unrouted else (),
            coalesced_into=alert.coalesced_into if outcome is Outcome.COALESCED else None,
        )

    def _decision(
        self,
        alert: Alert,
        snapshot: Snapshot,
        conclusion: Conclusion,
        *,
        evaluated_at: datetime,
        attempt: int,
        site: str,
        reason: str = "",
        nodes: tuple[NodeResult, ...] = (),
        edges: tuple[Edge, ...] = (),
        round_trips: int = 0,
        stages_ms: Mapping[str, float] | None = None,
        warnings: tuple[str, ...] = (),
        coalesced_into: AlertId | None = None,
    ) -> Decision:
        queue_wait_s = max(0.0, (evaluated_at - alert.accepted_at).total_seconds())
        return Decision(
            alert_id=alert.alert_id,
            alarm=alert.alarm,
            site=site,
            entity=alert.entity,
            outcome=conclusion.outcome,
            reason=reason,
            degraded=conclusion.degraded,
            observed=conclusion.observed,
            root_causes=conclusion.root_causes,
            actions=conclusion.actions,
            dropped=conclusion.dropped,
            nodes=nodes,
            edges=edges,
            pinned=snapshot.pinned,
            fired_at=alert.fired_at,
            accepted_at=alert.accepted_at,
            evaluated_at=evaluated_at,
            attempt=attempt,
            prefetch=self._options.prefetch,
            round_trips=round_trips,
            stages_ms={"queue_wait": round(queue_wait_s * 1000, 3), **(stages_ms or {})},
            warnings=warnings,
            coalesced_into=coalesced_into,
            decision_sha256=decision_sha256(
                alert_id=alert.alert_id,
                outcome=conclusion.outcome,
                degraded=conclusion.degraded,
                nodes=nodes,
                edges=edges,
                actions=conclusion.actions,
                dropped=conclusion.dropped,
            ),
        )


def _unrouted(alert: Alert, snapshot: Snapshot) -> str:
    return (
        f"no alarm of SOP {snapshot.sop.name!r} is called {alert.alarm!r}:"
        " route it there, or alias it"
    )


def as_resolved(decision: Decision) -> Decision:
    """The same walk, suppressed: a resolve became durable before the decision did."""
    dropped = (
        *decision.dropped,
        *(DroppedAction(action=a, reason=DropReason.RESOLVED) for a in decision.actions),
    )
    return replace(
        decision,
        outcome=Outcome.RESOLVED,
        reason="",
        coalesced_into=None,
        actions=(),
        dropped=dropped,
        decision_sha256=decision_sha256(
            alert_id=decision.alert_id,
            outcome=Outcome.RESOLVED,
            degraded=decision.degraded,
            nodes=decision.nodes,
            edges=decision.edges,
            actions=(),
            dropped=dropped,
        ),
    )
