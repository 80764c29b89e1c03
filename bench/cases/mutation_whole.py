"""Mutation operators that change every place where a param, a series or a column is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bench.cases.mutation import Change, Kind, Subject, WholeOperator
from triage.sop.procedure import Param

DURATIONS = frozenset({"s", "min", "h"})
CONTINUOUS = frozenset(
    {
        "ratio",
        "percent",
        "percentage points",
        "per thousand",
        "m/s",
        "mm",
        "mbar",
        "mbar/s",
        "bar",
        "celsius",
        "cell-seconds",
    }
)
FEW = 10
"""Counts below it change by one: a tenth of them is less than one."""

LEFT_ALONE = {
    "counter_modulus": "what a counter wraps at is dropped as a whole: `wrap taken for a restart`",
    "counter_max_step": "no counter of the dock takes steps near it; see counter_modulus",
}
"""Params that no operator changes, and why."""


# --- params -----------------------------------------------------------------------------------


def _amounts(name: str, param: Param) -> list[tuple[Kind, str, str]]:
    """Kind, what it is called, and the text to put behind the figure."""
    value = param.value
    if name in LEFT_ALONE or not isinstance(value, int | float) or isinstance(value, bool):
        return []
    if name.endswith("_carry_s"):
        return [("window", "carry removed", "* 0")]
    if name.endswith("_lag_s"):
        return [("window", "lag ignored", "* 0"), ("window", "lag doubled", "* 2")]
    if param.unit in DURATIONS:
        return [("window", "twice as long", "* 2"), ("window", "half as long", "* 0.5")]
    if param.unit not in CONTINUOUS and value < FEW:
        return [("boundary", "one more", "+ 1"), ("boundary", "one less", "- 1")]
    return [("boundary", "a tenth more", "* 1.1"), ("boundary", "a tenth less", "* 0.9")]


def _read_params(node: ast.AST) -> list[tuple[ast.Constant, str]]:
    """The names in `context.params[…]`, be it one or a choice."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)):
        return []
    if node.value.attr != "params":
        return []
    return [
        (one, one.value)
        for one in ast.walk(node.slice)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def params(tool: Subject) -> Iterator[Change]:
    """Another figure for a param, wherever the tool reads it."""
    places: dict[str, list[ast.Subscript]] = {}
    for node in ast.walk(tool.tree):
        for _, name in _read_params(node):
            assert isinstance(node, ast.Subscript)
            if name in tool.params:
                places.setdefault(name, []).append(node)
    for name, nodes in places.items():
        for kind, amount, behind in _amounts(name, tool.params[name]):
            yield Change(
                kind,
                f"{name} {amount}",
                {node: _scaled(node, name, behind) for node in nodes},
            )


def _scaled(node: ast.Subscript, name: str, behind: str) -> ast.expr:
    text = f"({ast.unparse(node)} {behind})"
    if len(_read_params(node)) > 1:  # a choice of params: only this one
        text = f"({text} if ({ast.unparse(node.slice)}) == {name!r} else {ast.unparse(node)})"
    return ast.parse(text, mode="eval").body


# --- another series or column ------------------------------------------------------------------


def swapped_words(tool: Subject) -> Iterator[Change]:
    """Two names of a tuple in each other's place: fails read for picks."""
    for node in ast.walk(tool.tree):
        if not (isinstance(node, ast.Tuple) and len(node.elts) >= 2):
            continue
        words = [one for one in node.elts if isinstance(one, ast.Constant)]
        if len(words) == len(node.elts) and all(isinstance(one.value, str) for one in words):
            if not _is_iterated(tool, node):
                continue  # what is only looked up in has no order
            first, second, *rest = node.elts
            yield Change(
                "series",
                "another series",
                {node: ast.Tuple([second, first, *rest], ast.Load())},
            )


def _is_iterated(tool: Subject, node: ast.Tuple) -> bool:
    above = tool.parents[node]
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
        name = above.targets[0].id
        return any(
            isinstance(one, ast.comprehension | ast.For)
            and isinstance(one.iter, ast.Name)
            and one.iter.id == name
            for one in ast.walk(tool.tree)
        )
    return isinstance(above, ast.comprehension | ast.For)


def another_metric(tool: Subject) -> Iterator[Change]:
    """The next metric that the tool names, in the place of one."""
    named = [
        node
        for node in ast.walk(tool.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("dock_")
        and not isinstance(tool.parents.get(node), ast.JoinedStr)
    ]
    for node in named:
        others = [one.value for one in named if one.value != node.value]
        if others:
            yield Change("series", "another series", {node: ast.Constant(others[0])})


SITE_FACTS = frozenset({"facts", "layout"})
"""What tools call the site's facts: those are no columns of an answer."""


def another_column(tool: Subject) -> Iterator[Change]:
    """The next key that the tool reads of an answer, in the place of one."""
    read: dict[str, list[ast.Constant]] = {}
    for node in ast.walk(tool.tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
            and isinstance(node.value, ast.Name)
            and node.value.id not in SITE_FACTS
            and not tool.is_said(node)
        ):
            read.setdefault(node.slice.value, []).append(node.slice)
    keys = list(read)
    for place, key in enumerate(keys):
        other = keys[(place + 1) % len(keys)]
        if other != key:
            yield Change(
                "series",
                f"{other!r} read for {key!r}",
                {one: ast.Constant(other) for one in read[key]},
            )


# --- SQL --------------------------------------------------------------------------------------

_SQL = re.compile(r"\bSELECT\b", re.IGNORECASE)
_COMPARED = re.compile(r"([\w.:]+) (<=|>=|<|>) ([\w.:]+)")
_FOLDED = re.compile(r"\b(MAX|MIN)\s*\(", re.IGNORECASE)
_CONJUNCT = re.compile(
    r"\bAND\s+(?!EXISTS)((?:(?!\bAND\b|\bORDER\b|\bGROUP\b|\bLIMIT\b|\bUNION\b|\bOR\b)[^()]|\([^()]*\))+)",
    re.IGNORECASE,
)
_OTHER_OP = {"<=": "<", "<": "<=", ">=": ">", ">": ">="}


def sql(tool: Subject) -> Iterator[Change]:
    for node in ast.walk(tool.tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _SQL.search(node.value)
            and not isinstance(tool.parents.get(node), ast.Expr)
        ):
            for kind, operator, text in _changed_sql(node.value):
                yield Change(kind, operator, {node: ast.Constant(text)})
            for kind, operator, text, shown in _changed_conditions(node.value):
                yield Change(kind, operator, {node: ast.Constant(text)}, shown=shown)


def _changed_conditions(text: str) -> Iterator[tuple[Kind, str, str, tuple[str, str]]]:
    """The fourth is the condition, before and after."""
    for found in _COMPARED.finditer(text):
        left, op, right = found.groups()
        other = f"{left} {_OTHER_OP[op]} {right}"
        yield (
            "boundary",
            "strictness in SQL",
            text[: found.start()] + other + text[found.end() :],
            (found[0], other),
        )
    for found in _CONJUNCT.finditer(text):
        # Kept in the text, so that its parameters are still used.
        condition = found[1].strip()
        held = f"({condition} OR 1 = 1)"
        yield (
            "entity",
            "condition dropped in SQL",
            f"{text[: found.start(1)]}{held} {text[found.end() :]}",
            (condition, held),
        )


def _changed_sql(text: str) -> Iterator[tuple[Kind, str, str]]:
    for found in re.finditer(r"\bDISTINCT\s", text, re.IGNORECASE):
        yield "duplicates", "duplicates kept", text[: found.start()] + text[found.end() :]
    for found in re.finditer(r"\bUNION\b(?!\s+ALL)", text, re.IGNORECASE):
        yield "duplicates", "duplicates kept", text[: found.end()] + " ALL" + text[found.end() :]
    for found in _FOLDED.finditer(text):
        other = "MIN" if found[1].upper() == "MAX" else "MAX"
        rest = text[found.start() + len(found[1]) :]
        yield (
            "aggregation",
            f"{other} for {found[1].upper()} in SQL",
            text[: found.start()] + other + rest,
        )
    for found in re.finditer(r"\bDESC\b", text, re.IGNORECASE):
        yield (
            "aggregation",
            "oldest for latest in SQL",
            text[: found.start()] + "ASC" + text[found.end() :],
        )
    for found in re.finditer(r"\bCOALESCE\s*\(\s*([^,()]+),[^()]*\)", text, re.IGNORECASE):
        yield (
            "null",
            "null not replaced in SQL",
            text[: found.start()] + found[1] + text[found.end() :],
        )


WHOLE: tuple[WholeOperator, ...] = (params, swapped_words, another_metric, another_column, sql)
