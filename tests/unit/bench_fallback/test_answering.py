"""The script knows a question by its words, and by nothing else that a prompt holds."""

from __future__ import annotations

import ast

import pytest

from bench.dock import LIBRARY, SOP
from bench.fallback.answering import NODE_TOOL, REFUSAL, Script, read_script
from triage.sop.load import load_sop

TEXTS = {
    "Is the belt slow?": "def queries(): ...\nx = 'belt'",
    "Is the belt slow? Look twice.": "x = 'twice'",
    "Is the air low?": "x = 'air'",
}
OPENING = """\
# Example

## Question
Is the air low?

# Question
Is the
  belt slow?

Before it, obs_air was true: Is the air low?
If true: rc_twice. Is the belt slow? Look twice.
"""


def user(text: str) -> tuple[str, str]:
    return ("user", text)


@pytest.fixture
def script() -> Script:
    return Script(TEXTS)


def test_the_last_question_of_the_opening_is_answered(script: Script) -> None:
    reply = script.reply([("system", "Write code."), user(OPENING)])
    assert reply.known
    assert "x = 'belt'" in reply.text
    assert "x = 'air'" not in reply.text
    assert "x = 'twice'" not in reply.text
    assert reply.text.count("```") == 2


def test_the_whole_text_counts_where_one_begins_like_another(script: Script) -> None:
    asked = user("# Question\nIs the belt slow? Look twice.")
    assert "x = 'twice'" in script.reply([asked]).text


def test_later_messages_are_no_question(script: Script) -> None:
    messages = [user(OPENING), ("assistant", "-"), user("# Question\nIs the air low?")]
    assert "x = 'belt'" in script.reply(messages).text


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Is the belt slow?",
        "# Question\nIs the moon full?",
        "# Question\nWhat of this: Is the belt slow?",
        "# Question\n",
    ],
)
def test_an_unknown_question_is_refused(script: Script, prompt: str) -> None:
    assert script.reply([user(prompt)]) == (REFUSAL, False)


def test_a_mistake_is_made_once(script: Script) -> None:
    first = script.reply([user(OPENING)], mistaken=True)
    assert "run_tool(" not in first.text
    seen = [user(OPENING), ("assistant", first.text), user("NameError: run_tol")]
    second = script.reply(seen, mistaken=True)
    assert second == script.reply([user(OPENING)])


def test_a_tool_that_may_be_called_is_called(script: Script) -> None:
    reply = script.reply([user(f"# Question\nIs the moon full?\n\nYou may call {NODE_TOOL}().")])
    assert reply.known
    assert f"await {NODE_TOOL}()" in reply.text


def test_every_question_of_the_dock_is_known_with_its_own_tool() -> None:
    sop = load_sop(SOP)
    script = read_script(SOP, LIBRARY)
    for node, asked in sop.nodes.items():
        reply = script.reply([user(f"# Question\n{asked.text}\n")])
        code = reply.text.partition("```python\n")[2].rpartition("\n```")[0]
        tool = (LIBRARY / node / "v1.py").read_text()
        assert code == f"{tool.rstrip()}\n\n\nawait run_tool(queries, evaluate)", node
        compile(code, node, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
