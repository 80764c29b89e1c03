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


@dataclass(frozen=True, slots=True)
class Subject:
    """A tool's tree, and the SOP's params, which say what a figure of it is."""

    tree: ast.Module
    params: Mapping[str, Param]
    parents: Mapping[ast.AST, ast.AST] = field(init=False)

    def __post_init__(self) -> None:
        above = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        object.__setattr__(self, "parents", above)

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


class _Replace(ast.NodeTransformer):
    def __init__(self, places: Mapping[ast.AST, ast.AST]) -> None:
        self._places = places

    def visit(self, node: ast.AST) -> ast.AST:
        found = self._places.get(node)
        if found is not None:
            return found
        changed: ast.AST = self.generic_visit(node)
        return changed


def changed_text(source: str, subject: Subject, change: Change) -> str:
    """The file with the change. `subject` is of `source`, and stays as it is."""
    order = {node: index for index, node in enumerate(ast.walk(subject.tree))}
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    places = {nodes[order[node]]: new for node, new in change.places.items()}
    _Replace(places).visit(tree)
    if change.imports:
        at = next(i for i, one in enumerate(tree.body) if isinstance(one, ast.ImportFrom))
        names = [ast.alias(name) for name in change.imports]
        tree.body.insert(at, ast.ImportFrom(module="triage.tool_api", names=names, level=0))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
