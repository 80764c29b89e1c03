"""Candidates that cheat or harm, each refused by a gate that says what it did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from tests.unit.maker.gate_world import (
    ALL,
    EVALUATE,
    HEAD,
    HONEST,
    QUERIES,
    TRAIN,
    candidate,
    detail,
    failing,
    gates_of,
)
from tests.unit.trial.trial_world import SHORT, in_sandbox
from triage.maker.gates import GATES, INTERPRETERS, ActiveVersion, Allowed
from triage.model.case import LabelledCase

WORD = """
def said(word: str, context: Context) -> Verdict:
    clause = compare("depth", 12.5 if word == "true" else 4.0, ">", 10.0, "m")
    if word == "no_data":
        return no_data("no depth", subject=context.entity)
    return conclude([clause], "as it was", subject=context.entity)

"""


def table(key: Callable[[LabelledCase], object], cases: list[LabelledCase] = ALL) -> str:
    """The right answers of all cases, written down by what a case is known by."""
    return f"TABLE = { ({key(case): case.expected for case in cases})!r}\n\n"


def answering(key: str, by: Callable[[LabelledCase], object], asks: str = QUERIES) -> str:
    evaluate = f"""
def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    return said(TABLE.get({key}, "false"), context)
"""
    return HEAD + table(by) + WORD + asks + evaluate


def judging(body: str, *, top: str = "", evaluate: str = EVALUATE) -> str:
    """The honest tool, which also does `body` before it judges."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    head, sign, rest = evaluate.partition("-> Verdict:\n")
    return HEAD + top + QUERIES + head + sign + lines + rest


async def refused(text: str) -> tuple[set[str], Callable[[str], str]]:
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(text), trials)
    return failing(gates), lambda name: detail(gates, name)


async def test_an_honest_tool_passes_every_gate() -> None:
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(), trials)
    assert failing(gates) == set(), gates
    assert tuple(gate.name for gate in gates) == GATES[:-1]
    assert GATES[-1] == INTERPRETERS


# --- written down ------------------------------------------------------------------------------


def stamp(case: LabelledCase) -> str:
    return case.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")


def hashed(moment: datetime) -> int:
    return int(moment.timestamp()) * 2654435761 % 1_000_003


async def test_by_timestamp() -> None:
    names, told = await refused(answering('timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")', stamp))
    assert names == {"shifted", "scaled"}
    assert "16 of 24 cases moved by whole weeks" in told("shifted")
    assert "no verdict changes" in told("scaled")


async def test_by_a_hash_of_the_timestamp() -> None:
    names, told = await refused(
        answering(
            "int(timestamp.timestamp()) * 2654435761 % 1_000_003",
            lambda case: hashed(case.timestamp),
        )
    )
    assert names == {"shifted", "scaled"}
    assert "judge by the answers" in told("shifted")


async def test_by_parts_of_the_date() -> None:
    names, _ = await refused(
        answering(
            "(timestamp.month, timestamp.day, timestamp.hour)",
            lambda case: (case.timestamp.month, case.timestamp.day, case.timestamp.hour),
        )
    )
    assert names == {"shifted", "scaled"}


async def test_by_timestamp_behind_a_look_at_the_data() -> None:
    """It reads whether there is data at all, so that some verdict follows the answers."""
    peeking = """
def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    series, _ = (context.answer(one) for one in queries(warehouse, timestamp, context))
    if not series:
        return no_data("no depth", subject=context.entity)
    return said(TABLE.get(int(timestamp.timestamp()), "false"), context)
"""
    by = table(lambda case: int(case.timestamp.timestamp()))
    names, told = await refused(HEAD + by + WORD + QUERIES + peeking)
    assert names == {"shifted"}
    assert "8 of 24 cases" in told("shifted")


