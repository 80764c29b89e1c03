"""What is taken out of code before the sandbox's interpreter runs it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dock_tools.dock_world import nodes, source_of
from triage.fallback.prelude import without_imports

CASES = [
    ("from triage.tool_api import samples, valid\nx = 1", "pass\nx = 1"),
    ("from triage.tool_api import valid as v\nx = 1", "v = valid\nx = 1"),
    ("from triage.tool_api import (\n    valid,\n    mean,\n)\nx = 1", "pass\n\n\n\nx = 1"),
    ("if a:\n    from triage.tool_api import mean\n", "if a:\n    pass\n"),
    ("x = 1; from triage.tool_api import (a,\n b); y = 2\nz = 3", "x = 1; pass; y = 2\n\nz = 3"),
    ("from datetime import UTC, datetime, timedelta", "from datetime import datetime"),
    ("from datetime import timedelta", "pass"),
    ("from datetime import timedelta as td, date", "from datetime import date; td = timedelta"),
    ("from datetime import datetime", "from datetime import datetime"),
    ("from collections.abc import Mapping, Sized", "from typing import Mapping"),
    ("from collections.abc import Hashable", "pass"),
    ("import datetime\nx = datetime.UTC", "import datetime\nx = UTC"),
    ("x = datetime.datetime.fromtimestamp(1, datetime.UTC)", "x = datetime_fromtimestamp(1, UTC)"),
    ("x = datetime.fromtimestamp(1, UTC)", "x = datetime_fromtimestamp(1, UTC)"),
    (
        "from datetime import datetime as dt\nx = dt.fromisoformat(t)",
        "from datetime import datetime as dt\nx = datetime_fromisoformat(t)",
    ),
    ("import datetime as d\nx = d.timedelta(1)", "import datetime as d\nx = timedelta(1)"),
    ("é = 'é'; x = datetime.fromtimestamp(0)", "é = 'é'; x = datetime_fromtimestamp(0)"),
    ("x = '\x0c'\nfrom triage.tool_api import a", "x = '\x0c'\npass"),
    ("x = record.fromtimestamp", "x = record.fromtimestamp"),
    ("not Python (", "not Python ("),
    ("from .tool_api import x", "from .tool_api import x"),
    ("", ""),
]


@pytest.mark.parametrize(("code", "expected"), CASES)
def test_what_is_left(code: str, expected: str) -> None:
    assert without_imports(code) == expected


@pytest.mark.parametrize("node", nodes())
def test_lines_of_a_tool_keep_their_numbers(node: str) -> None:
    code = source_of(node).read_text(encoding="utf-8")
    changed = without_imports(code)
    assert "tool_api" not in changed
    assert code.count("\n") == changed.count("\n")
    functions = {n.name: n.lineno for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)}
    kept = {n.name: n.lineno for n in ast.parse(changed).body if isinstance(n, ast.FunctionDef)}
    assert kept == functions


@given(st.text(max_size=200))
def test_any_text_comes_back(text: str) -> None:
    assert isinstance(without_imports(text), str)


def test_what_is_nested_too_deeply_comes_back() -> None:
    text = "(" * 5_000 + ")" * 5_000
    assert without_imports(text) == text
