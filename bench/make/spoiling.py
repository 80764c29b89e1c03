"""Taking out of a tool's tree what deals with something."""

from __future__ import annotations

import ast
from collections.abc import Callable


class _Spoiler(ast.NodeTransformer):
    """`replace` gives what comes in the place of a node: the node itself, another one, or None for
    nothing at all. Inner nodes come first."""

    def __init__(self, replace: Callable[[ast.AST], ast.AST | None]) -> None:
        self._replace = replace
        self.changed = False

    def visit(self, node: ast.AST) -> ast.AST | None:
        visited = self.generic_visit(node)
        replaced = self._replace(visited)
        self.changed |= replaced is not visited
        return replaced


def spoiled(tree: ast.Module, replace: Callable[[ast.AST], ast.AST | None]) -> bool:
    """Whether anything was replaced. Conditions that nothing hangs on any more are gone as well."""
    spoiler = _Spoiler(replace)
    spoiler.visit(tree)
    if spoiler.changed:
        _Spoiler(_simpler).visit(tree)
        ast.fix_missing_locations(tree)
    return spoiler.changed


def _simpler(node: ast.AST) -> ast.AST | None:
    """What is always or never so is not asked."""
    if isinstance(node, ast.BoolOp):
        neutral = isinstance(node.op, ast.And)
        values = [one for one in node.values if not _is_constant(one, neutral)]
        if len(values) < len(node.values):
            if not values:
                return ast.Constant(neutral)
            return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)
    if isinstance(node, ast.comprehension):
        node.ifs = [one for one in node.ifs if not _is_constant(one, True)]
    if isinstance(node, ast.If) and not node.orelse and _is_constant(node.test, False):
        return None
    return node


def _is_constant(node: ast.AST, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
