"""Mutation operators that look at one node of a tool's tree."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

from bench.cases.mutation import (
    Change,
    Operator,
    Subject,
    called,
    expression,
    instead,
    with_keyword,
)

STRICTNESS = {">=": ">", ">": ">=", "<": "<=", "<=": "<"}
_LOOSER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Gt,
    ast.Gt: ast.GtE,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
}
_ASSET = re.compile(r"([A-Z]{2,4}-)(\d+)")


# --- boundary ---------------------------------------------------------------------------------


def strictness(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """`>=` for `>` and the other way round, in code and in a clause."""
    if called(node) == "compare":
        assert isinstance(node, ast.Call)
        op = node.args[2]
        if isinstance(op, ast.Constant) and op.value in STRICTNESS and not _is_stated(node):
            other = copy.copy(node)
            other.args = [*node.args]
            other.args[2] = ast.Constant(STRICTNESS[op.value])
            yield instead("boundary", "strictness", node, other)
    if isinstance(node, ast.Compare):
        for place, op_node in enumerate(node.ops):
            flipped = _LOOSER.get(type(op_node))
            if flipped is not None:
                ops = [*node.ops]
                ops[place] = flipped()
                changed = ast.Compare(node.left, ops, node.comparators)
                yield instead("boundary", "strictness", node, changed)


def _is_stated(node: ast.AST) -> bool:
    """A clause of constants: it tells people what was found, and nothing turns on it."""
    return (
        isinstance(node, ast.Call)
        and called(node) == "compare"
        and all(isinstance(one, ast.Constant) for one in (node.args[1], node.args[3]))
    )


# --- units ------------------------------------------------------------------------------------


def _is_of_units(test: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "units" for one in ast.walk(test))


def conversion(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """Never converted, always converted, converted by a wrong factor."""
    if isinstance(node, ast.IfExp) and _is_of_units(node.test):
        yield instead("unit", "conversion dropped", node, node.orelse)
        yield instead("unit", "conversion everywhere", node, node.body)
        wrong = ast.IfExp(
            node.test, ast.BinOp(node.body, ast.Mult(), ast.Constant(1.1)), node.orelse
        )
        yield instead("unit", "wrong factor", node, wrong)
    if isinstance(node, ast.If) and _is_of_units(node.test):
        yield instead("unit", "conversion dropped", node.test, ast.Constant(False))
        yield instead("unit", "conversion everywhere", node.test, ast.Constant(True))


def percent(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """A share where percent or per thousand are meant."""
    match node:
        case ast.BinOp(left=ast.Constant(value=100 | 1000), op=ast.Mult(), right=right):
            yield instead("unit", "share for percent", node, right)


# --- null handling ----------------------------------------------------------------------------


def validity(tool: Subject, node: ast.AST) -> Iterator[Change]:
    if called(node) == "valid":
        assert isinstance(node, ast.Call)
        if any(one.arg == "sentinels" for one in node.keywords):
            yield instead("null", "sentinels kept", node, with_keyword(node, "sentinels", None))
        yield instead("null", "invalid kept", node, node.args[0])


def unanswered(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """false for no_data, and the check for it left out."""
    if isinstance(node, ast.Return) and node.value is not None and called(node.value) == "no_data":
        said = node.value
        assert isinstance(said, ast.Call)
        nothing = expression("[compare('nothing', 0, '>', 0)]")
        as_false = ast.Call(
            ast.Name("conclude", ast.Load()),
            [nothing, *said.args],
            [one for one in said.keywords if one.arg == "subject"],
        )
        yield Change(
            "null", "false for no_data", {node: ast.Return(as_false)}, ("compare", "conclude")
        )
    if isinstance(node, ast.If) and _only_no_data(node) and not node.orelse:
        tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        for test in tests:
            never = ast.Constant(
                isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
            )
            yield instead("null", "check dropped", test, never)


def _only_no_data(node: ast.If) -> bool:
    last = node.body[-1]
    return (
        isinstance(last, ast.Return) and last.value is not None and called(last.value) == "no_data"
    )


def condition(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """One of several conditions left out, or the only one of a comprehension."""
    tests: list[ast.expr] = []
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        tests = node.values
    elif isinstance(node, ast.comprehension):
        tests = [one for one in node.ifs if not isinstance(one, ast.BoolOp)]
    for test in tests:
        if called(test) != "valid" and not _is_scope(test):
            yield instead("null", "condition dropped", test, ast.Constant(True))


# --- window -----------------------------------------------------------------------------------


def window(tool: Subject, node: ast.AST) -> Iterator[Change]:
    if called(node) == "held":
        assert isinstance(node, ast.Call)
        yield instead(
            "window", "carry removed", node, with_keyword(node, "carry_s", ast.Constant(0))
        )
    if isinstance(node, ast.FunctionDef) and node.name == "queries":
        shifted = copy.copy(node)
        late = ast.parse(
            f"{node.args.args[1].arg} = datetime.fromtimestamp("
            f"{node.args.args[1].arg}.timestamp() - 120, {node.args.args[1].arg}.tzinfo)"
        ).body
        shifted.body = [*late, *node.body]
        yield instead("window", "end shifted by the lag", node, shifted)


# --- baseline ---------------------------------------------------------------------------------


def baseline(tool: Subject, node: ast.AST) -> Iterator[Change]:
    if called(node) == "same_time_weeks_before":
        assert isinstance(node, ast.Call)
        context, moment, weeks = node.args
        fewer = copy.copy(node)
        fewer.args = [context, moment, ast.BinOp(weeks, ast.Sub(), ast.Constant(1))]
        yield instead("baseline", "a week fewer", node, fewer)
        utc = expression(
            "tuple((datetime.fromtimestamp(MOMENT.timestamp() - 604800 * week,"
            " MOMENT.tzinfo) for week in range(1, WEEKS + 1)))"
        )
        names = {
            one: moment if one.id == "MOMENT" else weeks
            for one in ast.walk(utc)
            if isinstance(one, ast.Name) and one.id in ("MOMENT", "WEEKS")
        }
        yield instead("baseline", "UTC for wall clock", node, _filled(utc, names))
    if isinstance(node, ast.If) and not node.orelse and _adds_clause(node):
        weekly = "week" in ast.unparse(node.test) or "day" in ast.unparse(node.test)
        operator = "baseline skipped" if weekly else "clause dropped"
        kind = "baseline" if weekly else "aggregation"
        yield Change(kind, operator, {node.test: ast.Constant(False)})  # type: ignore[arg-type]
        yield instead("null", "minimum dropped", node.test, ast.Constant(True))


def _filled(tree: ast.expr, names: dict[ast.Name, ast.expr]) -> ast.expr:
    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return names.get(node, node)

    filled: ast.expr = Fill().visit(tree)
    return filled


def _adds_clause(node: ast.If) -> bool:
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "append"
        and any(called(arg) == "compare" for arg in one.args)
        for one in ast.walk(node)
    )


# --- entity matching --------------------------------------------------------------------------


def _is_scope(test: ast.AST) -> bool:
    return (
        isinstance(test, ast.Compare)
        and any(isinstance(op, ast.In) for op in test.ops)
        and (isinstance(test.comparators[0], ast.Name | ast.Tuple))
    )


def spelling(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """Ids taken as they are spelled, or without their zeros."""
    if called(node) in ("asset_id", "asset_ids"):
        assert isinstance(node, ast.Call)
        for name in ("width", "words"):
            changed = with_keyword(node, name, ast.Dict([], []))
            yield instead("entity", f"{name} ignored", node, changed)
    wrapper = tool.functions().get(called(node))
    if (
        wrapper is not None
        and len(wrapper.body) <= 3
        and any(called(one) == "asset_id" for one in ast.walk(wrapper))
    ):
        assert isinstance(node, ast.Call)
        yield instead("entity", "id not normalised", node, node.args[0])


def scope(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """What the alert speaks of passed over; the asset beside."""
    if isinstance(node, ast.Compare) and _is_scope(node):
        above = tool.parents[node]
        if isinstance(above, ast.comprehension | ast.BoolOp):
            yield instead("entity", "scope ignored", node, ast.Constant(True))
    match node:
        case ast.Call(func=ast.Attribute(attr="startswith")):
            yield instead("entity", "kind of entity ignored", node, ast.Constant(False))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = _ASSET.fullmatch(node.value)
        if found is not None:
            other = f"{found[1]}{int(found[2]) + 1:0{len(found[2])}d}"
            yield instead("entity", "another asset", node, ast.Constant(other))
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and _in_text(tool, node)
    ):
        op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        changed = ast.BinOp(node.left, op, node.right)
        yield instead("entity", "another asset", node, changed)


def _in_text(tool: Subject, node: ast.AST) -> bool:
    """Whether it is part of an f-string, such as an id made of its number."""
    return any(isinstance(one, ast.FormattedValue) for one in tool.ancestors(node))


# --- aggregation ------------------------------------------------------------------------------

_OTHER = {
    "median": "mean",
    "mean": "median",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
}


def aggregate(tool: Subject, node: ast.AST) -> Iterator[Change]:
    name = called(node)
    if isinstance(node, ast.Call) and name in _OTHER:
        changed = copy.copy(node)
        changed.func = ast.Name(_OTHER[name], ast.Load())
        needed = ("mean", "median") if name in ("mean", "median") else ()
        yield Change("aggregation", f"{_OTHER[name]} for {name}", {node: changed}, needed)
    if isinstance(node, ast.Call) and name == "quantile":
        changed = copy.copy(node)
        changed.args = [node.args[0], ast.Constant(0.5)]
        yield instead("aggregation", "median for quantile", node, changed)
        changed = copy.copy(node)
        changed.args = [node.args[0], ast.BinOp(ast.Constant(1), ast.Sub(), node.args[1])]
        yield instead("aggregation", "other end", node, changed)
    match node:
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.Name() | ast.Subscript() | ast.Call() as figure
        ):
            yield instead("aggregation", "least for greatest", node, figure)
        case ast.BinOp(
            left=ast.Name() | ast.Subscript() as left,
            op=ast.Sub(),
            right=ast.Name() | ast.Subscript(),
        ) if not _in_text(tool, node):
            yield instead("aggregation", "nothing subtracted", node, left)


def clauses(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """A clause left out; `and` for `or` between clauses, and the other way round."""
    if not isinstance(node, ast.Call) or called(node) != "conclude":
        return
    listed = node.args[0]
    if isinstance(listed, ast.List):
        if len(listed.elts) < 2:
            return
        for one in listed.elts:
            if _is_stated(one):
                continue
            rest = [other for other in listed.elts if other is not one]
            yield instead("aggregation", "clause dropped", listed, ast.List(rest, ast.Load()))
    flipped = with_keyword(
        node,
        "any_of",
        None if any(one.arg == "any_of" for one in node.keywords) else ast.Constant(True),
    )
    yield instead("aggregation", "any_of flipped", node, flipped)


def counter(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """Wraps taken for restarts, restarts for a loss."""
    if isinstance(node, ast.Call) and called(node) == "increase":
        plain = copy.copy(node)
        plain.keywords = []
        yield instead("series", "wrap taken for a restart", node, plain)
        series = ast.unparse(node.args[0])
        ends = expression(
            f"({series}).values[-1] - ({series}).values[0]"
            f" if len(({series}).values) > 1 else float('nan')"
        )
        yield instead("series", "restart ignored", node, ends)


def duplicates(tool: Subject, node: ast.AST) -> Iterator[Change]:
    """A list for a set whose members are counted or ordered; elsewhere the two are the same."""
    listed: ast.expr
    match node:
        case ast.SetComp():
            listed = ast.ListComp(node.elt, node.generators)
        case ast.Call(args=[_, *_]) if called(node) == "set":
            listed = ast.Call(ast.Name("list", ast.Load()), node.args, [])
        case _:
            return
    if _is_counted(tool, node):
        yield instead("duplicates", "duplicates kept", node, listed)


_COUNTING = frozenset({"len", "sorted", "median", "fsum"})


def _is_counted(tool: Subject, node: ast.AST) -> bool:
    above = tool.parents.get(node)
    if above is not None and called(above) in _COUNTING:
        return True
    if not (isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name)):
        return False
    name = above.targets[0].id
    return any(
        isinstance(one, ast.Call)
        and called(one) in _COUNTING
        and any(isinstance(arg, ast.Name) and arg.id == name for arg in one.args)
        for one in ast.walk(tool.tree)
    )


LOCAL: tuple[Operator, ...] = (
    strictness,
    conversion,
    percent,
    validity,
    unanswered,
    condition,
    window,
    baseline,
    spelling,
    scope,
    aggregate,
    clauses,
    counter,
    duplicates,
)
