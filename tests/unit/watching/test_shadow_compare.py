"""Value and subject decide; clauses are told apart; failures of sources are nobody's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.evaluation.virtual_time import START, on_virtual_time
from tests.unit.evaluation.world import query
from tests.unit.watching.shadow_world import decisions, shadow
from triage.engine.engine import Decided
from triage.errors import FallbackFailure, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.canonical import sha256_hex
from triage.model.decision import AnsweredBy, Asked, Failure
from triage.model.query import encode_answer
from triage.model.verdict import Clause, Truth, Verdict
from triage.ports import Compared, Comparison
from triage.trial.model import FAILED, Told, Tried
from triage.watching.shadow_compare import Due, answers_of, compare, same_clauses

HIGH = Clause("depth", 20.0, ">", 10.0, "percent", True)
NAN = Clause("depth", float("nan"), ">", 10.0, "", None)


async def compared(verdict: Verdict, tried: Tried) -> Comparison:
    ((_, decided, _),) = await decisions(1)
    result = decided.decision.nodes[0]._replace(verdict=verdict)
    one = Due(result, verdict, shadow("a"))
    return compare(one, tried, decision=decided.decision, at=START)


TRUE = Verdict(Truth.TRUE, (HIGH,), "deep", "unit-7")


@pytest.mark.parametrize(
    ("tried", "result", "other_clauses"),
    [
        (Tried("true", "unit-7", (HIGH,)), Compared.AGREES, False),
        (Tried("true", "unit-7", (HIGH,), "another explanation"), Compared.AGREES, False),
        (Tried("true", "unit-7", ()), Compared.AGREES, True),
        (Tried("true", "unit-7", (HIGH._replace(threshold=11.0),)), Compared.AGREES, True),
        (Tried("true", "unit-7", (HIGH, HIGH)), Compared.AGREES, True),
        (Tried("true", "unit-8", (HIGH,)), Compared.DIFFERS, False),
        (Tried("true", "", (HIGH,)), Compared.DIFFERS, False),
        (Tried("false", "unit-7", (HIGH,)), Compared.DIFFERS, False),
        (Tried("no_data", "unit-7"), Compared.DIFFERS, False),
    ],
)
def test_value_and_subject_decide(tried: Tried, result: Compared, other_clauses: bool) -> None:
    @on_virtual_time
    async def check() -> None:
        found = await compared(TRUE, tried)
        assert (found.result, found.other_clauses) == (result, other_clauses)

    check()


@pytest.mark.parametrize(
    ("reason", "result"),
    [
        (SourceFailure.UNRECORDED, Compared.UNRECORDED),
        (SourceFailure.TIMEOUT, Compared.UNRECORDED),
        (ToolFailure.RAISED, Compared.FAILED),
        (ToolFailure.UNDECLARED_SOURCE, Compared.FAILED),
        (FallbackFailure.SANDBOX, Compared.FAILED),
        ("of a later version", Compared.FAILED),
    ],
)
def test_a_source_that_did_not_answer_is_not_the_shadows_fault(
    reason: str, result: Compared
) -> None:
    @on_virtual_time
    async def check() -> None:
        found = await compared(TRUE, Tried(FAILED, failure=reason, detail="why"))
        assert found.result is result
        assert found.shadow == {"failure": reason, "detail": "why", "answers": []}

    check()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((), (), True),
        ((NAN,), (NAN._replace(observed=float("nan")),), True),
        ((NAN,), (NAN._replace(observed=None),), False),
        ((HIGH._replace(observed=20),), (HIGH,), True),
        ((HIGH,), (HIGH._replace(holds=None),), False),
        ((HIGH,), (HIGH._replace(unit=""),), False),
        ((HIGH, NAN), (NAN, HIGH), False),
    ],
)
def test_clauses_are_equal_one_by_one(one: Any, other: Any, same: bool) -> None:
    assert same_clauses(one, other) is same


@on_virtual_time
async def test_digests_are_of_what_each_saw_and_told_once() -> None:
    body = encode_answer(({"value": 20},))
    told = (
        Told(query("a"), body),
        Told(query("x"), b"", "unrecorded", "not there"),
        Told(query("y"), b"of another"),
    )
    found = await compared(TRUE, Tried("false", asked=told))
    assert found.active["answers"] == [sha256_hex(body)]
    assert found.shadow["answers"] == [sha256_hex(body), sha256_hex(b"of another")]
    assert found.evidence == (sha256_hex(body), sha256_hex(b"of another"))


# --- the answers of a decision --------------------------------------------------------------------


async def told(decided: Decided, name: str) -> Any:
    try:
        return await answers_of(decided).answer(query(name), timeout_s=1)
    except (SourceFailed, ToolFailed) as failed:
        return failed.reason


@on_virtual_time
async def test_answers_are_those_of_the_whole_decision() -> None:
    ((_, decided, _),) = await decisions(1, lambda _: {"a": 1, "b": 20, "c": 30})
    assert await told(decided, "a") == ({"value": 1},)
    assert await told(decided, "c") == ({"value": 30},)
    assert await told(decided, "z") == "unrecorded"


@on_virtual_time
async def test_a_failure_happens_again_and_a_tools_answer_outweighs_an_agents() -> None:
    ((_, decided, _),) = await decisions(1)
    a, b, c = decided.decision.nodes
    later, at_first = encode_answer(({"value": 99},)), encode_answer(({"value": 5},))
    asked = {
        "failed": Asked(query("x"), failure=Failure(reason="source_timeout", detail="late")),
        "rejected": Asked(query("y"), failure=Failure(reason="query_rejected", detail="no")),
        "purged": Asked(query("w"), answer_sha256="0" * 64),
        "agent": Asked(query("z"), answer_sha256=sha256_hex(later)),
        "tool": Asked(query("z"), answer_sha256=sha256_hex(at_first)),
    }
    nodes = (
        a._replace(answered_by=AnsweredBy.FALLBACK, asked=(asked["agent"],)),
        b._replace(asked=(asked["failed"], asked["rejected"], asked["purged"])),
        c._replace(asked=(asked["tool"],)),
    )
    evidence = {sha256_hex(body): body for body in (later, at_first)}
    around = Decided(decision=replace(decided.decision, nodes=nodes), evidence=evidence)
    assert await told(around, "x") == "source_timeout"
    assert await told(around, "y") == "query_rejected"
    assert await told(around, "w") == "unrecorded"
    assert await told(around, "z") == ({"value": 5},)