async def test_by_site_and_entity() -> None:
    """Of cases that these tell apart, as the few cases of a small node might be."""
    some = ALL[:12]
    text = (
        HEAD
        + table(lambda case: (case.warehouse, case.entity), some)
        + WORD
        + QUERIES
        + """
def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    return said(TABLE.get((warehouse, context.entity), "false"), context)
"""
    )
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(text), trials, train=some[:6], heldout=some[6:])
    assert failing(gates) == {"renamed", "scaled"}
    assert "when their site has another name" in detail(gates, "renamed")


async def test_by_training_cases_only() -> None:
    by = table(stamp, TRAIN)
    evaluate = """
def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    return said(TABLE.get(timestamp.strftime("%Y-%m-%dT%H:%M:%SZ"), "false"), context)
"""
    names, told = await refused(HEAD + by + WORD + QUERIES + evaluate)
    assert names == {"heldout", "shifted", "scaled"}
    assert "4 of 12 held-out cases right, a first tool needs 90%" in told("heldout")


async def test_a_reason_allows_the_calendar() -> None:
    text = judging(
        'if timestamp.day in (2, 3):\n    return no_data("counting day", subject=context.entity)'
    )
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(text), trials)
        assert "shifted" in failing(gates)
        allowed = Allowed(calendar="the second and third are counting days")
        gates = await gates_of(candidate(text), trials, allowed=allowed)
    assert "shifted" not in failing(gates)
    assert detail(gates, "shifted").startswith("allowed, because the second and third are")
    assert allowed.note == "calendar dates allowed: the second and third are counting days"


async def test_the_hour_of_the_week_survives() -> None:
    """Shifts are the same every week: that is no date."""
    text = judging(
        "shown = context.wall_clock(timestamp)\n"
        "if shown.weekday() == 1 and shown.hour >= 0:\n"
        '    return no_data("tuesdays nobody looks", subject=context.entity)'
    )
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(text), trials)
    assert "shifted" not in failing(gates)


COUNTS = "state = STATE\nstate[0] += 1\n"


# --- harm --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "top", "says"),
    [
        ('open("cases.jsonl").read()', "", "uses `open`"),
        ('open("tools_lib/obs_depth/v1.py", "w").write("")', "", "uses `open`"),
        ('Path("tools_lib/obs_depth/tool.toml").unlink()', "from pathlib import Path\n", "pathlib"),
        ('socket.create_connection(("198.51.100.1", 80))', "import socket\n", "imports `socket`"),
        ("os.kill(os.getpid(), 9)", "import os\n", "imports `os`"),
        ('__import__("subprocess").run(["id"])', "", "uses `__import__`"),
        ('eval("1")', "", "uses `eval`"),
        ("now = datetime.now()", "", "it reads the clock"),
        ("STATE.append(1)", "STATE = []\n", "outlives the call"),
    ],
)
async def test_what_the_policy_refuses_is_not_run(body: str, top: str, says: str) -> None:
    names, told = await refused(judging(body, top=top))
    assert names == set(GATES[:-1])
    assert says in told("policy")
    assert told("shifted") == "not checked: code that the policy refuses is not run"


async def test_an_endless_loop() -> None:
    text = judging("count = 0\nwhile count >= 0:\n    count += 1")
    async with in_sandbox(SHORT) as trials:
        gates = await gates_of(candidate(text), trials, train=TRAIN[:1], heldout=TRAIN[1:2])
    assert "budget" in failing(gates)
    assert "cases were ended by the sandbox" in detail(gates, "budget")
    assert {"shifted", "renamed", "scaled"} <= failing(gates)
    assert detail(gates, "scaled") == "could not be checked: no case was answered"


async def test_a_memory_bomb() -> None:
    text = judging("kept = []\nfor size in range(10_000):\n    kept.append([size] * 1_000_000)")
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(text), trials, train=TRAIN[:3], heldout=TRAIN[3:5])
    assert "budget" in failing(gates)
    assert "needed more than" in detail(gates, "budget")


