"""What is no verdict fails the node, and what is one is taken as it is."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from math import inf, nan
from typing import Any

import pytest

from tests.unit.evaluation.judging import OddText, outcome
from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    tool,
)
from triage.evaluation.judge import checked
from triage.model.query import (
    Series,
)
from triage.model.verdict import Clause, Truth, Verdict
from triage.model.verdict_bounds import MAX_CLAUSES, MAX_NAME, MAX_TEXT

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def verdict(**fields: Any) -> Verdict:
    return Verdict(**{"value": Truth.TRUE, "explanation": "so", **fields})


def clause(**fields: Any) -> Clause:
    return Clause(
        **{"name": "n", "observed": 1.0, "op": ">", "threshold": 0.5, "holds": True, **fields}
    )


class OddVerdict(Verdict):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError("odd")


class OddClause(Clause):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError("odd")


class OddTuple(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Any:
        raise ValueError("odd")


class OddNumber(float):
    def __float__(self) -> float:
        raise ValueError("odd")


class OddInt(int):
    def __le__(self, other: object) -> bool:
        raise ValueError("odd")


class OddTruth(Enum):
    TRUE = "true"


def _hollow(kind: type[Any], *fields: Any) -> Any:
    """A named tuple made past its constructor, with too few fields."""
    return tuple.__new__(kind, fields)


BAD_VERDICTS: dict[str, Any] = {
    "none": None,
    "true": True,
    "truth": Truth.TRUE,
    "dict": {"value": Truth.TRUE, "clauses": (), "explanation": "", "subject": ""},
    "text": "true",
    "tuple": (Truth.TRUE, ()),
    "type": Verdict,
    "number": 1.0,
    "subclass": _hollow(OddVerdict),
    "value none": verdict(value=None),
    "value bool": verdict(value=True),
    "value text": verdict(value="true"),
    "value other enum": verdict(value=OddTruth.TRUE),
    "hollow": _hollow(Verdict),
    "hollow clauses": _hollow(Verdict, Truth.TRUE),
    "explanation none": verdict(explanation=None),
    "explanation bytes": verdict(explanation=b"so"),
    "explanation surrogate": verdict(explanation="\ud800"),
    "explanation long": verdict(explanation="x" * (MAX_TEXT + 1)),
    "explanation huge": verdict(explanation="é" * 10**7),
    "explanation odd": verdict(explanation=OddText("so")),
    "subject none": verdict(subject=None),
    "subject number": verdict(subject=7),
    "subject surrogate": verdict(subject="x\udc00"),
    "subject long": verdict(subject="x" * (MAX_NAME + 1)),
    "subject NUL": verdict(subject="x\0"),
    "clauses list": verdict(clauses=[clause()]),
    "clauses none": verdict(clauses=None),
    "clauses clause": verdict(clauses=clause()),
    "clauses odd": verdict(clauses=OddTuple([clause()])),
    "clauses generator": verdict(clauses=(one for one in [clause()])),
    "clauses many": verdict(clauses=(clause(),) * (MAX_CLAUSES + 1)),
    "clause none": verdict(clauses=(None,)),
    "clause tuple": verdict(clauses=(("n", 1.0),)),
    "clause verdict": verdict(clauses=(verdict(),)),
    "clause subclass": verdict(clauses=(_hollow(OddClause),)),
    "clause hollow": verdict(clauses=(_hollow(Clause),)),
    "clause half": verdict(clauses=(_hollow(Clause, "n", 1.0),)),
    "name none": verdict(clauses=(clause(name=None),)),
    "name odd": verdict(clauses=(clause(name=OddText("n")),)),
    "name long": verdict(clauses=(clause(name="n" * (MAX_NAME + 1)),)),
    "op none": verdict(clauses=(clause(op=None),)),
    "unit none": verdict(clauses=(clause(unit=None),)),
    "unit surrogate": verdict(clauses=(clause(unit="\ud800"),)),
    "holds truth": verdict(clauses=(clause(holds=Truth.TRUE),)),
    "holds number": verdict(clauses=(clause(holds=1),)),
    "holds text": verdict(clauses=(clause(holds="yes"),)),
    "observed wide": verdict(clauses=(clause(observed=10**30),)),
    "observed low": verdict(clauses=(clause(observed=-(2**63) - 1),)),
    "observed list": verdict(clauses=(clause(observed=[1]),)),
    "observed complex": verdict(clauses=(clause(observed=1j),)),
    "observed bytes": verdict(clauses=(clause(observed=b"1"),)),
    "observed series": verdict(clauses=(clause(observed=Series({}, (), ())),)),
    "observed moment": verdict(clauses=(clause(observed=AT),)),
    "observed odd": verdict(clauses=(clause(observed=OddNumber(1)),)),
    "observed odd int": verdict(clauses=(clause(observed=OddInt(1)),)),
    "observed surrogate": verdict(clauses=(clause(observed="\ud800"),)),
    "observed long": verdict(clauses=(clause(observed="x" * (MAX_TEXT + 1)),)),
    "threshold wide": verdict(clauses=(clause(threshold=2**63),)),
    "threshold list": verdict(clauses=(clause(threshold=[]),)),
}


@pytest.mark.parametrize("what", BAD_VERDICTS)
@on_virtual_time
async def test_what_is_no_verdict_fails_the_node(what: str) -> None:
    one = tool("a", evaluate=lambda *_: BAD_VERDICTS[what])
    reason, detail = await outcome(one)
    assert reason == "invalid_result"
    assert 10 < len(detail) < 1000


GOOD_VERDICTS: dict[str, Verdict] = {
    "bare": Verdict(value=Truth.NO_DATA),
    "nan": verdict(clauses=(clause(observed=nan, holds=False),)),
    "infinite": verdict(clauses=(clause(observed=-inf, threshold=inf),)),
    "words": verdict(clauses=(clause(observed="down", threshold="up", op="!="),)),
    "truth values": verdict(clauses=(clause(observed=True, threshold=False, op="!="),)),
    "nothing": verdict(clauses=(clause(observed=None, threshold=None, holds=None),)),
    "edges": verdict(clauses=(clause(observed=2**63 - 1, threshold=-(2**63)),)),
    "unicode": verdict(explanation="é😀" * 500, subject="ü"),
    "empty": verdict(explanation="", clauses=(clause(name="", op="", unit=""),)),
    "full": verdict(explanation="x" * MAX_TEXT, clauses=(clause(),) * MAX_CLAUSES),
}


@pytest.mark.parametrize("what", GOOD_VERDICTS)
@on_virtual_time
async def test_what_is_one_is_taken_as_it_is(what: str) -> None:
    good = GOOD_VERDICTS[what]
    assert checked(good) is good
    assert await outcome(tool("a", evaluate=lambda *_: good)) == (good.value.word, "")


@on_virtual_time
async def test_a_coroutine_from_a_tool_that_is_not_dynamic_is_no_verdict() -> None:
    made: list[Any] = []

    async def evaluate(*_: object) -> Verdict:
        return verdict()

    def keeping(*_: object) -> Any:
        made.append(evaluate())
        return made[0]

    assert (await outcome(tool("a", evaluate=keeping)))[0] == "invalid_result"
    made[0].close()
