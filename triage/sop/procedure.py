"""A procedure that passed every check, as frozen values ready to be walked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from triage.model.decision import ActionId, Cost, Edge, NodeId, NodeKind
from triage.model.site import ParamValue, Site

WORDS = ("true", "false", "no_data", "failed")
"""What a node can lead on with: `on_<word>` in the file, `NodeResult.word` in a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """`minimum` and `maximum` are inclusive and bound a number; None where unbounded."""

    value: ParamValue
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`targets` maps every word of WORDS to node and action ids, in the file's order.

    `text_sha256` is of the node's text: tools record the one they were made from.
    `unguarded_because` is why its costly actions need no constraint, empty when they have one.
    `line` is 1-based.
    """

    node: NodeId
    kind: NodeKind
    text: str
    text_sha256: str
    sources: tuple[str, ...]
    targets: Mapping[str, tuple[str, ...]]
    unguarded_because: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A higher `rank` outranks a lower one. A yielding action stands only if nothing else does."""

    action: ActionId
    text: str
    rank: int
    cost: Cost
    yields: bool = False
    cancels: frozenset[ActionId] = frozenset()
    line: int = 0


class Step(NamedTuple):
    """Where one word of one node leads, in the file's order. `edges` are those of both."""

    edges: tuple[Edge, ...]
    nodes: tuple[NodeId, ...]
    actions: tuple[ActionId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sop:
    """`nodes` and `actions` keep the file's order, which breaks ties everywhere.

    `steps` is derived: for every node and word, what the walk would otherwise work out anew for
    each alert. A constraint that failed has no step to an action: it must not open the way to
    what it guards.
    """

    name: str
    version: int
    sha256: str
    file: str
    alarms: Mapping[str, tuple[NodeId, ...]]
    aliases: Mapping[str, str]
    params: Mapping[str, Param]
    nodes: Mapping[NodeId, Node]
    actions: Mapping[ActionId, Action]
    steps: Mapping[NodeId, Mapping[str, Step]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        steps = {
            node.node: {word: self._step(node, word) for word in WORDS}
            for node in self.nodes.values()
        }
        object.__setattr__(self, "steps", steps)

    def _step(self, node: Node, word: str) -> Step:
        shut = word == "failed" and node.kind is NodeKind.CONSTRAINT
        nodes = tuple(NodeId(t) for t in node.targets[word] if t in self.nodes)
        actions = tuple(ActionId(t) for t in node.targets[word] if t not in self.nodes and not shut)
        edges = tuple(
            Edge(origin=node.node, on=word, target=target)
            for target in node.targets[word]
            if not shut or target in self.nodes
        )
        return Step(edges, nodes, actions)

    def routed(self, alarm: str) -> str:
        """The alarm's name in the SOP, its alias followed."""
        return self.aliases.get(alarm, alarm)

    def text(self, node: NodeId) -> str:
        return self.nodes[node].text

    def entry(self, alarm: str) -> tuple[NodeId, ...] | None:
        """The nodes an alarm enters at, its alias followed; None for an alarm nobody routed."""
        return self.alarms.get(self.routed(alarm))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProfile:
    """A site as one SOP sees it: facts, and params with the site's overrides applied.

    `parents` maps an asset to the asset that contains it. `known` is False for a site that the
    sites file does not name: it has the defaults.
    """

    site: Site
    params: Mapping[str, ParamValue]
    parents: Mapping[str, str]
    known: bool

    def within(self, asset: str, container: str) -> bool:
        """Whether `asset` is `container` or lies in it, at any depth."""
        seen: set[str] = set()
        current: str | None = asset
        while current is not None and current not in seen:
            if current == container:
                return True
            seen.add(current)
            current = self.parents.get(current)
        return False
