"""Gaps as people see them, compared as text."""

from __future__ import annotations

import io
import sys
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.contract.gap_world import gap
from tests.contract.store_world import START
from tests.unit.cli.test_tree import HOSTILE
from triage.app.gaps import group_document, not_open
from triage.cli.gap_views import gap_view, print_gaps
from triage.model.alert import AlertId
from triage.ports import GapGroup

ALERT = AlertId("0123456789abcdef0123456789abcdef")
CLOSED_AT = START + timedelta(hours=2)


def group(*, closed: bool = False, note: str = "", count: int = 3) -> GapGroup:
    latest = gap(ALERT, at=START, missing="ValueError: no number")
    return GapGroup(
        gap_id="0123456789ab",
        node=latest.node,
        reason=latest.reason,
        tool_version=3,
        tool_sha256=latest.tool_sha256,
        count=count,
        first_at=START - timedelta(days=1),
        last_at=START,
        closed_at=CLOSED_AT if closed else None,
        closed_by="ann" if closed else "",
        note=note,
        latest=latest,
    )


def document(cases: int = 1, **how: Any) -> dict[str, Any]:
    one = group(**how)
    made: dict[str, Any] = orjson.loads(orjson.dumps(group_document(one, [one.latest] * cases)))
    return made


def rendered(shown: dict[str, Any]) -> str:
    file = io.StringIO()
    Console(file=file, width=400, markup=True, force_terminal=False).print(gap_view(shown))
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


OPEN = """\
gap      0123456789ab
node     rc_logs
reason   tool_raised
tool     v3 abababababab
cases    3, from 2026-02-28T12:00:00+00:00 to 2026-03-01T12:00:00+00:00
closed   no
needed   Is rc_logs so?
missing  ValueError: no number

cases, the newest 1 of 3
  2026-03-01T12:00:00+00:00  alert 0123456789abcdef0123456789abcdef
    missing: ValueError: no number
    impact: the node failed and the decision escalates
    tried: fallback: none is configured
    answers: d1, d2
"""


def test_an_open_one() -> None:
    assert rendered(document()) == OPEN


def test_a_closed_one_says_who_and_why_and_what_was_before() -> None:
    text = rendered(document(closed=True, note="mended\nclosed then by bob: made", count=1))
    assert "closed   2026-03-01T14:00:00+00:00 by ann\n" in text
    assert "note     mended\n         closed then by bob: made\n" in text
    assert "\ncases\n" in text


def test_a_node_without_any_tool() -> None:
    shown = {**document(), "tool_version": 0, "tool_sha256": ""}
    assert "tool     none\n" in rendered(shown)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("columns", ["60", "400"])
def test_lists_hold_whole_ids_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str, closed: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_gaps([document(closed=closed, note="mended\nhistory")] * 2, closed=closed)
    text = capsys.readouterr().out
    assert text.count("0123456789ab ") == 2
    assert "tool_raised" in text
    assert ("mended" in text) is ("ann" in text) is closed
    assert ("no number" in text) is not closed
    assert "history" not in text
    lines = [line for line in text.split("\n") if line]
    assert len(lines) >= (3 if columns == "400" else 4)


@pytest.mark.parametrize("closed", [False, True])
def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str], closed: bool) -> None:
    print_gaps([], closed=closed)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ("no closed gaps\n" if closed else "no open gaps\n")


def poisoned(value: Any, text: str) -> Any:
    match value:
        case dict():
            return {key: poisoned(one, text) for key, one in value.items()}
        case list():
            return [poisoned(one, text) for one in value]
        case str():
            return text
        case _:
            return value


@pytest.mark.parametrize("columns", ["60", "400"])
def test_hostile_text_reaches_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = poisoned(document(closed=True, note="x"), HOSTILE)
    print_gaps([shown], closed=True)
    print_gaps([shown], closed=False)
    text = capsys.readouterr().out + rendered(shown)
    assert set(text) & set("\x1b\x07\r\u202e") == set()
    assert "\\x1b]0;owned" in text
    assert sys.stdout.isatty() is False


@given(st.text(max_size=40))
def test_any_text_is_shown_without_a_control_character(text: str) -> None:
    shown = rendered(poisoned(document(closed=True, note="x"), text))
    assert all(line.isprintable() for line in shown.split("\n"))


def test_why_there_is_nothing_to_close() -> None:
    assert not_open("abc", None) == "no gap 'abc' was ever recorded"
    assert "closed already: by ann, at 2026-03-01T14:00:00" in not_open("abc", group(closed=True))
    assert "has come back meanwhile" in not_open("abc", group())
