"""A candidate's source, rewritten so that hidden state and the order of sets come to light.

Both rewrites keep what the tool says as long as it is a function of its arguments: they run in the
sandbox beside the candidate itself, and whatever they say otherwise it would some day say too.
"""

from __future__ import annotations

import ast

TIMES = 3  # calls in one session: the third also shows what only every other call does
CHANGED = "says another thing when it is asked again"

_ORDERED = frozenset(
    {
        *("list", "tuple", "sorted", "min", "max", "iter", "enumerate", "zip", "map", "filter"),
        *("dict", "any", "all", "deque", "fsum", "mean", "median", "quantile", "valid"),
        *("join", "fromkeys", "extend"),
    }
)
"""Functions and methods that go through their argument in its order."""

_AGAIN = """
def queries(warehouse, timestamp, context):
    first = queries_once(warehouse, timestamp, context)
    for _ in range(TIMES):
        if repr(queries_once(warehouse, timestamp, context)) != repr(first):
            raise ValueError("queries() CHANGED")
    return first

def evaluate(warehouse, timestamp, context):
    first = evaluate_once(warehouse, timestamp, context)
    for _ in range(TIMES):
        if repr(evaluate_once(warehouse, timestamp, context)) != repr(first):
            raise ValueError("evaluate() CHANGED")
    return first
"""
_AGAIN_IN_STEPS = """
async def evaluate(warehouse, timestamp, context):
    first = await evaluate_once(warehouse, timestamp, context)
    for _ in range(TIMES):
        again = await evaluate_once(warehouse, timestamp, context)
        if repr(again) != repr(first):
            raise ValueError("evaluate() CHANGED")
    return first
"""
_BACKWARDS = """
def any_order(value):
    if type(value) is set or type(value) is frozenset:
        return list(value)[::-1]
    return value

def popped(value, *place):
    if type(value) is set:
        one = list(value)[0]
        value.remove(one)
        return one
    return value.pop(*place)
"""


def asked_again(text: str, *, dynamic: bool) -> str:
    """The candidate, each of whose functions is called several times and must say the same: it
    raises CHANGED otherwise. Raises SyntaxError."""
    tree = ast.parse(text)
    renamed = {"evaluate": "evaluate_once", "queries": "queries_once"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in renamed:
            node.id = renamed[node.id]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in renamed:
            node.name = renamed[node.name]
        elif isinstance(node, ast.arg | ast.keyword) and node.arg in renamed:
            node.arg = renamed[node.arg]
    added = _AGAIN_IN_STEPS if dynamic else _AGAIN
    added = added.replace("TIMES", str(TIMES - 1)).replace("CHANGED", CHANGED)
    return f"{ast.unparse(tree)}\n{added}"


def sets_backwards(text: str) -> str:
    """The candidate, which meets the members of every set in the opposite order. Raises
    SyntaxError.

    Wherever something is gone through in its order, a set is replaced by a list of its members.
    """
    tree = _Backwards().visit(ast.parse(text))
    place = next(
        (
            index
            for index, statement in enumerate(tree.body)
            if not isinstance(statement, ast.Import | ast.ImportFrom)
            and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        ),
        len(tree.body),
    )
    tree.body[place:place] = ast.parse(_BACKWARDS).body
    return ast.unparse(ast.fix_missing_locations(tree))


class _Backwards(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _any_order(node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = _any_order(node.iter)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _any_order(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            node.value = _any_order(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(attr="pop", value=owner):
                popped = ast.Name("popped", ast.Load())
                return ast.Call(popped, [owner, *node.args], node.keywords)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _ORDERED:
                node.args = [
                    one if isinstance(one, ast.Starred) else _any_order(one) for one in node.args
                ]
            case _:
                pass
        return node


def _any_order(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("any_order", ast.Load()), [value], [])
