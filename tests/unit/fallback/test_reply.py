"""Every kind of reply is either one block of code or a reason why it is none."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.fallback.reply import (
    MAX_BARE_CHARS,
    MAX_REPLY_CHARS,
    NoCode,
    Reply,
    read_reply,
    structured,
)
from triage.ports import Completion

CALLABLES = frozenset({"metrics_samples", "submit"})


def read(text: str, finish: str = "stop", *, code_bytes: int = 1000) -> Reply:
    completion = Completion(text, finish, 10, 10)
    return read_reply(completion, callables=CALLABLES, code_bytes=code_bytes)


@pytest.mark.parametrize("tag", ["python", "Python", "py", "python3", "", " python", "{.python}"])
@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_one_block_is_the_code_and_the_rest_is_the_thought(tag: str, fence: str) -> None:
    reply = read(f"First this.\n{fence}{tag}\nx = 1\ny = 2\n{fence}\nThen that.")
    assert reply == Reply("First this.\nThen that.", "x = 1\ny = 2")


def test_a_block_may_hold_fences_of_another_kind() -> None:
    assert read("~~~\nx = '''\n```\n'''\n~~~").code == "x = '''\n```\n'''"
    assert read("````\nx = '''\n```\n'''\n````").code == "x = '''\n```\n'''"


def test_a_block_in_a_list_is_taken_out_of_its_indentation() -> None:
    assert read("1. so:\n   ```python\n   if x:\n       y()\n   ```").code == "if x:\n    y()"


@pytest.mark.parametrize("tag", ["python", "py", "Python3"])
def test_a_block_that_begins_in_the_line_of_the_thought_is_a_block(tag: str) -> None:
    assert read(f"It is full. ```{tag}\nx = 1\n```") == Reply("It is full.", "x = 1")
    assert read(f"It is full. ```{tag}\nx = 1").code == "x = 1"


@pytest.mark.parametrize("text", ["so ```\nx = 1", "so ```sql\nx = 1", "so `x` ```python x = 1"])
def test_what_may_be_something_else_does_not_begin_a_block(text: str) -> None:
    assert read(text).problem is NoCode.PROSE


def test_line_ends_of_windows_are_line_ends() -> None:
    assert read("so\r\n```python\r\nx = 1\r\n```\r\n").code == "x = 1"


def test_an_unclosed_block_is_the_code_when_the_model_had_finished() -> None:
    assert read("so\n```python\nx = 1").code == "x = 1"


def test_an_unclosed_block_that_was_cut_off_is_not_run() -> None:
    assert read("so\n```python\nx = 1", "length").problem is NoCode.TRUNCATED


def test_a_closed_block_is_run_although_what_follows_was_cut_off() -> None:
    assert read("so\n```python\nx = 1\n```\nand th", "length").code == "x = 1"


@pytest.mark.parametrize(
    "text", ["await submit(verdict='true')", "r = 1\nsubmit()\n", "\nsubmit()"]
)
def test_bare_code_that_calls_a_function_is_code(text: str) -> None:
    assert read(text).code == text.strip("\n")


@pytest.mark.parametrize(
    "text",
    [
        "I would call submit() if I could.",
        "submit",
        "x = 1",
        "print('metrics_samples')",
        "submit(",
        "context.submit()",
        "\x00submit()",
    ],
)
def test_what_is_not_surely_code_is_prose(text: str) -> None:
    assert read(text).problem is NoCode.PROSE


def test_bare_code_that_was_cut_off_is_not_run() -> None:
    assert read("submit()", "length").problem is NoCode.TRUNCATED


def test_bare_code_is_parsed_only_when_it_is_short() -> None:
    assert read("submit()\n" + "#" * MAX_BARE_CHARS, code_bytes=10**6).problem is NoCode.PROSE
    nested = "submit(" + "-" * (MAX_BARE_CHARS - 10) + "1)"
    assert read(nested, code_bytes=10**6).problem is NoCode.PROSE


@pytest.mark.parametrize("text", ["", "  \n\t", "```python\n```", "```\n\n```\n"])
def test_a_reply_with_nothing_in_it_is_empty(text: str) -> None:
    assert read(text).problem is NoCode.EMPTY


def test_a_reply_cut_off_before_it_began_is_truncated() -> None:
    assert read("", "length").problem is NoCode.TRUNCATED
    assert read("Let me think about", "length").problem is NoCode.TRUNCATED


def test_of_two_blocks_neither_is_chosen() -> None:
    reply = read("```python\nx = 1\n```\nor\n```python\nx = 2\n```")
    assert reply.problem is NoCode.BLOCKS
    assert reply.values == {"count": "2"}
    assert reply.code == ""


def test_a_blank_block_beside_another_does_not_count() -> None:
    assert read("```\n```\n```python\nx = 1\n```").code == "x = 1"


@pytest.mark.parametrize("tag", ["js", "sql", "bash", "json"])
def test_another_language_is_named(tag: str) -> None:
    reply = read(f"```{tag}\nselect 1\n```")
    assert reply.problem is NoCode.LANGUAGE
    assert reply.values == {"language": tag}


def test_a_refusal_in_words_is_prose() -> None:
    assert read("I'm sorry, but I can't help with that.").problem is NoCode.PROSE


def test_a_reply_that_the_endpoint_withheld_is_refused_whatever_it_holds() -> None:
    assert read("```python\nx = 1\n```", "refused").problem is NoCode.REFUSED


def test_a_reply_of_ten_megabytes_is_bounded() -> None:
    reply = read("```python\n" + "x = 1\n" * (10 * 1024 * 1024 // 6) + "```")
    assert reply.problem is NoCode.TOO_LONG
    assert len(reply.thought) <= MAX_REPLY_CHARS


def test_code_over_its_limit_is_not_run() -> None:
    reply = read("so\n```python\n" + "é" * 501 + "\n```")
    assert reply.problem is NoCode.CODE_TOO_LONG
    assert reply.values == {"size": "1002", "limit": "1000"}
    assert (reply.thought, reply.code) == ("so", "")


def test_drafts_of_a_reasoning_model_are_no_blocks() -> None:
    reply = read("<think>maybe\n```python\nx = 0\n```\n</think>\nSo:\n```python\nx = 1\n```")
    assert reply == Reply("maybe\n```python\nx = 0\n```\nSo:", "x = 1")
    assert read("<think>maybe\n```python\nx = 0\n```").problem is NoCode.EMPTY


def test_a_lone_surrogate_is_replaced() -> None:
    assert read("a\ud800\n```python\nx = '\udc00'\n```") == Reply("a?", "x = '?'")


@given(
    st.lists(
        st.sampled_from(
            [
                "```",
                "```python",
                "~~~",
                "```js",
                "x = 1",
                "submit()",
                "so",
                "",
                "<think>",
                "\r",
                "'",
            ]
        )
        | st.text(max_size=20)
    ),
    st.sampled_from(["stop", "length", "refused", "else"]),
)
def test_a_reply_is_code_or_has_a_problem(lines: list[str], finish: str) -> None:
    reply = read("\n".join(lines), finish, code_bytes=40)
    assert bool(reply.code.strip()) is (reply.problem is None)
    assert len(reply.code.encode()) <= 40


def test_a_reply_of_the_schema_is_thought_and_code() -> None:
    assert read(structured("So.", "x = 1\ny = 2")) == Reply("So.", "x = 1\ny = 2")


def test_a_program_that_is_fenced_within_the_schema_is_taken_out() -> None:
    assert read(structured("So.", "```python\nx = 1\n```")) == Reply("So.", "x = 1")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"thought": "", "code": " "}, NoCode.EMPTY),
        ({"thought": "", "code": "```sql\nSELECT 1\n```"}, NoCode.LANGUAGE),
        ({"thought": "", "code": "```\nx = 1\n```\n```\ny = 1\n```"}, NoCode.BLOCKS),
        ({"code": "x" * 2000}, NoCode.CODE_TOO_LONG),
        ({"thought": 1, "code": "x = 1"}, NoCode.PROSE),
        ({"code": ["x = 1"]}, NoCode.PROSE),
        ({"thought": "nothing else"}, NoCode.PROSE),
    ],
)
def test_a_document_that_holds_no_program_is_told_so(document: object, problem: NoCode) -> None:
    assert read(orjson.dumps(document).decode()).problem is problem


def test_a_document_that_was_cut_off_is_not_run() -> None:
    assert read(structured("So.", "x = 1")[:-4], "length").problem is NoCode.TRUNCATED


@given(st.text(), st.text())
def test_any_thought_and_code_end_well_within_the_schema(thought: str, code: str) -> None:
    reply = read_reply(
        Completion(structured(thought, code), "stop", 1, 1), callables=CALLABLES, code_bytes=10**6
    )
    assert (reply.problem is None) == bool(reply.code)
