"""The outcome for one alert, with everything needed to explain it and to tell it from another.

What is made many times an attempt is a named tuple: a frozen dataclass sets each field through
`object.__setattr__`, and made a `NodeResult` eight times slower. Give all fields by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, NewType

from triage.model.alert import AlertId
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.query import Query, query_digest, query_document
from triage.model.trace import Trace, trace_document
from triage.model.verdict import Clause, Verdict

NodeId = NewType("NodeId", str)
ActionId = NewType("ActionId", str)


class NodeKind(StrEnum):
    OBSERVATION = "observation"
    ROOT_CAUSE = "root_cause"
    CONSTRAINT = "constraint"


class Cost(StrEnum):
    LOW = "low"
    HIGH = "high"


class Outcome(StrEnum):
    """In order of precedence: the first that matches is the outcome."""

    RESOLVED = "resolved"
    COALESCED = "coalesced"
    """A re-fire within the window of a storm: decided as the first of it was."""
    ESCALATE = "escalate"
    ACTIONS = "actions"
    INCONCLUSIVE = "inconclusive"
    NO_FAULT = "no_fault"


class AnsweredBy(StrEnum):
    TOOL = "tool"
    FALLBACK = "fallback"
    NOBODY = "nobody"


class DropReason(StrEnum):
    """Why a reached action is not effective."""

    CANCELLED = "cancelled"
    YIELDED = "yielded"
    OUTRANKED = "outranked"
    ESCALATED = "escalated"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`reason` is a value of ToolFailure or SourceFailure, or a word of the fallback's."""

    reason: str
    detail: str


class Asked(NamedTuple):
    """One query of one node. `answer_sha256` is empty when no answer came, then `failure` says
    why. `elapsed_ms` is the source's time. One object per query of the attempt: nodes that ask
    the same share it."""

    query: Query
    answer_sha256: str = ""
    answer_bytes: int = 0
    elapsed_ms: float = 0.0
    failure: Failure | None = None


class NodeResult(NamedTuple):
    """Either `verdict` or `failure` is set, never both.

    A node answered by the fallback keeps the tool's failure in `tool_failure`. `elapsed_ms` is
    from the start of the node's layer to its result; `evaluate_ms` the tool's own CPU part.
    `trace` is what the fallback did, None where none was asked.
    """

    node: NodeId
    kind: NodeKind
    layer: int
    verdict: Verdict | None = None
    failure: Failure | None = None
    tool_failure: Failure | None = None
    answered_by: AnsweredBy = AnsweredBy.TOOL
    tool_version: int = 0
    tool_sha256: str = ""
    asked: tuple[Asked, ...] = ()
    elapsed_ms: float = 0.0
    evaluate_ms: float = 0.0
    trace: Trace | None = None

    @property
    def word(self) -> str:
        """`true`, `false`, `no_data` or `failed`: the value in hashes, labels and edges."""
        return self.verdict.value.word if self.verdict is not None else "failed"


class Edge(NamedTuple):
    """One step of the walk: `origin` is a node id, or the alarm's name for an entry; `on` is the
    word that led on (`true`, `false`, `no_data`, `failed`, or `alarm`)."""

    origin: str
    on: str
    target: str


class ReachedAction(NamedTuple):
    """An action on a subject. `nodes` are those that led to it, in order of arrival."""

    action: ActionId
    subject: str
    rank: int
    cost: Cost
    text: str
    nodes: tuple[NodeId, ...]


class DroppedAction(NamedTuple):
    """`by` is the action that cancelled it or outranked it, empty where no action did."""

    action: ReachedAction
    reason: DropReason
    by: str = ""


