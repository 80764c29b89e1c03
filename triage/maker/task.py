"""What a node asks of its tool, as far as the procedure says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from triage.errors import ConfigError
from triage.evaluation.question import followers
from triage.library.check import parents_of
from triage.model.decision import NodeId, NodeKind
from triage.model.question import Asker, Follower
from triage.model.site import Site
from triage.sop.procedure import WORDS, Param, Sop


class SourceKind(StrEnum):
    """What may be asked of a source."""

    SERIES = "series"
    TABLES = "tables"
    TOOLS = "tools"
    ANY = "any"
    """One of somebody's own: only its answers tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`before` are all nodes that lead here, with verdicts None; `after` is what its words lead to.
    `readable` are the nodes whose verdict a tool may read: every way from every alarm passes them
    first. `sites` are those whose facts and units a tool may meet, those of the training cases
    first."""

    node: NodeId
    kind: NodeKind
    text: str
    text_sha256: str
    before: tuple[Asker, ...]
    after: tuple[Follower, ...]
    params: Mapping[str, Param]
    sources: Mapping[str, SourceKind]
    readable: tuple[NodeId, ...]
    sites: tuple[Site, ...] = ()


def task_of(
    sop: Sop,
    node: NodeId,
    *,
    kinds: Mapping[str, SourceKind],
    sites: Sequence[Site] = (),
) -> Task:
    """`kinds` of the sources; one that it does not name is ANY. Raises ConfigError for a node that
    the SOP does not have."""
    found = sop.nodes.get(node)
    if found is None:
        raise ConfigError(f"{sop.file}: the SOP has no node {node!r} — name one of its nodes")
    return Task(
        node=node,
        kind=found.kind,
        text=found.text,
        text_sha256=found.text_sha256,
        before=tuple(
            Asker(parent.node, parent.text, word, None)
            for parent in sop.nodes.values()
            for word in WORDS
            if node in parent.targets[word]
        ),
        after=followers(sop, found),
        params=sop.params,
        sources={source: kinds.get(source, SourceKind.ANY) for source in found.sources},
        readable=parents_of(sop, node),
        sites=tuple({site.name: site for site in sites}.values()),
    )
