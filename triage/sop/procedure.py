"""A procedure that passed every check, as frozen values ready to be walked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from triage.model.decision import ActionId, Cost, NodeId, NodeKind
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
    """A higher `rank` outranks a lower one. A yielding action stands only when nothing else does."""

    action: ActionId
    text: str
    rank: int
    cost: Cost
    yields: bool = False
    cancels: frozenset[ActionId] = frozenset()
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sop:
    """`nodes` and `actions` keep the file's order, which breaks ties everywhere."""

    name: str
    version: int
    sha256: str
    file: str
    alarms: Mapping[str, tuple[NodeId, ...]]
    aliases: Mapping[str, str]
    params: Mapping[str, Param]
    nodes: Mapping[NodeId, Node]
    actions: Mapping[ActionId, Action]

    def entry(self, alarm: str) -> tuple[NodeId, ...] | None:
        """The nodes an alarm enters at, its alias followed; None for an alarm nobody routed."""
        return self.alarms.get(self.aliases.get(alarm, alarm))


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
