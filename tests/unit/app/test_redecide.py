"""Alerts decided again from recorded answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.evaluation.virtual_time import LoopClock, on_virtual_time
from tests.unit.evaluation.world import (
    World,
    alert,
    by_node,
    library,
    memory,
    node,
    one_node,
    procedure,
    query,
    reasons,
    tool,
    value,
)
from triage.adapters.recorded import Recording
from triage.app.procedure import Loaded
from triage.app.redecide import Redecider
from triage.engine.engine import Decided, EngineOptions, Prefetch
from triage.errors import SourceFailed, SourceFailure, StoreError, ToolFailed, ToolFailure
from triage.library.catalogue import Library
from triage.model.decision import decision_document
from triage.model.query import Answer, encode_answer, query_digest
from triage.sop.procedure import Sop
from triage.sop.sites import no_sites

TWO = procedure(node("a", true=["b"], false=["c"]), node("b"), node("c"))
TOOLS = library(tool("a"), tool("b"), tool("c"))


def redecider(sop: Sop, tools: Library, *, prefetch: Prefetch = "layer") -> Redecider:
    loaded = Loaded(sop=sop, sites=no_sites(sop), library=tools, warnings=())
    return Redecider(loaded, LoopClock(), options=EngineOptions(prefetch=prefetch))


def recording(decided: Decided) -> Recording:
    async def evidence(digest: str) -> bytes | None:
        return decided.evidence.get(digest)

    return Recording(decision_document(decided.decision), evidence)


def bodies(answers: Mapping[str, Answer]) -> dict[str, bytes]:
    return {query_digest(query(name)): encode_answer(given) for name, given in answers.items()}


@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@pytest.mark.parametrize("number", [5.0, 15.0, None])
def test_the_same_procedure_decides_the_same(prefetch: Prefetch, number: float | None) -> None:
    @on_virtual_time
    async def run() -> None:
        answers = {} if number is None else {"a": value(number), "b": value(1), "c": value(99)}
        live = await World(sop=TWO, library=TOOLS, sources=[memory(answers)]).decide()
        again = await redecider(TWO, TOOLS, prefetch=prefetch).decide(alert(), recording(live))
        assert again.decision.decision_sha256 == live.decision.decision_sha256
        assert again.decision.nodes
        assert not again.decision.degraded

    run()


@on_virtual_time
async def test_bodies_may_be_a_mapping() -> None:
    given = bodies({"a": value(15), "b": value(15)})
    decided = await redecider(TWO, TOOLS).decide(alert(), given)
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "true"}
    assert set(decided.evidence.values()) == set(given.values())


@on_virtual_time
async def test_what_was_not_recorded_is_not_guessed() -> None:
    decided = await redecider(TWO, TOOLS).decide(alert(), bodies({"a": value(15)}))
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "unrecorded"}
    assert decided.decision.degraded
    (asked,) = by_node(decided)["b"].asked
    assert asked.query == query("b")


@on_virtual_time
async def test_no_number_of_failures_closes_a_recording() -> None:
    """A breaker would, after five: of the source, or of all that is decided after it."""
    sop = one_node(*(tool(f"n{i}") for i in range(20)))
    many = library(*(tool(f"n{i}") for i in range(20)))
    again = redecider(sop, many)
    nothing = await again.decide(alert(), {})
    assert set(reasons(nothing.decision.nodes).values()) == {"unrecorded"}

    down = SourceFailed(SourceFailure.CONNECT, "gone")
    live = await World(
        sop=sop, library=many, sources=[memory({f"n{i}": down for i in range(20)})]
    ).decide()
    assert "source_breaker_open" not in reasons(live.decision.nodes).values()
    for _ in range(3):
        failed = await again.decide(alert(), recording(live))
        assert failed.decision.decision_sha256 == live.decision.decision_sha256
        assert set(reasons(failed.decision.nodes).values()) == {"source_connect"}

    known = await again.decide(alert(), bodies({f"n{i}": value(15) for i in range(20)}))
    assert set(reasons(known.decision.nodes).values()) == {"true"}


@on_virtual_time
async def test_a_query_that_was_rejected_is_rejected_again() -> None:
    rejected = ToolFailed(ToolFailure.QUERY_REJECTED, "no such column")
    live = await World(sop=TWO, library=TOOLS, sources=[memory({"a": rejected})]).decide()
    again = await redecider(TWO, TOOLS).decide(alert(), recording(live))
    assert reasons(again.decision.nodes) == {"a": "query_rejected"}
    assert again.decision.decision_sha256 == live.decision.decision_sha256


@on_virtual_time
async def test_an_answer_of_any_size_is_taken() -> None:
    large = ({"value": 15.0, "more": "x" * (2 << 20)},)
    decided = await redecider(TWO, TOOLS).decide(
        alert(), bodies({"a": large, "b": value(1), "c": value(1)})
    )
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "false"}


@on_virtual_time
async def test_an_error_of_the_store_is_raised() -> None:
    async def broken(_: str) -> bytes | None:
        raise StoreError("disk gone")

    with pytest.raises(StoreError, match="disk gone"):
        await redecider(TWO, TOOLS).decide(alert(), broken)
