"""A candidate's text, made ready for the sandbox's interpreter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from triage import tool_api
from triage.errors import ToolFailed, ToolFailure
from triage.fallback.prelude import OUR_METHODS, OURS, without_imports

TOOL_API = "triage.tool_api"
ALWAYS = ("next",)
"""Builtins that the interpreter's own lack something of."""

_KEPT = 64  # texts


class Source(NamedTuple):
    """`code` is the text without the imports of `triage.tool_api`, line by line as it was; `names`
    are what its namespace must hold before it runs."""

    code: str
    names: tuple[str, ...]


@lru_cache(maxsize=_KEPT)
def source_of(text: str) -> Source:
    """Raises ToolFailed for what would not load in process either: no Python, or a name that
    `triage.tool_api` does not have. A shadow is run again and again, and its text takes as long as
    the rest of what begins a session."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _refused(error.lineno or 0, f"SyntaxError: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise _refused(0, "SyntaxError: nested too deeply to compile") from None
    except ValueError as error:  # a NUL byte
        raise _refused(0, f"SyntaxError: {error}") from None
    return Source(without_imports(text), tuple(dict.fromkeys((*ALWAYS, *_names(tree)))))


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="triage.tool_api", level=0, names=aliases):
                for alias in aliases:
                    yield from _imported(node.lineno, alias.name)
            case ast.ImportFrom(module="datetime", level=0, names=aliases):
                # One that is not imported is unknown here as well, as it is in process.
                yield from (alias.name for alias in aliases if alias.name in OURS)
                yield from OUR_METHODS.values()
            case ast.Import(names=aliases) if any(one.name == "datetime" for one in aliases):
                yield from OURS
                yield from OUR_METHODS.values()
            case _:
                pass


def _imported(line: int, name: str) -> tuple[str, ...]:
    if name == "*":
        return tuple(tool_api.__all__)
    if name not in tool_api.__all__:
        raise _refused(line, f"ImportError: cannot import name {name!r} from {TOOL_API!r}")
    return (name,)


def _refused(line: int, problem: str) -> ToolFailed:
    place = f"line {line}: " if line else ""
    return ToolFailed(ToolFailure.RAISED, f"{place}{problem}")
