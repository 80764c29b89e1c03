"""What became of stored decisions that were made again: one by one, counted, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from triage.app.difference import Difference, Document
from triage.engine.engine import UNROUTED


class Status(StrEnum):
    """`unrecorded`: whether it changes depends on an answer that nobody has."""

    EQUAL = "equal"
    CHANGED = "changed"
    UNRECORDED = "unrecorded"
    SKIPPED = "skipped"


class Skip(StrEnum):
    """Why a decision was not made again."""

    RESOLVED = "resolved_without_walk"
    """Resolved before it was walked: every procedure decides it so."""
    NO_ALERT = "alert_not_stored"
    UNREADABLE = "unreadable"
    """A document of another version."""


class Why(StrEnum):
    """Why a node's answer is not known."""

    NOT_ASKED = "not_asked"
    PURGED = "purged"
    FALLBACK = "fallback"
    """The fallback answered then, and would be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """`query` is None when it is not a query that is missing."""

    node: str
    why: Why
    query: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One stored decision and what became of it.

    `old` is its document, the head alone when it was skipped. With `missing` the new outcome is
    not known, and `difference` holds only what is sure.
    """

    status: Status
    old: Document
    new: Document | None = None
    difference: Difference = field(default_factory=Difference)
    missing: tuple[Missing, ...] = ()
    skip: Skip | None = None


# --- counting ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """`nodes` counts, for what is unrecorded, the decisions by node and why; a decision counts
    once for each. `degraded` are decisions whose stored failures were repeated as they were."""

    statuses: Counter[Status] = field(default_factory=Counter)
    skipped: Counter[Skip] = field(default_factory=Counter)
    nodes: Counter[tuple[str, Why]] = field(default_factory=Counter)
    degraded: int = 0
    incomplete: int = 0
    """Of the changed ones, those whose new outcome is not known."""
    newly_routed: int = 0
    """Of the unrecorded ones, those that no alarm was routed for then."""

    def add(self, replayed: Replayed) -> None:
        self.statuses[replayed.status] += 1
        if replayed.skip is not None:
            self.skipped[replayed.skip] += 1
            return
        self.nodes.update({(one.node, one.why) for one in replayed.missing})
        self.degraded += bool(replayed.old["degraded"])
        self.incomplete += replayed.status is Status.CHANGED and bool(replayed.missing)
        self.newly_routed += bool(replayed.missing) and replayed.old["reason"] == UNROUTED

    @property
    def read(self) -> int:
        return self.statuses.total()

    def document(self) -> dict[str, Any]:
        return {
            "read": self.read,
            **{
                status.value: self.statuses[status]
                for status in (Status.EQUAL, Status.CHANGED, Status.UNRECORDED)
            },
            "skipped": {skip.value: self.skipped[skip] for skip in Skip},
            "changed_outcome_unknown": self.incomplete,
            "newly_routed": self.newly_routed,
            "degraded": self.degraded,
            "unrecorded_nodes": [
                {"node": node, "why": why.value, "decisions": count}
                for (node, why), count in sorted(self.nodes.items())
            ],
        }


def replayed_document(replayed: Replayed) -> dict[str, Any]:
    """One decision as JSON types. An outcome or verdict that is not known is null."""
    old, new, difference = replayed.old, replayed.new, replayed.difference
    unknown = {one.node for one in replayed.missing}
    return {
        "alert_id": old["alert_id"],
        "alarm": old["alarm"],
        "site": old["site"],
        "entity": old["entity"],
        "decided_at": old["decided_at"],
        "status": replayed.status.value,
        "old": _side(old),
        "new": None if new is None else {**_side(new), **_unknown(replayed)},
        "nodes": [
            {
                "node": change.node,
                "old": _node_side(change.old),
                "new": _node_side(change.new, is_known=change.node not in unknown),
                "flipped": [
                    {"name": clause.name, "old": clause.old, "new": clause.new}
                    for clause in change.clauses
                ],
            }
            for change in difference.nodes
        ],
        "actions": [
            {
                "action": change.action,
                "subject": change.subject,
                "old": change.old or None,
                "new": change.new or None,
                "by": change.by,
            }
            for change in difference.actions
        ],
        "unrecorded": [
            {"node": one.node, "why": one.why.value, "query": one.query} for one in replayed.missing
        ],
    }


def _side(document: Document) -> dict[str, Any]:
    return {name: document[name] for name in ("outcome", "degraded", "reason", "sop_version")}


def _unknown(replayed: Replayed) -> Mapping[str, None]:
    return {"outcome": None, "degraded": None} if replayed.missing else {}


def _node_side(node: Document | None, *, is_known: bool = True) -> dict[str, Any] | None:
    if node is None:
        return None
    names = ("verdict", "subject", "explanation", "failure", "tool_version", "tool_sha256")
    side = {name: node[name] for name in names}
    return side if is_known else {**side, "verdict": None}
