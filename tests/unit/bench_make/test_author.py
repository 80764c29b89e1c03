"""The author answers from its prompts alone, and mends what they show."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from bench.dock import LIBRARY, SOP
from bench.fallback.answering import REFUSAL
from bench.make.author import Author, read_author
from tests.unit.bench_make.prompts import CASE, FAILED_CASE, MAKE, REFLECT, REPAIR, TRACES
from triage.sop.load import load_sop

NODE = "rc_air_pressure_low"
BUGS = {NODE: ["false for no_data#0"]}
TEXT = "Is plant air low at the dock header?"


@cache
def author(ignores_mismatches: bool = False) -> Author:
    return read_author(SOP, LIBRARY, BUGS, ignores_mismatches=ignores_mismatches)


def asked(prompt: str, one: Author | None = None) -> str:
    reply = (one or author()).reply([("system", "# Rules\n\n# Question\n-"), ("user", prompt)])
    assert reply.known
    return reply.text


def code(reply: str) -> str:
    return reply.partition("```python\n")[2].rpartition("\n```")[0]


def made(traces: str = "") -> str:
    return code(asked(MAKE.format(traces=traces, question=TEXT)))


def repaired(candidate: str, cases: str, traces: str = "", one: Author | None = None) -> str:
    prompt = REPAIR.format(traces=traces, question=TEXT, candidate=candidate, cases=cases)
    return code(asked(prompt, one))


def test_without_traces_names_are_guessed_and_quirks_unknown() -> None:
    text = made()
    assert "'dock_air_pressure'" not in text
    assert "psi" not in text
    assert "9999" not in text
    assert "'nothing'" in text


def test_with_traces_names_are_those_of_the_traces() -> None:
    text = made(TRACES)
    assert "selector('dock_air_pressure', site=warehouse)" in text
    assert "== 'psi'" in text
    assert "sentinels=(-1, 9999)" in text
    assert "GRAIN_S = 10" in text
    assert "'nothing'" in text


def test_a_repair_mends_what_a_failing_case_shows() -> None:
    text = repaired(made(TRACES), CASE.replace("air pressure: 6.25", "nothing: 6.25"), TRACES)
    assert "'nothing'" not in text
    tool = (LIBRARY / NODE / "v1.py").read_text()
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(tool))


def test_a_repair_mends_nothing_that_no_failing_case_shows() -> None:
    before = made(TRACES)
    # A verdict stands on figures here: that is no "false for no_data".
    assert repaired(before, CASE, TRACES) == before
    assert repaired(before, FAILED_CASE, TRACES) == before
    assert repaired(before, "", TRACES) == before


def test_a_repair_without_traces_learns_from_the_failing_case_alone() -> None:
    before = made()
    units = CASE.replace("units: {}", 'units: {"air_pressure": "psi"}')
    text = repaired(before, units)
    assert "== 'psi'" in text
    assert "'dock_air_pressure'" not in text
    assert "sentinels" not in text


def test_who_ignores_mismatches_mends_nothing() -> None:
    before = made(TRACES)
    shown = CASE.replace("air pressure: 6.25", "nothing: 6.25")
    assert repaired(before, shown, TRACES, author(True)) == before


def test_code_of_somebody_else_is_begun_anew() -> None:
    assert repaired("x = 1", CASE, TRACES) == made(TRACES)


def test_a_diagnosis_names_what_the_cases_show() -> None:
    prompt = REFLECT.format(question=TEXT, candidate=made(), cases=f"{CASE}\n{FAILED_CASE}")
    said = asked(prompt)
    assert "1 cases are no_data and were false, at the clause air pressure, nothing." in said
    assert "1 cases failed, the first with raised: line 12: TypeError" in said
    assert "Sentence:" not in said


def test_the_text_is_to_blame_where_nothing_is_missing() -> None:
    tool = (LIBRARY / NODE / "v1.py").read_text()
    said = asked(REFLECT.format(question=TEXT, candidate=tool, cases=CASE))
    assert said.splitlines()[-1] == f'Sentence: "{TEXT}"'


@pytest.mark.parametrize("question", ["", "Is the moon full?"])
def test_a_question_that_was_not_learned_is_refused(question: str) -> None:
    reply = author().reply([("user", MAKE.format(traces=TRACES, question=question))])
    assert reply == (REFUSAL, False)


def test_the_same_prompt_has_the_same_reply() -> None:
    other = read_author(SOP, LIBRARY, BUGS)
    prompt = MAKE.format(traces=TRACES, question=TEXT)
    assert asked(prompt) == asked(prompt, other)


def test_the_nodes_name_does_not_matter() -> None:
    """Nor anything else beside question, traces, candidate and failing cases."""
    prompt = MAKE.format(traces=TRACES, question=TEXT)
    assert asked(prompt.replace("about a root cause", "rc_cup_worn")) == asked(prompt)


def test_every_question_has_an_author() -> None:
    for node, one in load_sop(SOP).nodes.items():
        text = code(asked(MAKE.format(traces="", question=one.text)))
        compile(text, node, "exec")


def test_an_agent_looks_before_it_works() -> None:
    opening = f"""\
# Host functions

~~~
async def metrics_aggregate(*, selector: str, start: str, end: str, function: str) -> Envelope
async def metrics_metrics(*, contains: str = ..., limit: int = ...) -> Envelope
async def metrics_samples(*, selector: str, start: str, end: str) -> Envelope
~~~

# Question

{TEXT}
"""
    messages = [("system", "-"), ("user", opening)]
    first = author().reply(messages).text
    assert "await metrics_metrics(limit=200)" in first
    assert "dock_air_pressure" not in first
    messages += [("assistant", first), ("user", "dock_air_temperature ['asset']")]
    assert "dock_air_pressure" not in author().reply(messages).text
    messages[-1] = ("user", "dock_air_pressure ['asset', 'site']")
    assert "await run_tool(queries, evaluate)" in author().reply(messages).text