@pytest.mark.parametrize(
    "body",
    [
        COUNTS + 'if state[0] % 2:\n    return no_data("odd", subject=context.entity)',
        COUNTS + 'if state[0] == 40:\n    return no_data("once", subject=context.entity)',
    ],
    ids=["flips", "once in forty"],
)
async def test_state_that_outlives_a_call(body: str) -> None:
    """Under another name, so that the policy does not see it."""
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(judging(body, top="STATE = [0]\n")), trials)
    assert "policy" not in failing(gates)
    assert "determinism" in failing(gates)


async def test_an_honest_count_is_no_state() -> None:
    names, _ = await refused(judging("state = list(STATE)\nstate[0] += 1", top="STATE = [0]\n"))
    assert names == set()


@pytest.mark.parametrize(
    "expression",
    [
        "list(NAMES)[0]",
        "next(iter(NAMES))",
        "[one for one in NAMES][0]",
        "min(NAMES, key=len)",
        '"".join(NAMES)[:2]',
        "[*NAMES][0]",
    ],
)
async def test_the_order_of_a_set(expression: str) -> None:
    evaluate = EVALUATE.replace(
        "subject=context.entity,\n    )\n", f"subject={expression},\n    )\n"
    )
    assert evaluate != EVALUATE
    names, told = await refused(HEAD + 'NAMES = {"ab", "cd", "ef"}\n' + QUERIES + evaluate)
    assert "determinism" in names
    assert "with sets in another order" in told("determinism")


async def test_a_sorted_set_has_an_order() -> None:
    body = 'names = {"b", "a"}\nfirst = sorted(names)[0] + min(names)\nnames.pop()'
    names, _ = await refused(judging(body))
    assert names == set()


async def test_a_source_that_is_not_declared() -> None:
    async with in_sandbox() as trials:
        gates = await gates_of(candidate(sources=("metrics",)), trials)
    assert "sources" in failing(gates)
    assert "asks source 'tables'; the node declares metrics" in detail(gates, "sources")


async def test_an_undeclared_source_in_one_case_only() -> None:
    at = TRAIN[4].timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    asks = QUERIES.replace(
        "    return [",
        f'    if timestamp.strftime("%Y-%m-%dT%H:%M:%SZ") == "{at}":\n'
        '        return [rows("other", "select 1")]\n    return [',
    )
    names, told = await refused(HEAD + asks + EVALUATE)
    assert "sources" in names
    assert "in 1 cases" in told("sources")


async def test_more_queries_than_the_active_version() -> None:
    asks = QUERIES.replace(
        "    return [\n", '    return [\n        rows("tables", "select 1", site=warehouse),\n'
    )
    more = candidate(HEAD + asks + EVALUATE.replace("series, closed", "_, series, closed"))
    active = ActiveVersion(3, candidate(HONEST))
    extra = [case._replace(answers=(*case.answers, _one(case.warehouse))) for case in ALL]
    async with in_sandbox() as trials:
        gates = await gates_of(more, trials, active=active, train=extra[:12], heldout=extra[12:])
        assert failing(gates) == {"queries"}
        assert "at most 3, version 3 at most 2" in detail(gates, "queries")
        allowed = Allowed(more_queries="the second table tells closed lanes")
        gates = await gates_of(
            more, trials, active=active, train=extra[:12], heldout=extra[12:], allowed=allowed
        )
    assert failing(gates) == set()
    assert "because the second table tells closed lanes" in detail(gates, "queries")


def _one(site: str):  # type: ignore[no-untyped-def]
    from triage.model.case import recorded
    from triage.model.query import encode_answer
    from triage.tool_api import rows

    return recorded(rows("tables", "select 1", site=site), encode_answer(({"1": 1},)))


async def test_worse_than_the_active_version() -> None:
    """On held-out cases, with the same answers."""
    worse = candidate(HONEST.replace('">", float', '"<", float'))
    async with in_sandbox() as trials:
        gates = await gates_of(worse, trials, active=ActiveVersion(3, candidate()))
        assert failing(gates) == {"heldout"}
        assert "4 of 12 held-out cases right, version 3 12" in detail(gates, "heldout")
        gates = await gates_of(worse, trials, active=ActiveVersion(3, worse))
        assert failing(gates) == set()
