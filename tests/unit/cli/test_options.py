"""How the text of options is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from triage.cli.options import bounded, moment, optional_moment, person, read_input

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("1w", NOW - timedelta(weeks=1)),
        ("2026-05-31T23:30:00Z", datetime(2026, 5, 31, 23, 30, tzinfo=UTC)),
        ("2026-06-01T01:30:00+02:00", datetime(2026, 5, 31, 23, 30, tzinfo=UTC)),
    ],
)
def test_moments(text: str, expected: datetime) -> None:
    found = moment(text, "--at", NOW)
    assert found == expected
    assert found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-06-01T12:00:00",
        "2026-06-01",
        "999999999w",
        "-5m",
        "0001-01-01T00:00+23:00",
    ],
)
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time: give an ISO 8601 time"):
        moment(text, "--at", NOW)


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_refused(text: str) -> None:
    try:
        found = moment(text, "--at", NOW)
    except typer.BadParameter:
        return
    assert found.tzinfo is UTC


def test_no_text_is_no_moment() -> None:
    assert optional_moment("", "--at", NOW) is None


def test_a_person_is_who_is_named_or_who_runs_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert person("bob", "--by") == "bob"
    assert person("", "--by") == "ann"


def test_nobody_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    with pytest.raises(typer.BadParameter, match="say who you are"):
        person("", "--by")


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"12345")
    assert read_input(str(file), 5, "a payload") == b"12345"
    with pytest.raises(typer.BadParameter, match="is larger than 4 bytes"):
        read_input(str(file), 4, "a payload")


@pytest.mark.parametrize("name", ["absent", "", "nul\0"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(typer.BadParameter, match="cannot be read"):
        read_input(str(tmp_path / name), 5, "a payload")


def test_a_text_may_be_as_long_as_its_limit() -> None:
    assert bounded("four", 4, "--note") == "four"
    with pytest.raises(typer.BadParameter, match="at most 3 characters"):
        bounded("four", 3, "--note")
