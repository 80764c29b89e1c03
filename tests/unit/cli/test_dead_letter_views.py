"""Dead letters as people see them, compared as text."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.store_world import START
from tests.unit.cli.test_tree import HOSTILE
from triage.app.dead_letters import payload_of, whole_document
from triage.cli.dead_letter_views import (
    payload_text,
    print_dead_letter,
    print_dead_letters,
    redriven_line,
)
from triage.ports import DeadLetter

ALERT = "0123456789abcdef0123456789abcdef"


def document(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "dead_letter_id": ALERT,
        "stream": "orders",
        "format": "native",
        "payload": b'{"a":[1,"\\u202e"]}',
        "headers": {"trace": "4711"},
        "reason": "undecodable",
        "detail": "alarm: no alarm name\nsecond line",
        "attempts": 1,
        "at": START,
    }
    made: dict[str, Any] = orjson.loads(
        orjson.dumps(whole_document(DeadLetter(**{**given, **more})))
    )
    return made


OF_AN_ALERT = {
    "alert_id": ALERT,
    "alarm": "DiskFull",
    "site": "north",
    "severity": "critical",
    "stream": "",
    "format": "",
    "headers": {},
    "attempts": 5,
}

MESSAGE = """\
dead letter  0123456789abcdef0123456789abcdef
reason       undecodable
detail       alarm: no alarm name
             second line
given up     2026-03-01T12:00:00+00:00, after 1 delivery
stream       orders
format       native
header       trace: 4711

payload, 18 bytes
  {
    "a": [
      1,
      "\\u202e"
    ]
  }
"""


def shown(capsys: pytest.CaptureFixture[str], letter: dict[str, Any]) -> str:
    print_dead_letter(letter, payload_of(letter))
    return "\n".join(line.rstrip() for line in capsys.readouterr().out.split("\n"))


def test_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, document()) == MESSAGE


def test_an_alert(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, document(**OF_AN_ALERT))
    assert "given up     2026-03-01T12:00:00+00:00, after 5 attempts\n" in text
    assert f"alert        {ALERT}\nalarm        DiskFull\nsite         north\n" in text
    assert "stream" not in text


def test_a_payload_that_is_long_is_cut_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, document(payload=b"x" * 70_000))
    assert "payload, 70000 bytes, the first 65536 characters: --payload writes all\n" in text
    assert text.count("x") < 65_600


@pytest.mark.parametrize("columns", ["60", "400"])
def test_lists_hold_whole_ids_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_dead_letters([document(), document(**OF_AN_ALERT)])
    text = capsys.readouterr().out
    assert text.count(ALERT) == 2
    assert text.count("undecodable") == 2
    assert "stream orders (native)" in text
    assert "DiskFull at north" in text
    assert "second line" not in text


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_dead_letters([])
    assert capsys.readouterr().err == "no dead letters\n"


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_no_payload_reaches_a_terminal_as_it_is(payload: bytes) -> None:
    assert all(line.isprintable() for line in payload_text(payload).split("\n"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_is_laid_out_and_hostile_text_is_not_acted_on(value: object) -> None:
    text = payload_text(json.dumps(value).encode())
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_bomb_of_brackets_is_shown_as_it_came() -> None:
    assert payload_text(b"[" * 100_000) == "[" * 100_000


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (
            {"status": "redriven", "alert_ids": ["a", "b"], "rejected": [], "delayed": ""},
            "x: pending again: a, b",
        ),
        (
            {"status": "redriven", "alert_ids": [], "rejected": [], "delayed": ""},
            "x: recorded, nothing to decide",
        ),
        (
            {"status": "redriven", "alert_ids": ["a"], "rejected": [], "delayed": "no route"},
            "x: pending again: a (the sweeper will publish it: no route)",
        ),
        (
            {
                "status": "redriven",
                "alert_ids": ["a"],
                "rejected": [{"field": "[1].alarm", "problem": f"is {HOSTILE}"}] * 2,
                "delayed": "",
            },
            "x: pending again: a; it stays for [1].alarm: is ",
        ),
        ({"status": "refused", "field": "", "problem": "is no JSON"}, "x: refused: is no JSON"),
        ({"status": "refused", "field": "a", "problem": "is bad"}, "x: refused: a: is bad"),
        ({"status": "absent"}, "x: no such dead letter: it never was here, or"),
    ],
)
def test_what_became_of_one(result: dict[str, Any], line: str) -> None:
    text = redriven_line({"dead_letter_id": "x", **result}).plain
    assert text.startswith(line)
    assert text.isprintable()
