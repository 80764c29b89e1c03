"""A reply of the model is a candidate that can be tried, or says why it is none."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fallback.agent_world import block
from tests.unit.maker.maker_world import NODE, PROMPTS, TEXT, source, task
from triage.maker.reply import (
    MAX_CODE,
    MAX_DIAGNOSIS,
    Taken,
    read_candidate,
    read_diagnosis,
    sentence_with,
    sentences,
)
from triage.model.canonical import sha256_hex
from triage.ports import Completion

DYNAMIC = """from triage.tool_api import compare, conclude, samples, selector


async def evaluate(warehouse, timestamp, context):
    found = await context.ask(samples("metrics", selector("level"), timestamp, 60))
    return conclude([compare("n", len(found), "==", 1)], "one")
"""


def read(code: str) -> Taken:
    return taken(block(code))


def taken(text: str, finish: str = "stop") -> Taken:
    return read_candidate(Completion(text, finish, 10, 10), task(), PROMPTS)


def reading(expression: str) -> str:
    """A tool whose verdict hangs on an expression."""
    return source(5).replace("float(context.entity)", f"float(bool({expression}))")


# --- no candidate -------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "refused"])
def test_what_was_cut_off_or_withheld_is_none(finish: str) -> None:
    found = taken(f"So:\n```python\n{source(5)}", finish)
    assert (found.code, found.candidate, found.sha256) == ("", None, "")
    assert found.refused


def test_a_whole_file_without_a_fence_is_none() -> None:
    """It may be the first half of one."""
    found = taken(source(5))
    assert found.candidate is None
    assert "no code" in found.refused


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def queries(:\n", "line 1: is not Python"),
        ("x = '\0'", "NUL"),
        (f"x = {'(' * 5000}1{')' * 5000}", "is not Python"),
        (f"x = {'-' * 10_000}1", "nested too deeply"),
        ("x = 1", "has no function `queries`"),
        (source(5).replace("def evaluate", "async def evaluate"), "`queries` in a dynamic tool"),
        (source(5).replace("from datetime", "from socket"), "imports from `socket`"),
        (source(5) + "\nprint(1)\n", "runs when the file loads"),
        (source(5).replace("float(context.entity)", "sum([1.0])"), "uses `sum`"),
        (source(5).replace("timestamp, 300", "timestamp.now(), 300"), "reads the clock"),
    ],
)
def test_what_the_policy_refuses_is_none_and_says_why(code: str, why: str) -> None:
    found = read(code)
    assert found.candidate is None
    assert why in found.refused
    assert found.sha256 == sha256_hex(found.code.encode())


def test_a_file_that_is_too_large_is_none_and_is_not_shown_again() -> None:
    found = read(f"X = '{'x' * MAX_CODE}'\n")
    assert (found.code, found.candidate) == ("", None)
    assert str(MAX_CODE) in found.refused


def test_many_faults_are_told_once_each_and_not_all() -> None:
    found = read("\n".join(f"import bad{number}" for number in range(200)))
    assert found.refused.count("imports `bad") == 6
    assert found.refused.endswith("- and 194 more")


@pytest.mark.parametrize(
    "expression",
    [
        "context.parents",
        "context.parents[context.entity]",
        "context.parents.get(context.entity)",
        "context.parents.values()",
        "[one for one in context.parents]",
        "context.parents == {'obs_first': 1}",
        "getattr(context, 'parents')['obs_first']",
        "context.parents.get('obs_first') or context.parents",
    ],
)
def test_a_parent_that_cannot_be_seen_in_the_source_is_refused(expression: str) -> None:
    found = read(reading(expression))
    assert found.candidate is None
    assert 'context.parents.get("node")' in found.refused
    assert "line 15" in found.refused


def test_parents_under_another_name_are_refused() -> None:
    alias = source(5).replace(
        "    return conclude(", "    known = context.parents\n    return conclude("
    )
    assert read(alias).candidate is None


@pytest.mark.parametrize("name", ["obs_aside", "obs_after", "obs_nowhere", NODE])
def test_a_parent_that_may_not_have_answered_is_refused(name: str) -> None:
    found = read(reading(f"context.parents.get('{name}')"))
    assert found.candidate is None
    assert name in found.refused
    assert "It may read obs_first." in found.refused


@given(st.text(max_size=400))
def test_no_reply_raises(text: str) -> None:
    for reply in (text, block(text), block(source(5) + text)):
        found = taken(reply)
        assert (found.candidate is None) == bool(found.refused)


# --- a candidate --------------------------------------------------------------------------------


def test_a_whole_file_is_a_candidate() -> None:
    found = read(source(5))
    assert found.refused == ""
    assert found.candidate is not None
    assert found.candidate.text == found.code == source(5)
    assert found.candidate.sources == ("metrics",)
    assert (found.candidate.dynamic, found.candidate.reads_parents) == (False, ())


def test_an_async_evaluate_is_dynamic() -> None:
    found = read(DYNAMIC)
    assert found.candidate is not None, found.refused
    assert found.candidate.dynamic


@pytest.mark.parametrize(
    "expression",
    [
        "context.parents['obs_first']",
        "context.parents.get('obs_first')",
        "context.parents.get('obs_first', None)",
        "'obs_first' in context.parents",
        "'obs_first' not in context.parents or context.parents['obs_first']",
    ],
)
def test_parents_that_are_named_are_known(expression: str) -> None:
    found = read(reading(expression))
    assert found.candidate is not None, found.refused
    assert found.candidate.reads_parents == ("obs_first",)


def test_an_odd_escape_is_no_warning_of_ours() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(source(5).replace('"so"', '"\\d"')).candidate is not None


def test_a_warning_of_the_policy_refuses_nothing() -> None:
    loop = source(5) + "\n\ndef spin(n):\n    while True:\n        n += 1\n"
    assert read(loop).candidate is not None


# --- a diagnosis --------------------------------------------------------------------------------


def diagnosis(text: str) -> tuple[str, str]:
    found = read_diagnosis(Completion(text, "stop", 1, 1), TEXT)
    return found.text, found.blamed


@pytest.mark.parametrize(
    "line",
    [
        'Sentence: "Count what came in over the night as well."',
        "Sentence: “Count what came in over the night as well”",
        '**Sentence:** "Count what   came in over the night as well."',
        '- sentence: "what came in over the night"',
    ],
)
def test_a_quote_is_of_its_whole_sentence(line: str) -> None:
    _, blamed = diagnosis(f"The code does what it says.\n{line}\n")
    assert blamed == "Count what came in over the night as well."


@pytest.mark.parametrize(
    "line",
    [
        "",
        'Sentence: "Count what came in during the night as well."',
        'Sentence: "as well"',
        'Sentence: ""',
        "The sentence says: Count what came in over the night as well.",
    ],
)
def test_what_is_no_quote_blames_nothing(line: str) -> None:
    assert diagnosis(f"It is the unit.\n{line}")[1] == ""


def test_the_first_quote_that_is_one_counts() -> None:
    text = 'Sentence: "never said"\nSentence: "the tank hold more than five"'
    assert diagnosis(text)[1] == "Does the tank hold more than five?"


def test_a_diagnosis_is_without_its_thinking_and_bounded() -> None:
    assert diagnosis("<think>hm</think>\nIt is the unit.")[0] == "It is the unit."
    assert diagnosis("<think>hm")[0] == ""
    assert len(diagnosis("x" * 10_000)[0]) == MAX_DIAGNOSIS


def test_sentences_are_whole_lines_of_the_text() -> None:
    assert sentences("One is.\n Two,\nthough? About 3.5 m!  Then") == [
        "One is.",
        "Two, though?",
        "About 3.5 m!",
        "Then",
    ]
    assert sentences("") == []
    assert sentence_with("Is it so? It is so now.", "it is so") == ""