class RootCause(NamedTuple):
    node: NodeId
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """What the attempt was decided with. Hashes are SHA-256 hex, empty when there is no file."""

    sop: str
    sop_version: int
    sop_sha256: str
    sites_sha256: str
    library_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`reason` explains an `escalate` that no node explains (`unrouted`), else it is empty.

    `evaluated_at` is when the attempt began, aware UTC; every query speaks of the alert's
    `fired_at` instead. `stages_ms` maps stage name to milliseconds.
    """

    alert_id: AlertId
    alarm: str
    site: str
    entity: str
    outcome: Outcome
    reason: str = ""
    degraded: bool = False
    observed: tuple[NodeId, ...] = ()
    root_causes: tuple[RootCause, ...] = ()
    actions: tuple[ReachedAction, ...] = ()
    dropped: tuple[DroppedAction, ...] = ()
    nodes: tuple[NodeResult, ...] = ()
    edges: tuple[Edge, ...] = ()
    pinned: Pinned
    fired_at: datetime
    accepted_at: datetime
    evaluated_at: datetime
    attempt: int = 1
    prefetch: str = "layer"
    round_trips: int = 0
    stages_ms: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    coalesced_into: AlertId | None = None
    decision_sha256: str = ""


def action_key(alert_id: AlertId, action: ActionId, subject: str) -> str:
    """The idempotency key an executor must honour."""
    return f"{alert_id}:{action}:{subject}"


def decision_sha256(
    *,
    alert_id: AlertId,
    outcome: Outcome,
    degraded: bool,
    nodes: Iterable[NodeResult],
    edges: Iterable[Edge],
    actions: Iterable[ReachedAction],
    dropped: Iterable[DroppedAction],
) -> str:
    """What the decision says, without when and how fast it was said.

    Promised equal for equal alert, SOP, sites, tools and answers when the decision is not
    degraded and no node was answered by the fallback.
    """
    return sha256_hex(
        canonical_json(
            {
                "alert_id": alert_id,
                "outcome": outcome.value,
                "degraded": degraded,
                "verdicts": {result.node: result.word for result in nodes},
                "reached": sorted({edge.target for edge in edges}),
                "actions": sorted([a.action, a.subject] for a in actions),
                "dropped": sorted(
                    [d.action.action, d.action.subject, d.reason.value] for d in dropped
                ),
            }
        )
    )


def run_sha256(decisions: Mapping[AlertId, str]) -> str:
    """One digest for a whole run: `decisions` maps alert id to `decision_sha256`."""
    return sha256_hex(canonical_json([[key, decisions[key]] for key in sorted(decisions)]))


def decision_document(decision: Decision) -> dict[str, Any]:
    """The decision as JSON types: what is stored, sent to sinks and served."""
    return {
        "alert_id": decision.alert_id,
        "alarm": decision.alarm,
        "site": decision.site,
        "entity": decision.entity,
        "outcome": decision.outcome.value,
        "reason": decision.reason,
        "degraded": decision.degraded,
        "observed": list(decision.observed),
        "root_causes": [{"node": c.node, "subject": c.subject} for c in decision.root_causes],
        "actions": [_action_document(decision.alert_id, a) for a in decision.actions],
        "dropped_actions": [
            {**_action_document(decision.alert_id, d.action), "dropped": d.reason.value, "by": d.by}
            for d in decision.dropped
        ],
        "nodes": [_node_document(result) for result in decision.nodes],
        "edges": [[edge.origin, edge.on, edge.target] for edge in decision.edges],
        "sop": decision.pinned.sop,
        "sop_version": decision.pinned.sop_version,
        "sop_sha256": decision.pinned.sop_sha256,
        "sites_sha256": decision.pinned.sites_sha256,
        "library_sha256": decision.pinned.library_sha256,
        "fired_at": decision.fired_at.isoformat(),
        "accepted_at": decision.accepted_at.isoformat(),
        "evaluated_at": decision.evaluated_at.isoformat(),
        "attempt": decision.attempt,
        "prefetch": decision.prefetch,
        "round_trips": decision.round_trips,
        "stages_ms": dict(decision.stages_ms),
        "warnings": list(decision.warnings),
        **({"coalesced_into": decision.coalesced_into} if decision.coalesced_into else {}),
        "decision_sha256": decision.decision_sha256,
    }


def _action_document(alert_id: AlertId, action: ReachedAction) -> dict[str, Any]:
    return {
        "action": action.action,
        "subject": action.subject,
        "key": action_key(alert_id, action.action, action.subject),
        "rank": action.rank,
        "cost": action.cost.value,
        "text": action.text,
        "nodes": list(action.nodes),
    }


def _failure_document(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else {"reason": failure.reason, "detail": failure.detail}


def _node_document(result: NodeResult) -> dict[str, Any]:
    verdict = result.verdict
    return {
        "node": result.node,
        "kind": result.kind.value,
        "layer": result.layer,
        "verdict": result.word,
        "subject": verdict.subject if verdict else "",
        "explanation": verdict.explanation if verdict else "",
        "clauses": [_clause_document(clause) for clause in verdict.clauses] if verdict else [],
        "failure": _failure_document(result.failure),
        "tool_failure": _failure_document(result.tool_failure),
        "answered_by": result.answered_by.value,
        "tool_version": result.tool_version,
        "tool_sha256": result.tool_sha256,
        "asked": [
            {
                "query": query_document(asked.query),
                "query_sha256": query_digest(asked.query),
                "answer_sha256": asked.answer_sha256,
                "answer_bytes": asked.answer_bytes,
                "elapsed_ms": round(asked.elapsed_ms, 3),
                "failure": _failure_document(asked.failure),
            }
            for asked in result.asked
        ],
        "elapsed_ms": round(result.elapsed_ms, 3),
        "evaluate_ms": round(result.evaluate_ms, 3),
        # Only where there is one: most decisions have none, and each would carry the key.
        **({"fallback": trace_document(result.trace)} if result.trace is not None else {}),
    }


def _clause_document(clause: Clause) -> dict[str, Any]:
    return {
        "name": clause.name,
        "observed": clause.observed,
        "op": clause.op,
        "threshold": clause.threshold,
        "unit": clause.unit,
        "holds": clause.holds,
    }
