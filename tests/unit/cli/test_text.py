"""Nothing that a terminal acts on gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.cli.text import printable, printable_lines


@given(st.text())
def test_what_comes_out_is_printable(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text())
def test_printable_text_is_left_alone(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with spaces — and ünïcode", "plain, with spaces — and ünïcode"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half \udc80", "half \\udc80"),
        ("line\u2028separator", "line\\u2028separator"),
    ],
)
def test_spelling(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("one\n\x1btwo") == "one\n\\x1btwo"
