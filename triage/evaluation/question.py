"""A node of the procedure as it is put to an agent."""

from __future__ import annotations

from collections.abc import Mapping

from triage.model.decision import ActionId, NodeId, NodeResult
from triage.model.question import Asker, Follower, Parameter, Question
from triage.sop.procedure import WORDS, Node, SiteProfile, Sop


def question(
    sop: Sop, node: Node, profile: SiteProfile, walked: Mapping[NodeId, NodeResult]
) -> Question:
    """`walked` are the results of the attempt so far."""
    return Question(
        sop=sop.name,
        sop_version=sop.version,
        node=node.node,
        kind=node.kind,
        text=node.text,
        text_sha256=node.text_sha256,
        sources=node.sources,
        before=tuple(
            Asker(parent, sop.nodes[parent].text, result.word, result.verdict)
            for parent, result in walked.items()
            if node.node in sop.nodes[parent].targets[result.word]
        ),
        after=followers(sop, node),
        parameters={
            name: Parameter(name=name, value=profile.params[name], unit=param.unit, text=param.text)
            for name, param in sop.params.items()
        },
    )


def followers(sop: Sop, node: Node) -> tuple[Follower, ...]:
    """What each word of the node's answer leads to."""
    return tuple(
        Follower(word, target, _text(sop, target))
        for word in WORDS
        for target in node.targets[word]
    )


def _text(sop: Sop, target: str) -> str:
    found = sop.nodes.get(NodeId(target))
    return found.text if found is not None else sop.actions[ActionId(target)].text
