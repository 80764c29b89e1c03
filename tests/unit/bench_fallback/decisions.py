"""Decisions made by hand, for tests of what compares and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from triage.model.alert import AlertId
from triage.model.decision import (
    ActionId,
    AnsweredBy,
    Cost,
    Decision,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    ReachedAction,
    RootCause,
)
from triage.model.trace import VERDICT, Trace, Turn
from triage.model.verdict import Clause, Truth, Verdict

AT = datetime(2026, 1, 1, tzinfo=UTC)
MISSING = Failure(reason="tool_missing", detail="-")


def verdict(
    value: Truth = Truth.TRUE, *, observed: float = 7.0, subject: str = "RC-01", text: str = "high"
) -> Verdict:
    clause = Clause("level", observed, ">=", 5.0, "percent", observed >= 5.0)
    return Verdict(value=value, clauses=(clause,), explanation=text, subject=subject)


def turn(*, prompt: int = 0, reply: int = 0, model_ms: float = 0.0) -> Turn:
    return Turn("-", "-", prompt_tokens=prompt, completion_tokens=reply, model_ms=model_ms)


def trace(*turns: Turn, elapsed_ms: float = 0.0, ended: str = VERDICT) -> Trace:
    return Trace("m", "1", "0", "tool_missing", ended, turns=turns, elapsed_ms=elapsed_ms)


def node(
    name: str,
    said: Verdict | None = None,
    *,
    layer: int = 0,
    by_agent: Trace | None = None,
    failure: Failure | None = None,
) -> NodeResult:
    """Answered by a tool unless `by_agent`; failed with `failure`."""
    return NodeResult(
        node=NodeId(name),
        kind=NodeKind.OBSERVATION,
        layer=layer,
        verdict=None if failure is not None else said or verdict(),
        failure=failure,
        tool_failure=MISSING if by_agent is not None else None,
        answered_by=AnsweredBy.NOBODY
        if failure is not None
        else AnsweredBy.FALLBACK
        if by_agent is not None
        else AnsweredBy.TOOL,
        trace=by_agent,
    )


def decision(
    *nodes: NodeResult,
    outcome: Outcome = Outcome.ACTIONS,
    causes: Sequence[tuple[str, str]] = (),
    actions: Sequence[tuple[str, str]] = (),
) -> Decision:
    return Decision(
        alert_id=AlertId("a"),
        alarm="al",
        site="FC1",
        entity="RC-01",
        outcome=outcome,
        nodes=nodes,
        root_causes=tuple(RootCause(NodeId(name), subject) for name, subject in causes),
        actions=tuple(
            ReachedAction(ActionId(name), subject, 1, Cost.LOW, "-", ())
            for name, subject in actions
        ),
        pinned=Pinned(sop="s", sop_version=1, sop_sha256="", sites_sha256="", library_sha256=""),
        fired_at=AT,
        accepted_at=AT,
        evaluated_at=AT,
    )
