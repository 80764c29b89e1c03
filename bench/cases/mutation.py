"""What mutation operators are made of: places in a tool's syntax tree and what comes there instead.

An operator looks at one node of the tree, or at the whole tree, and yields changes. It keeps to a
kind of mistake that people make when they turn a rule into code: of boundary, unit, null handling,
window, baseline, entity matching, aggregation, duplicates, or which series is read.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from triage.sop.procedure import Param

Kind = Literal[
    "boundary",
    "unit",
    "null",
    "window",
    "baseline",
    "entity",
    "aggregation",
    "duplicates",
    "series",
]


class Change(NamedTuple):
    """`places` maps nodes of the tree to their replacements; the first says where it is."""

    kind: Kind
    operator: str
    places: Mapping[ast.AST, ast.AST]
    imports: tuple[str, ...] = ()
    """Names of the tool API that the changed tool needs as well."""
    shown: tuple[str, str] | None = None
    """What is changed and into what, where that is less than the whole node."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A tool's tree, and the SOP's params, which say what a figure of it is."""

    tree: ast.Module
    params: Mapping[str, Param]
    parents: Mapping[ast.AST, ast.AST] = field(init=False)
    texts: tuple[str, ...] = field(init=False)
    """Of the statements of the file."""

    def __post_init__(self) -> None:
        above = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        object.__setattr__(self, "parents", above)
        object.__setattr__(self, "texts", tuple(map(ast.unparse, self.tree.body)))

    def top_of(self, node: ast.AST) -> int:
        """Which statement of the file it is part of."""
        while (above := self.parents[node]) is not self.tree:
            node = above
        return next(i for i, one in enumerate(self.tree.body) if one is node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def is_said(self, node: ast.AST) -> bool:
        """Whether it is part of a text for people, such as an explanation: words and figures,
        where an id or a selector has no spaces and SQL is in capitals."""
        for above in self.ancestors(node):
            if isinstance(above, ast.JoinedStr):
                parts = [one.value for one in above.values if isinstance(one, ast.Constant)]
                text = "".join(map(str, parts))
                return " " in text and "SELECT" not in text
        return False

    def functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        return {
            one.name: one
            for one in self.tree.body
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }


Operator = Callable[[Subject, ast.AST], Iterator[Change]]
"""Of one node of the tree."""
WholeOperator = Callable[[Subject], Iterator[Change]]


def called(node: ast.AST) -> str:
    """The plain name that a call calls, "" for any other node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def instead(kind: Kind, operator: str, node: ast.AST, replacement: ast.AST) -> Change:
    return Change(kind, operator, {node: replacement})


def with_keyword(call: ast.Call, name: str, value: ast.expr | None) -> ast.Call:
    """The call with another value for a keyword, or without it."""
    changed = copy.copy(call)
    changed.keywords = [one for one in call.keywords if one.arg != name]
    if value is not None:
        changed.keywords.append(ast.keyword(arg=name, value=value))
    return changed


def plain_text(subject: Subject) -> str:
    """The file as `changed_text` would write it without a change."""
    return "\n".join(subject.texts) + "\n"


def changed_text(subject: Subject, change: Change) -> str:
    """The file with the change; without its comments. The subject's tree is as before after it."""
    texts = [*subject.texts]
    tops = {subject.top_of(node) for node in change.places}
    undo = [(_put(subject.parents[node], node, new), node) for node, new in change.places.items()]
    try:
        for index in tops:
            texts[index] = ast.unparse(ast.fix_missing_locations(subject.tree.body[index]))
    finally:
        for restore, node in undo:
            restore(node)
    if change.imports:
        at = next(
            i
            for i, one in enumerate(subject.tree.body)
            if isinstance(one, ast.ImportFrom) and one.module != "__future__"
        )
        texts.insert(at, f"from triage.tool_api import {', '.join(change.imports)}")
    return "\n".join(texts) + "\n"


def _put(above: ast.AST, node: ast.AST, new: ast.AST) -> Callable[[ast.AST], None]:
    """Puts `new` in the place of `node`; what it returns puts another one there."""
    for name, value in ast.iter_fields(above):
        if value is node:
            setattr(above, name, new)
            return partial(setattr, above, name)
        if isinstance(value, list) and any(one is node for one in value):
            index = next(i for i, one in enumerate(value) if one is node)
            value[index] = new
            return partial(value.__setitem__, index)
    raise ValueError(f"{ast.unparse(node)!r} is not there")
