"""Whatever a tool raises is a value, and its code runs under its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.evaluation.judging import outcome
from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    World,
    library,
    one_node,
    tool,
)
from triage.library.catalogue import Tool
from triage.model.query import (
    Query,
)
from triage.model.verdict import Truth, Verdict


class Unprintable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no")


def _endless(n: int) -> int:
    return _endless(n + 1) + 1


def _raise(error: BaseException) -> Any:
    raise error


RAISING: dict[str, tuple[Callable[[], Any], str]] = {
    "key": (lambda: dict[str, int]()["queue"], "KeyError: 'queue'"),
    "index": (lambda: list[int]()[0], "IndexError"),
    "zero": (lambda: 1 / 0, "ZeroDivisionError"),
    "system exit": (lambda: _raise(SystemExit(3)), "SystemExit: 3"),
    "memory": (lambda: _raise(MemoryError()), "MemoryError"),
    "recursion": (lambda: _endless(0), "RecursionError"),
    "timeout": (lambda: _raise(TimeoutError("mine")), "TimeoutError: mine"),
    "stop": (lambda: _raise(StopIteration()), "StopIteration"),
    "stop async": (lambda: _raise(StopAsyncIteration()), "StopAsyncIteration"),
    "group": (lambda: _raise(ExceptionGroup("many", [ValueError()])), "ExceptionGroup: many"),
    "assertion": (lambda: _raise(AssertionError()), "AssertionError"),
    "unprintable": (lambda: _raise(Unprintable()), "Unprintable: its message raised RuntimeError"),
    "surrogate": (lambda: _raise(ValueError("\ud800")), "ValueError: ?"),
    "long": (lambda: _raise(ValueError("x" * 10**6)), "ValueError: xxx"),
    "truth": (lambda: bool(Truth.FALSE), "TypeError: a Truth has three values"),
}


@pytest.mark.parametrize("what", RAISING)
@pytest.mark.parametrize("where", ["queries", "evaluate"])
@on_virtual_time
async def test_what_a_tool_raises_is_its_failure_with_the_line(what: str, where: str) -> None:
    action, told = RAISING[what]

    def raising(*_: object) -> Any:
        return action()

    one = (
        tool("a", queries=raising, evaluate=raising)
        if where == "queries"
        else tool("a", queries=lambda *_: [], evaluate=raising)
    )
    reason, detail = await outcome(one)
    assert reason == "tool_raised"
    assert told in detail
    assert re.match(r"a/v1\.py:[1-9]\d*: ", detail)
    assert __file__ not in detail
    assert len(detail) < 1000


@on_virtual_time
async def test_the_line_is_the_deepest_one_in_the_tools_own_file() -> None:
    """Not that of the library function it called: the tool is what its maker can mend."""
    source = "def evaluate(w, t, c):\n    x = 1\n    return parse('[')\n"
    names: dict[str, Any] = {"parse": re.compile}
    exec(compile(source, "/srv/tools_lib/a/v1.py", "exec"), names)  # noqa: S102 - as the loader does
    _, detail = await outcome(tool("a", queries=lambda *_: [], evaluate=names["evaluate"]))
    assert detail.startswith(f"a/v1.py:3: {re.error.__name__}: ")  # PatternError since 3.13


@on_virtual_time
async def test_the_marker_names_the_tool_while_its_code_runs_and_only_then() -> None:
    class Mark:
        def __init__(self) -> None:
            self.running: Tool | None = None
            self.entered: list[str] = []

        def enter(self, tool: Tool) -> None:
            self.running = tool
            self.entered.append(tool.node)

        def leave(self) -> None:
            self.running = None

    mark = Mark()
    seen: list[Tool | None] = []

    def queries(*_: object) -> list[Query]:
        seen.append(mark.running)
        return []

    def evaluate(*_: object) -> Verdict:
        seen.append(mark.running)
        raise ValueError

    one = tool("a", queries=queries, evaluate=evaluate)
    await World(sop=one_node(one), library=library(one), sources=[], marker=mark).decide()
    assert seen == [one, one]
    assert mark.running is None
    assert mark.entered == ["a", "a"]
