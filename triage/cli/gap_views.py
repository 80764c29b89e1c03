"""Gaps for people. Documents are those of `group_document`, wherever they are from.

A document that is none raises KeyError, TypeError, ValueError or AttributeError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.cli.output import cell, columns, out, warn

Document = Mapping[str, Any]

WIDE = 140  # columns that a row of the table needs
SECONDS = len("2026-06-01T12:31:00")
SHORT = 12  # characters of a SHA-256


def print_gaps(gaps: Sequence[Document], *, closed: bool) -> None:
    console = out()
    if not gaps:
        warn("no closed gaps" if closed else "no open gaps")
    elif console.width < WIDE:
        for gap in gaps:
            _print_gap(console, gap)
    else:
        console.print(_table(gaps, closed=closed))


def _table(gaps: Sequence[Document], *, closed: bool) -> Table:
    more = ("closed", "by", "note") if closed else ("missing",)
    table = columns("gap id", "cases", "newest", "node", "reason", "tool", *more)
    for gap in gaps:
        last = (
            (_second(gap["closed_at"]), gap["closed_by"], _first_line(gap["note"]))
            if closed
            else (gap["latest"]["missing"],)
        )
        table.add_row(
            cell(gap["gap_id"]),
            cell(gap["count"]),
            cell(_second(gap["last_at"])),
            cell(gap["node"]),
            cell(gap["reason"], "yellow"),
            cell(_tool(gap)),
            *map(cell, last),
        )
    table.columns[0].no_wrap = True
    table.columns[1].justify = "right"
    return table


def _print_gap(console: Console, gap: Document) -> None:
    """Two lines: an id that is folded could not be copied."""
    counted = f"{gap['count']} case{'s' if gap['count'] != 1 else ''}"
    first = cell(f"{gap['gap_id']}  {counted}, newest {_second(gap['last_at'])}  {gap['node']}: ")
    console.print(first.append_text(cell(gap["reason"], "yellow")), soft_wrap=True)
    below = f"closed by {gap['closed_by']}: {_first_line(gap['note'])}"
    console.print(cell(f"  {below if gap['closed_at'] else gap['latest']['missing']}", "dim"))


# --- one --------------------------------------------------------------------------------------


def gap_view(gap: Document) -> RenderableType:
    """With its cases."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(gap):
        facts.add_row(name, value)
    cases, count = gap["cases"], gap["count"]
    more = f", the newest {len(cases)} of {count}" if len(cases) < count else ""
    told = [Padding(_case(case), (0, 0, 0, 2)) for case in cases]
    return Group(facts, Text(f"\ncases{more}", style="dim"), *told)


def _facts(gap: Document) -> Iterator[tuple[str, Text]]:
    yield "gap", cell(gap["gap_id"])
    yield "node", cell(gap["node"], "bold")
    yield "reason", cell(gap["reason"], "yellow")
    yield "tool", cell(_tool(gap))
    yield "cases", cell(f"{gap['count']}, from {gap['first_at']} to {gap['last_at']}")
    if gap["closed_at"]:
        yield "closed", cell(f"{gap['closed_at']} by {gap['closed_by']}", "green")
    else:
        yield "closed", cell("no", "bold yellow")
    for number, line in enumerate(str(gap["note"]).splitlines()):
        yield "" if number else "note", cell(line)
    yield "needed", cell(gap["latest"]["needed"])
    yield "missing", cell(gap["latest"]["missing"])


def _case(case: Document) -> Group:
    lines = [cell(f"{case['at']}  alert {case['alert_id']}")]
    lines += [cell(f"  {name}: {case[name]}", "dim") for name in ("missing", "impact")]
    lines += [cell(f"  tried: {tried}", "dim") for tried in case["alternatives"]]
    if case["evidence"]:
        digests = ", ".join(str(digest)[:SHORT] for digest in case["evidence"])
        lines.append(cell(f"  answers: {digests}", "dim"))
    return Group(*lines)


def _tool(gap: Document) -> str:
    if not gap["tool_sha256"]:
        return f"v{gap['tool_version']}" if gap["tool_version"] else "none"
    return f"v{gap['tool_version']} {str(gap['tool_sha256'])[:SHORT]}"


def _second(at: str) -> str:
    return str(at)[:SECONDS]


def _first_line(note: str) -> str:
    return str(note).split("\n", 1)[0]
