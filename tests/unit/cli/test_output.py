"""What is written to a file or a pipe."""

from __future__ import annotations

import io

import pytest
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from triage.cli.output import UNBROKEN, cell, columns, console_for


def test_no_line_ends_in_blanks_however_wide_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    file = io.StringIO()
    console = console_for(file)
    table = columns("a", "b")
    table.add_row(cell("x"), cell("  kept within  here"))
    tree = Tree("root")
    tree.add(Text("leaf"))
    for shown in (table, tree, Padding(Text("padded"), (0, 0, 0, 2)), Text("y" * (UNBROKEN - 1))):
        console.print(shown)
    lines = file.getvalue().splitlines()
    assert [line for line in lines if line != line.rstrip(" ")] == []
    assert "x    kept within  here" in lines
    assert "  padded" in lines
    assert "y" * (UNBROKEN - 1) in lines
