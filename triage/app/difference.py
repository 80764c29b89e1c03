"""What differs between two decisions of one alert, told from their documents.

Two decisions are the same when their `decision_sha256` would be: outcome, whether degraded, every
verdict, every action and what became of it. Figures and wording are told, but are no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triage.model.decision import NodeId
from triage.sop.procedure import Sop
from triage.traversal import reachable

Document = Mapping[str, Any]

EFFECTIVE = "effective"
REACHED = "reached"
"""Of an action: it is led to, but whether it stands depends on a node that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseChange:
    """A comparison that holds on one side only; None where a side does not make it."""

    name: str
    old: Document | None
    new: Document | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """The node's part of either document, None where it was not reached."""

    node: str
    old: Document | None
    new: Document | None

    @property
    def clauses(self) -> tuple[ClauseChange, ...]:
        """Those that flipped; none for a node that was reached on one side only."""
        if self.old is None or self.new is None:
            return ()
        return tuple(_clause_changes(self.old, self.new))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionChange:
    """`old` and `new` are EFFECTIVE, the reason it was dropped for, REACHED, or "" where it was
    not reached. `by` is the action that the new decision drops it for."""

    action: str
    subject: str
    old: str
    new: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`outcome` and `degraded` are (old, new), None when they are equal or not known.

    `nodes` are those whose verdict changed, then the newly reached, then those no longer reached.
    """

    outcome: tuple[str, str] | None = None
    degraded: tuple[bool, bool] | None = None
    nodes: tuple[NodeChange, ...] = ()
    actions: tuple[ActionChange, ...] = ()

    @property
    def same(self) -> bool:
        return self == _NONE


_NONE = Difference()


def compare(old: Document, new: Document) -> Difference:
    """Everything that differs. Raises KeyError for what is no decision's document."""
    before, after = _by_node(old), _by_node(new)
    both = [node for node in before if node in after]
    nodes = [
        NodeChange(node=node, old=before[node], new=after[node])
        for node in both
        if before[node]["verdict"] != after[node]["verdict"]
    ]
    nodes += [NodeChange(node=n, old=None, new=after[n]) for n in after if n not in before]
    nodes += [NodeChange(node=n, old=before[n], new=None) for n in before if n not in after]
    was, now = _states(old), _states(new)
    return Difference(
        outcome=_pair(old["outcome"], new["outcome"]),
        degraded=_pair(bool(old["degraded"]), bool(new["degraded"])),
        nodes=tuple(nodes),
        actions=tuple(
            ActionChange(
                action=key[0],
                subject=key[1],
                old=was.get(key, ("", ""))[0],
                new=now.get(key, ("", ""))[0],
                by=now.get(key, ("", ""))[1],
            )
            for key in dict.fromkeys((*was, *now))
            if was.get(key, ("", ""))[0] != now.get(key, ("", ""))[0]
        ),
    )


def compare_known(old: Document, new: Document, sop: Sop, unknown: Collection[str]) -> Difference:
    """What differs whatever the nodes of `unknown` would have said.

    `new` was walked through `sop` with those nodes failed. Left out is all that follows from that:
    the outcome, what only they lead to, and whether an action stands.
    """
    whole = compare(old, new)
    sure = _reached_for_sure(new, unknown)
    maybe = reachable(sop, [NodeId(node) for node in sorted(unknown)])
    maybe_actions = {
        action for node in maybe for step in sop.steps[node].values() for action in step.actions
    }
    led_to = {
        (action["action"], action["subject"])
        for action in (*new["actions"], *new["dropped_actions"])
        if any(node in sure and node not in unknown for node in action["nodes"])
    }
    actions = []
    for change in whole.actions:
        if not change.old and (change.action, change.subject) in led_to:
            actions.append(
                ActionChange(
                    action=change.action, subject=change.subject, old=change.old, new=REACHED
                )
            )
        elif not change.new and change.action not in maybe_actions:
            actions.append(change)
    return Difference(
        nodes=tuple(
            change
            for change in whole.nodes
            if (
                change.node not in maybe
                if change.new is None
                else change.node in sure and (change.old is None or change.node not in unknown)
            )
        ),
        actions=tuple(actions),
    )


def _reached_for_sure(document: Document, unknown: Collection[str]) -> set[str]:
    """Nodes that some way leads to which passes none of `unknown`; they may end such a way."""
    leads: dict[str, list[str]] = {}
    waiting: list[str] = []
    for origin, word, target in document["edges"]:
        if word == "alarm":
            waiting.append(target)
        else:
            leads.setdefault(origin, []).append(target)
    sure: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node not in sure:
            sure.add(node)
            if node not in unknown:
                waiting += leads.get(node, ())
    return sure


def _by_node(document: Document) -> dict[str, Document]:
    return {node["node"]: node for node in document["nodes"]}


def _states(document: Document) -> dict[tuple[str, str], tuple[str, str]]:
    """(action, subject) to its state and what it was dropped for."""
    states = {(a["action"], a["subject"]): (EFFECTIVE, "") for a in document["actions"]}
    for action in document["dropped_actions"]:
        states[action["action"], action["subject"]] = (action["dropped"], action["by"])
    return states


def _pair(old: Any, new: Any) -> Any:
    return None if old == new else (old, new)


def _clause_changes(old: Document, new: Document) -> Iterator[ClauseChange]:
    before, after = _numbered(old["clauses"]), _numbered(new["clauses"])
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if was is None or now is None or was["holds"] != now["holds"]:
            yield ClauseChange(name=key[0], old=was, new=now)


def _numbered(clauses: Collection[Document]) -> dict[tuple[str, int], Document]:
    """By name and how often that name came before: a tool may compare each of several assets."""
    seen: Counter[str] = Counter()
    numbered = {}
    for clause in clauses:
        name = clause["name"]
        numbered[name, seen[name]] = clause
        seen[name] += 1
    return numbered
