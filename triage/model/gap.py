"""A case that no tool could answer: every use of a fallback leaves one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from triage.errors import ToolFailure
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import Decision, NodeId, NodeResult
from triage.model.trace import VERDICT

GAP_ID_CHARS = 12
CLOSED_BY_CHARS = 200
"""Of the name of whoever closes a gap."""
NOTE_CHARS = 2_000
"""Of what is noted at one closing."""
_TOOL_FAILURES = frozenset(ToolFailure)


class Gap(NamedTuple):
    """A case that no tool could answer. Gaps of one `gap_id` are one kind of case.

    `needed` is the node's question, `missing` why its tool could not answer, `alternatives` what
    was tried instead and how it ended, `impact` what it did to the decision, `evidence` digests of
    answers that were got all the same.
    """

    gap_id: str
    node: NodeId
    reason: str
    tool_version: int
    tool_sha256: str
    alert_id: AlertId
    at: datetime
    needed: str
    missing: str
    alternatives: tuple[str, ...] = ()
    impact: str = ""
    evidence: tuple[str, ...] = ()


def gap_id(node: str, reason: str, tool_sha256: str) -> str:
    """Of one kind: the same tool of the same node failing for the same reason."""
    return sha256_hex(canonical_json([node, reason, tool_sha256]))[:GAP_ID_CHARS]


def gap_document(gap: Gap) -> dict[str, Any]:
    """As JSON types, stable across versions: it is stored and served."""
    return {
        **gap._asdict(),
        "at": gap.at.isoformat(),
        "alternatives": list(gap.alternatives),
        "evidence": list(gap.evidence),
    }


def read_gap(document: Mapping[str, Any]) -> Gap:
    """The inverse of `gap_document`. Raises KeyError, TypeError or ValueError for anything else."""
    fields = {name: document[name] for name in Gap._fields}
    return Gap(
        **{
            **fields,
            "at": datetime.fromisoformat(fields["at"]),
            "alternatives": tuple(fields["alternatives"]),
            "evidence": tuple(fields["evidence"]),
        }
    )


def gaps_of(decision: Decision, text: Callable[[NodeId], str]) -> tuple[Gap, ...]:
    """The gaps that a decision leaves: one a node whose tool failed, whether or not a fallback
    answered. An outage of a source leaves none. `text` gives a node's question."""
    return tuple(_gaps(decision, text))


def _gaps(decision: Decision, text: Callable[[NodeId], str]) -> Iterator[Gap]:
    for result in decision.nodes:
        failure = result.tool_failure or result.failure
        if failure is None or failure.reason not in _TOOL_FAILURES:
            continue
        yield Gap(
            gap_id=gap_id(result.node, failure.reason, result.tool_sha256),
            node=result.node,
            reason=failure.reason,
            tool_version=result.tool_version,
            tool_sha256=result.tool_sha256,
            alert_id=decision.alert_id,
            at=decision.evaluated_at,
            needed=text(result.node),
            missing=failure.detail,
            alternatives=(_tried(result),),
            impact=_impact(result),
            evidence=tuple(one.answer_sha256 for one in result.asked if one.answer_sha256),
        )


def _tried(result: NodeResult) -> str:
    trace = result.trace
    if trace is None:
        if result.tool_failure is None:
            return "fallback: none is configured"
        return f"fallback: {VERDICT if result.failure is None else result.failure.reason}"
    return f"fallback: {trace.ended} after {len(trace.turns)} turns, {trace.tokens} tokens"


def _impact(result: NodeResult) -> str:
    if result.verdict is None:
        return "the node failed and the decision escalates"
    return f"the fallback answered {result.word}"
