"""Rewritten candidates say what the candidates say, and what they hide."""

from __future__ import annotations

import pytest

from tests.unit.maker.gate_world import HONEST, TRAIN, candidate, settings
from tests.unit.trial.trial_world import in_sandbox
from triage.maker.variants import CHANGED, asked_again, sets_backwards
from triage.trial.model import Tried

STEPS = """
from triage.tool_api import compare, conclude, rows

async def evaluate(warehouse, timestamp, context):
    found = await context.ask(rows("tables", "select 1", site=warehouse))
    return conclude([compare("n", len(found), "==", 1)], "one", subject=context.entity)
"""


async def tried(text: str, *, dynamic: bool = False) -> Tried:
    one = candidate(text)._replace(dynamic=dynamic)
    async with in_sandbox() as trials:
        (said,) = await trials.run(one, [settings(TRAIN[0])])
    return said


@pytest.mark.parametrize(
    "rewritten",
    [lambda: asked_again(HONEST, dynamic=False), lambda: sets_backwards(HONEST)],
    ids=["again", "backwards"],
)
async def test_an_honest_tool_says_the_same(rewritten) -> None:  # type: ignore[no-untyped-def]
    plain, again = await tried(HONEST), await tried(rewritten())
    assert plain.ok
    assert again._replace(elapsed_ms=0, explanation="") == plain._replace(
        elapsed_ms=0, explanation=""
    )


def test_a_name_that_is_used_for_something_else() -> None:
    text = "def queries(w, t, c):\n    return []\n"
    text += "def told(queries):\n    return told(queries=queries)\n"
    assert "def told(queries_once):\n    return told(queries_once=queries_once)" in asked_again(
        text, dynamic=False
    )


async def test_a_tool_that_asks_in_steps() -> None:
    again = await tried(asked_again(STEPS, dynamic=True), dynamic=True)
    plain = await tried(STEPS, dynamic=True)
    assert (again.value, again.asked) == (plain.value, plain.asked)


COUNTING = """
from triage.tool_api import compare, conclude

SEEN = [0]

def queries(warehouse, timestamp, context):
    return []

def evaluate(warehouse, timestamp, context):
    seen = SEEN
    seen[0] += 1
    return conclude([compare("n", seen[0], "<", 3)], "so often")
"""


async def test_state_is_seen_within_one_case() -> None:
    said = await tried(asked_again(COUNTING, dynamic=False))
    assert not said.ok
    assert CHANGED in said.detail


ORDERS = """
from triage.tool_api import compare, conclude

def queries(warehouse, timestamp, context):
    return []

def evaluate(warehouse, timestamp, context):
    names = {{"ab", "cd", "ef"}}
    found = {expression}
    return conclude([compare("n", 1, "==", 1)], "x", subject=str(found))
"""


@pytest.mark.parametrize(
    "expression",
    [
        "list(names)",
        "tuple(names)",
        "[name for name in names]",
        "{name: 1 for name in names}",
        "list(enumerate(names))",
        '"".join(names)',
        "[*names]",
        "next(iter(names))",
        "sorted(names, key=len)",
        "max(names, key=len)",
        "names.pop()",
        "list(frozenset(names))",
        "list(names | {'gh'})",
    ],
)
async def test_the_order_of_a_set_is_turned_round(expression: str) -> None:
    text = ORDERS.format(expression=expression)
    plain, backwards = await tried(text), await tried(sets_backwards(text))
    assert plain.ok, plain.detail
    assert backwards.ok, backwards.detail
    assert plain.subject != backwards.subject


@pytest.mark.parametrize(
    "expression",
    [
        "sorted(names)",
        "min(names)",
        "len(names)",
        "'ab' in names",
        "sorted(names & {'ab', 'cd'})",
        "[1, 2, 3].pop()",
        "{'a': 1}.pop('a')",
        "list({'b': 1, 'a': 2})",
        "[one for one in ('b', 'a')]",
        "sorted(name for name in names)",
        "set(names) == names",
    ],
)
async def test_what_has_an_order_keeps_it(expression: str) -> None:
    text = ORDERS.format(expression=expression)
    plain, backwards = await tried(text), await tried(sets_backwards(text))
    assert plain.ok, plain.detail
    assert (backwards.value, backwards.subject) == (plain.value, plain.subject)


@pytest.mark.parametrize("rewrite", [sets_backwards, lambda text: asked_again(text, dynamic=False)])
def test_what_is_no_python(rewrite) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SyntaxError):
        rewrite("def queries(:")
