"""Which tools are out of order for an alert: the mix that the reference system was tried with."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from triage.errors import ToolFailed, ToolFailure
from triage.library.catalogue import Library
from triage.model.decision import NodeId

SOME_SHARE = 0.75
"""Of the alerts, those for which only a part is disabled; for the others all are."""
PART = 0.25
"""Of the tools, what is disabled then."""


def disabled_nodes(nodes: Iterable[NodeId], seed: int, alert_id: str) -> frozenset[NodeId]:
    """The nodes without a tool, the same again for the same seed and alert."""
    ordered = sorted(nodes)
    chance = Random(f"{seed}/{alert_id}")
    if chance.random() >= SOME_SHARE:
        return frozenset(ordered)
    return frozenset(chance.sample(ordered, round(PART * len(ordered))))


def without(library: Library, nodes: Collection[NodeId]) -> Library:
    """The library as if the tools of `nodes` had never been made."""
    return Library(
        tools={node: tool for node, tool in library.tools.items() if node not in nodes},
        broken={
            **library.broken,
            **{
                node: ToolFailed(ToolFailure.MISSING, "disabled for this measurement")
                for node in nodes
            },
        },
        findings=library.findings,
    )
