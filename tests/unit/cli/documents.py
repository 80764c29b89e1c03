"""Decisions made by hand, for the tests of how they are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from triage.model.alert import AlertId
from triage.model.decision import (
    ActionId,
    AnsweredBy,
    Asked,
    Cost,
    Decision,
    DroppedAction,
    DropReason,
    Edge,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    ReachedAction,
    RootCause,
    decision_document,
)
from triage.model.query import Rows, Samples
from triage.model.verdict import Clause, Observed, Truth, Verdict

AT = datetime(2026, 6, 1, 12, 31, tzinfo=UTC)
DIGEST = "ab" * 32


def clause(name: str, observed: Observed, *, holds: bool | None, unit: str = "") -> Clause:
    return Clause(name=name, observed=observed, op=">", threshold=90, unit=unit, holds=holds)


def action(name: str, subject: str, *nodes: str, rank: int = 5) -> ReachedAction:
    return ReachedAction(
        action=ActionId(name),
        subject=subject,
        rank=rank,
        cost=Cost.LOW,
        text=f"Do {name}",
        nodes=tuple(map(NodeId, nodes)),
    )


def eventful() -> Decision:
    """One of everything that a decision can hold."""
    query = Samples("metrics", 'used{host="db-1"}', AT, AT)
    return Decision(
        alert_id=AlertId("0123456789abcdef0123456789abcdef"),
        alarm="DiskFilling",
        site="east",
        entity="db-1",
        outcome=Outcome.ESCALATE,
        degraded=True,
        observed=(NodeId("obs_full"),),
        root_causes=(RootCause(NodeId("rc_logs"), "/var"),),
        actions=(action("clean_up", "/var", "rc_logs", rank=7),),
        dropped=(
            DroppedAction(
                action=action("warn_owner", "db-1", "obs_full", rank=3),
                reason=DropReason.CANCELLED,
                by="clean_up",
            ),
            DroppedAction(
                action=action("close_alert", "db-1", "cn_quiet", rank=1),
                reason=DropReason.ESCALATED,
            ),
        ),
        nodes=(
            NodeResult(
                node=NodeId("obs_full"),
                kind=NodeKind.OBSERVATION,
                layer=0,
                verdict=Verdict(
                    value=Truth.TRUE,
                    clauses=(
                        clause("used", 97.123456789, holds=True, unit="percent"),
                        clause("trend", None, holds=None),
                    ),
                    explanation="/var is 97 % full",
                ),
                tool_version=3,
                tool_sha256=DIGEST,
                asked=(Asked(query, DIGEST, 312, 0.81),),
                elapsed_ms=3.21,
            ),
            NodeResult(
                node=NodeId("rc_logs"),
                kind=NodeKind.ROOT_CAUSE,
                layer=1,
                verdict=Verdict(
                    value=Truth.TRUE, clauses=(clause("grew", True, holds=True),), subject="/var"
                ),
                tool_failure=Failure(reason="tool_raised", detail="ValueError: no number"),
                answered_by=AnsweredBy.FALLBACK,
                elapsed_ms=812.0,
            ),
            NodeResult(
                node=NodeId("cn_quiet"),
                kind=NodeKind.CONSTRAINT,
                layer=1,
                verdict=Verdict(
                    value=Truth.FALSE,
                    clauses=(clause("jobs", 3, holds=False),),
                    explanation="three jobs run",
                ),
                tool_version=1,
                elapsed_ms=1.0,
            ),
            NodeResult(
                node=NodeId("rc_quota"),
                kind=NodeKind.ROOT_CAUSE,
                layer=2,
                failure=Failure(reason="source_timeout", detail="no answer in 2 s"),
                answered_by=AnsweredBy.NOBODY,
                tool_version=2,
                asked=(
                    Asked(
                        Rows("tables", "select 1 from quota where host = :h", (("h", "db-1"),)),
                        failure=Failure(reason="source_timeout", detail="no answer in 2 s"),
                    ),
                ),
                elapsed_ms=2000.0,
            ),
        ),
        edges=(
            Edge("DiskFilling", "alarm", "obs_full"),
            Edge("obs_full", "true", "rc_logs"),
            Edge("obs_full", "true", "cn_quiet"),
            Edge("obs_full", "true", "warn_owner"),
            Edge("rc_logs", "true", "clean_up"),
            Edge("cn_quiet", "false", "rc_quota"),
            Edge("cn_quiet", "false", "close_alert"),
        ),
        pinned=Pinned(
            sop="disks", sop_version=4, sop_sha256="", sites_sha256="", library_sha256=""
        ),
        fired_at=AT,
        accepted_at=AT,
        evaluated_at=AT,
        round_trips=2,
        stages_ms={"queue_wait": 1.5, "sources": 2001.0, "evaluate": 0.4},
        warnings=("site 'east' is not in the sites file: defaults were used",),
        decision_sha256=DIGEST,
    )


def document() -> dict[str, Any]:
    return decision_document(eventful())
