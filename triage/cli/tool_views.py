"""Rows of the library as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from triage.cli.output import cell, columns
from triage.library.overview import ToolRow

STATUS_STYLES = {
    "active": "green",
    "candidate": "cyan",
    "shadow": "cyan",
    "quarantined": "bold red",
    "broken": "bold red",
    "missing": "red",
}
SHORT = 12


def rows_table(rows: Sequence[ToolRow], marks: Callable[[str], Sequence[str]]) -> Table:
    """`marks` are the kinds of what is held against a node's tool."""
    table = columns("node", "kind", "status", "active", "others", "held-out", "approver", "note")
    for row in rows:
        table.add_row(
            cell(row.node),
            cell(row.kind.value.replace("_", " ")),
            cell(row.status, STATUS_STYLES.get(row.status, "")),
            cell(f"v{row.active}" if row.active is not None else ""),
            cell(_others(row)),
            cell(_cases(row.heldout)),
            cell(row.approver),
            cell(_marked(_note(row), marks(row.node)), "yellow"),
        )
    return table


def manifest_view(row: ToolRow, folder: str) -> RenderableType:
    head = cell(row.node, "bold")
    head.append_text(cell(f"  {row.kind.value.replace('_', ' ')}, "))
    head.append_text(cell(row.status, STATUS_STYLES.get(row.status, "")))
    parts: list[RenderableType] = [head, cell(f"in {folder}", "dim")]
    if note := _note(row):
        parts.append(cell(note, "yellow"))
    if row.reads_parents:
        parts.append(cell(f"reads the verdicts of {', '.join(row.reads_parents)}"))
    if row.versions:
        parts += [Text(), _versions_table(row)]
    if row.history:
        parts += [Text(), _history_table(row)]
    return Group(*parts)


def row_document(row: ToolRow, *, whole: bool = False) -> dict[str, Any]:
    """`whole` adds versions and history, as the manifest has them."""
    document: dict[str, Any] = {
        "node": row.node,
        "kind": row.kind.value,
        "status": row.status,
        "active": row.active,
        "shadow": row.shadow,
        "candidates": list(row.candidates),
        "stale": row.stale,
        "dynamic": row.dynamic,
        "reads_parents": list(row.reads_parents),
        "sha256": row.sha256,
        "maker": row.maker,
        "approver": row.approver,
        "train": list(row.train),
        "heldout": list(row.heldout),
        "quarantined": row.quarantined,
        "problem": row.problem,
    }
    if whole:
        document["versions"] = [version.model_dump(mode="json") for version in row.versions]
        document["history"] = [act.model_dump(mode="json") for act in row.history]
    return document


def _versions_table(row: ToolRow) -> Table:
    table = columns(
        "version", "status", "sha256", "maker", "made", "approver", "train", "held-out", "dynamic"
    )
    for entry in row.versions:
        table.add_row(
            cell(f"v{entry.version}"),
            cell(entry.status.value, STATUS_STYLES.get(entry.status.value, "dim")),
            cell(entry.sha256[:SHORT]),
            cell(entry.maker),
            cell(f"{entry.made_at:%Y-%m-%d %H:%M}"),
            cell(entry.approver),
            cell(_cases((entry.train_passed, entry.train_total))),
            cell(_cases((entry.heldout_passed, entry.heldout_total))),
            cell("yes" if entry.dynamic else ""),
        )
    return table


def _history_table(row: ToolRow) -> Table:
    table = columns("when", "what", "version", "by", "note")
    for act in row.history:
        table.add_row(
            cell(f"{act.at:%Y-%m-%d %H:%M:%S}"),
            cell(act.verb.value),
            cell(f"v{act.version}"),
            cell(act.by),
            cell(act.note),
        )
    return table


def _others(row: ToolRow) -> str:
    others = [f"v{number} candidate" for number in row.candidates]
    return ", ".join(others if row.shadow is None else [f"v{row.shadow} shadow", *others])


def _cases(counts: tuple[int, int]) -> str:
    passed, total = counts
    return f"{passed}/{total}" if total else ""


def _marked(note: str, kinds: Sequence[str]) -> str:
    mark = f"! {', '.join(kinds)}: see `triage doctor`" if kinds else ""
    return "; ".join(one for one in (mark, note) if one)


def _note(row: ToolRow) -> str:
    notes = [row.problem, f"quarantined: {row.quarantined}" if row.quarantined else ""]
    notes.append("made from another text than the SOP now has" if row.stale else "")
    return "; ".join(note for note in notes if note)
