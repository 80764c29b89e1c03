"""Dead letters for people. Documents are those of `app.dead_letters`, wherever they are from.

All text in them is a stranger's. A document that is none raises KeyError, TypeError, ValueError or
AttributeError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.cli.output import cell, columns, out, warn
from triage.cli.text import printable, printable_lines

Document = Mapping[str, Any]

WIDE = 140  # columns that a row of the table needs
SECONDS = len("2026-06-01T12:31:00")
SHOWN_CHARS = 64 * 1024  # of one payload
ABSENT = "no such dead letter: it never was here, or somebody has dealt with it"


def print_dead_letters(letters: Sequence[Document]) -> None:
    console = out()
    if not letters:
        warn("no dead letters")
    elif console.width < WIDE:
        for letter in letters:
            _print_letter(console, letter)
    else:
        console.print(_table(letters))


def _table(letters: Sequence[Document]) -> Table:
    table = columns("dead letter id", "given up", "reason", "attempts", "of", "detail")
    for letter in letters:
        table.add_row(
            cell(letter["dead_letter_id"]),
            cell(_second(letter)),
            cell(letter["reason"], "yellow"),
            cell(letter["attempts"]),
            cell(_of(letter)),
            cell(_first_line(letter["detail"])),
        )
    table.columns[0].no_wrap = True
    table.columns[3].justify = "right"
    return table


def _print_letter(console: Console, letter: Document) -> None:
    """Two lines: an id that is folded could not be copied."""
    first = cell(f"{letter['dead_letter_id']}  {_second(letter)}  ")
    console.print(first.append_text(cell(letter["reason"], "yellow")), soft_wrap=True)
    console.print(cell(f"  {_of(letter)}: {_first_line(letter['detail'])}", "dim"))


def _of(letter: Document) -> str:
    if letter["stream"]:
        return f"stream {letter['stream']} ({letter['format']})"
    where = f" at {letter['site']}" if letter["site"] else ""
    return f"{letter['alarm'] or '(no alarm named)'}{where}"


def _second(letter: Document) -> str:
    return str(letter["at"])[:SECONDS]


def _first_line(text: str) -> str:
    return str(text).split("\n", 1)[0]


# --- one --------------------------------------------------------------------------------------


def print_dead_letter(letter: Document, payload: bytes) -> None:
    """With its payload, laid out where it is JSON."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(letter):
        facts.add_row(name, value)
    text = payload_text(payload)
    cut = len(text) > SHOWN_CHARS
    more = f", the first {SHOWN_CHARS} characters: --payload writes all" if cut else ""
    console = out()
    console.print(facts)
    console.print(Text(f"\npayload, {len(payload)} bytes{more}", style="dim"))
    indented = "\n".join(f"  {line}" for line in text[:SHOWN_CHARS].split("\n"))
    console.print(Text(indented), soft_wrap=True)


def _facts(letter: Document) -> Iterator[tuple[str, Text]]:
    yield "dead letter", cell(letter["dead_letter_id"])
    yield "reason", cell(letter["reason"], "yellow")
    for number, line in enumerate(str(letter["detail"]).splitlines()):
        yield "" if number else "detail", cell(line)
    yield "given up", cell(f"{letter['at']}, after {_attempts(letter)}")
    for name, key in (
        ("alert", "alert_id"),
        ("alarm", "alarm"),
        ("site", "site"),
        ("severity", "severity"),
        ("stream", "stream"),
        ("format", "format"),
    ):
        if letter[key]:
            yield name, cell(letter[key])
    for name, value in letter["headers"].items():
        yield "header", cell(f"{name}: {value}")


def _attempts(letter: Document) -> str:
    what = "delivery" if letter["stream"] else "attempt"
    many = "deliveries" if letter["stream"] else "attempts"
    return f"{letter['attempts']} {what if letter['attempts'] == 1 else many}"


def payload_text(payload: bytes) -> str:
    """For a terminal: lines stay, bytes that are no text are spelled out."""
    text = payload.decode("utf-8", "backslashreplace")
    # What is no JSON, or a bomb of brackets, is shown as it came.
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return printable_lines(text)


# --- what became of it ------------------------------------------------------------------------


def redriven_line(result: Document) -> Text:
    """One line, of a document as `triage.cli.dead_letters.redrive` prints them."""
    line = cell(f"{result['dead_letter_id']}: ")
    match result["status"]:
        case "redriven":
            return line.append_text(_redriven(result))
        case "refused":
            field = f"{result['field']}: " if result["field"] else ""
            return line.append_text(cell(f"refused: {field}{result['problem']}", "red"))
        case _:
            return line.append_text(cell(ABSENT, "red"))


def _redriven(result: Document) -> Text:
    ids = result["alert_ids"]
    said = f"pending again: {', '.join(map(str, ids))}" if ids else "recorded, nothing to decide"
    line = Text(printable(said))
    if rejected := result["rejected"]:
        first = rejected[0]
        more = f", and {len(rejected) - 1} more" if len(rejected) > 1 else ""
        stays = f"; it stays for {first['field']}: {first['problem']}{more}"
        line.append_text(cell(stays, "red"))
    if result["delayed"]:
        line.append_text(cell(f" (the sweeper will publish it: {result['delayed']})", "yellow"))
    return line
