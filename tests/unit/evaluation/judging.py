"""What becomes of one tool's node, for the tests of what tools may do."""

from __future__ import annotations

from tests.unit.evaluation.world import (
    World,
    by_node,
    library,
    memory,
    one_node,
    reasons,
    value,
)
from triage.library.catalogue import Tool
from triage.model.canonical import canonical_json
from triage.model.decision import decision_document


async def outcome(one: Tool) -> tuple[str, str]:
    """The node's reason (or verdict) and the failure's detail; the decision can be stored."""
    world = World(sop=one_node(one), library=library(one), sources=[memory({"a": value(20)})])
    decided = await world.decide()
    canonical_json(decision_document(decided.decision))
    result = by_node(decided)["a"]
    return reasons([result])["a"], result.failure.detail if result.failure else ""


class OddText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ValueError("odd")

    def __hash__(self) -> int:
        raise ValueError("odd")
