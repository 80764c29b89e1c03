"""What a fallback did, in the tree of its decision: a line a turn, or all of it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.unit.cli.documents import DIGEST, eventful
from tests.unit.cli.test_tree import HOSTILE, poisoned
from triage.cli.tree import decision_tree
from triage.model.decision import AnsweredBy, Failure, decision_document
from triage.model.trace import VERDICT, CallRecord, Trace, Turn

TRACE = Trace(
    model="m7",
    prompt_version="3",
    prompt_sha256=DIGEST,
    reason="tool_raised",
    ended=VERDICT,
    turns=(
        Turn(
            thought="First files.\nThen what writes.",
            code="a = await metrics_samples(\n    selector='x')\nprint(a)\n",
            calls=(
                CallRecord("metrics_samples", '{"selector":"x"}', True, "", 312, DIGEST, 1.25),
                CallRecord("metrics_samples", '{"selector":"y"}', True, "", 2, "cd" * 32, 1.0),
                CallRecord("tables_query", '{"sql":"s"}', False, "no such table: s"),
            ),
            observation="KeyError:\n'data'",
            prompt_tokens=1200,
            completion_tokens=80,
            model_ms=640.0,
            sandbox_ms=12.34,
        ),
        Turn(
            thought="",
            code="await submit('true')",
            prompt_tokens=1500,
            completion_tokens=20,
            model_ms=300.0,
        ),
    ),
    elapsed_ms=980.5,
)

BRIEF = """\
│   ├── rc_logs: true on /var  (root cause, answered by fallback, 812.0 ms)
│   │   ├── grew: true > 90 ✓
│   │   ├── the tool failed: tool_raised: ValueError: no number
│   │   ├── fallback: verdict after 2 turns  (2800 tokens, 980.5 ms, m7, prompt 3 abababababab)
│   │   │   ├── 1: First files. Then what writes.; 3 lines of code; CALLS (1280 tokens, 652.3 ms)
│   │   │   └── 2: 1 line of code  (1520 tokens, 300.0 ms)
│   │   └── true → clean_up
""".replace("CALLS", "metrics_samples 2 times ✓; tables_query ✗ → KeyError: 'data' ")

WHOLE = """\
│   │   ├── fallback: verdict after 2 turns  (2800 tokens, 980.5 ms, m7, prompt 3 abababababab)
│   │   │   ├── turn 1  (1200 + 80 tokens, model 640.0 ms, sandbox 12.3 ms)
│   │   │   │   ├── thought
│   │   │   │   │   └── First files.
│   │   │   │   │       Then what writes.
│   │   │   │   ├── code
│   │   │   │   │   └── a = await metrics_samples(
│   │   │   │   │           selector='x')
│   │   │   │   │       print(a)
│   │   │   │   ├── metrics_samples({"selector":"x"}) ✓  (312 bytes, answer abababababab, 1.2 ms)
│   │   │   │   ├── metrics_samples({"selector":"y"}) ✓  (2 bytes, answer cdcdcdcdcdcd, 1.0 ms)
│   │   │   │   ├── tables_query({"sql":"s"}) ✗ no such table: s
│   │   │   │   └── observation
│   │   │   │       └── KeyError:
│   │   │   │           'data'
"""


def document(trace: Trace = TRACE) -> dict[str, Any]:
    """`eventful`, whose one node that the fallback answered has that trace."""
    decision = eventful()
    nodes = tuple(
        node._replace(trace=trace) if node.answered_by is AnsweredBy.FALLBACK else node
        for node in decision.nodes
    )
    made: dict[str, Any] = orjson.loads(
        orjson.dumps(decision_document(replace(decision, nodes=nodes)))
    )
    return made


def rendered(shown: dict[str, Any], *, whole: bool = False, width: int = 1000) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, markup=True, force_terminal=False)
    console.print(decision_tree(shown, whole_traces=whole))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def test_a_turn_is_a_line_by_default() -> None:
    assert BRIEF in rendered(document())


def test_a_long_thought_is_cut_on_its_line_and_whole_where_asked() -> None:
    long = document(TRACE._replace(turns=(Turn("word " * 50, "x"),)))
    (line,) = [one for one in rendered(long).split("\n") if "1: word" in one]
    assert "word wo…; 1 line of code" in line
    assert len(line) < 120
    assert "word " * 50 in rendered(long, whole=True).replace("\n", " ") + " "


def test_the_whole_of_it_where_asked() -> None:
    text = rendered(document(), whole=True)
    assert WHOLE in text
    assert "│   │   │   └── turn 2  (1500 + 20 tokens, model 300.0 ms, sandbox 0.0 ms)" in text
    assert text.count("thought") == 1  # the second turn has none


def test_an_attempt_that_gave_up_says_why() -> None:
    decision = eventful()
    nodes = tuple(
        node._replace(
            verdict=None,
            failure=Failure(reason="fallback_turns", detail="6 turns"),
            answered_by=AnsweredBy.NOBODY,
            trace=TRACE._replace(ended="fallback_turns", turns=TRACE.turns[:1]),
        )
        if node.answered_by is AnsweredBy.FALLBACK
        else node
        for node in decision.nodes
    )
    text = rendered(decision_document(replace(decision, nodes=nodes)))
    assert "the tool failed: tool_raised: ValueError: no number" in text
    assert "failed: fallback_turns: 6 turns" in text
    assert "fallback: fallback_turns after 1 turn  (1280 tokens" in text


def test_an_attempt_without_a_turn_and_a_turn_without_code() -> None:
    text = rendered(document(TRACE._replace(turns=())))
    assert "fallback: verdict after 0 turns  (0 tokens" in text
    text = rendered(document(TRACE._replace(turns=(Turn(thought="Sorry.", code=""),))))
    assert "└── 1: Sorry.; no code  (0 tokens, 0.0 ms)" in text


def test_many_functions_are_counted_rather_than_named() -> None:
    calls = tuple(CallRecord(f"f{number}", "{}", True) for number in range(9))
    text = rendered(document(TRACE._replace(turns=(Turn("", "x", calls),))))
    assert "f0 ✓; f1 ✓; f2 ✓; f3 ✓; f4 ✓; f5 ✓; 3 more" in text


def test_a_decision_without_a_trace_is_shown_as_ever() -> None:
    plain = decision_document(eventful())
    assert rendered(plain) == rendered(plain, whole=True)
    assert "fallback:" not in rendered(plain)


@pytest.mark.parametrize("whole", [False, True])
def test_hostile_text_reaches_no_terminal(whole: bool) -> None:
    text = rendered(poisoned(document(), HOSTILE), whole=whole)
    assert set(text) & set("\x1b\x07\r\u202e") == set()
    assert "\\x1b]0;owned\\x07[bold red]x[/]" in text.split("answered by fallback")[1]


@pytest.mark.parametrize("whole", [False, True])
@given(hostile=st.text(max_size=40))
def test_any_text_is_shown_without_a_control_character(whole: bool, hostile: str) -> None:
    text = rendered(poisoned(document(), hostile), whole=whole)
    assert all(line.isprintable() for line in text.split("\n"))
