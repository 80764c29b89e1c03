"""Which nodes and edges of an SOP golden cases walked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from triage.app.golden_compare import Seen
from triage.model.decision import Edge, NodeId
from triage.sop.procedure import WORDS, Sop


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """`nodes` and `edges` were walked, `missed_*` never; together they are the SOP's, each once,
    in the file's order. An alarm's entry is no edge."""

    nodes: tuple[NodeId, ...]
    missed_nodes: tuple[NodeId, ...]
    edges: tuple[Edge, ...]
    missed_edges: tuple[Edge, ...]

    @property
    def node_percent(self) -> float:
        return percent(len(self.nodes), len(self.missed_nodes))

    @property
    def edge_percent(self) -> float:
        return percent(len(self.edges), len(self.missed_edges))


def percent(walked: int, missed: int) -> float:
    """0 to 100, rounded down to a tenth, so that 100 says that nothing was missed."""
    whole = walked + missed
    return walked * 1000 // whole / 10 if whole else 100.0


def coverage(sop: Sop, walks: Iterable[Seen]) -> Coverage:
    """A walk counts whether its case passed or not."""
    nodes: set[str] = set()
    edges: set[Edge] = set()
    for seen in walks:
        nodes.update(seen.results)
        edges.update(seen.edges)
    every = [edge for node in sop.nodes for word in WORDS for edge in sop.steps[node][word].edges]
    return Coverage(
        nodes=tuple(node for node in sop.nodes if node in nodes),
        missed_nodes=tuple(node for node in sop.nodes if node not in nodes),
        edges=tuple(edge for edge in every if edge in edges),
        missed_edges=tuple(edge for edge in every if edge not in edges),
    )
