"""The quirks of a site's data that a tool deals with, each with the code of whoever knows nothing
of it, and with what shows it.

A quirk is dealt with from the moment that a trace or a failing case shows it, and not before:

| quirk | without it | shown by |
|---|---|---|
| units | a figure is taken as it comes | a `units:` line with that unit |
| sentinels | -1 and 9999 are figures | such a low, high or example of a series |
| lost link | -1 is a state like any | such a low or example of rows or JSON |
| wraps | a drop is always a restart | a drop from close under a power of two |
| nulls | a field is always there | a field with nulls, or a failure that names None |
| local times | a wall clock is UTC | a field of type `local timestamp` |
| spellings | an asset is spelled one way | an entity or example in another form |
| coded numbers | a code is a number | the code as text |
| coded words | a status is spelled one way | a status with capitals or a separator |
| rows written twice | all rows count | doubled rows, or fewer different rows than rows |
| grain | a finer grain is guessed | a step of that many seconds |
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench.cases.mutation import called, with_keyword
from bench.make.evidence import Evidence
from bench.make.spellings import (
    code_shown,
    local_shown,
    spellings_shown,
    spoil_function,
    spoil_local,
    words_shown,
)
from bench.make.spoiling import spoiled

SENTINELS = (-1.0, 9999.0)
GRAINS = (1, 5, 10, 15, 30, 60)  # seconds


class Quirk(NamedTuple):
    """`spoil` takes out of a tree what deals with it, and tells whether it was there. `told` is
    what a model says of it in its thought."""

    name: str
    spoil: Callable[[ast.Module], bool]
    shown: Callable[[Evidence], bool]
    told: str


def quirks_of(tree: ast.Module) -> list[Quirk]:
    """Of the tool's own handling, always in the same order."""
    found: list[Quirk] = []
    for key, unit in dict.fromkeys(_units_tested(tree)):
        found.append(
            Quirk(
                f"units {key or 'any'} {unit}",
                partial(_spoil_units, key, unit),
                partial(_units_shown, key, unit),
                f"sites report in {unit}",
            )
        )
    found += _GENERAL
    for key in dict.fromkeys(_nulls_tested(tree)):
        found.append(
            Quirk(
                f"nulls {key}",
                partial(_spoil_nulls, key),
                partial(_nulls_shown, key),
                f"{key} may be null",
            )
        )
    for grain in dict.fromkeys(_grains(tree).values()):
        found.append(
            Quirk(
                f"grain {grain}",
                partial(_spoil_grain, grain),
                partial(_grain_shown, grain),
                f"there is a sample every {grain} s",
            )
        )
    return found


# --- units ------------------------------------------------------------------------------------


def _units_tested(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        tested = _unit_of(node)
        if tested is not None:
            yield tested


def _unit_of(test: ast.AST) -> tuple[str, str] | None:
    """Key, empty when it is no constant, and unit of `….units.get(key) == unit`."""
    match test:
        case ast.Compare(
            left=ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute(attr="units"))) as got,
            comparators=[ast.Constant(value=str(unit))],
        ):
            key = got.args[0]
            return (str(key.value) if isinstance(key, ast.Constant) else "", unit)
    return None


def _spoil_units(key: str, unit: str, tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.IfExp) and _unit_of(node.test) == (key, unit):
            return node.orelse
        if isinstance(node, ast.If) and _unit_of(node.test) == (key, unit) and not node.orelse:
            return None
        return node

    return spoiled(tree, replace)


def _units_shown(key: str, unit: str, evidence: Evidence) -> bool:
    return any(unit == one and key in ("", name) for name, one in evidence.units)


# --- what stands for no figure ----------------------------------------------------------------


def _spoil_sentinels(tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Call) and called(node) == "valid" and node.keywords:
            return with_keyword(node, "sentinels", None)
        return node

    return spoiled(tree, replace)


def _sentinels_shown(evidence: Evidence) -> bool:
    return any(
        {field.low, field.high} & set(SENTINELS) or _has_example(field.examples, SENTINELS)
        for field in evidence.fields("series", "readings")
    )


def _has_example(examples: str, values: tuple[float, ...]) -> bool:
    return any(
        re.search(rf"(?<![\w.-]){value:g}(?:\.0)?(?![\w.])", examples) is not None
        for value in values
    )


def _spoil_lost(tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Compare(ops=[ast.Eq()], comparators=[one]) if _is_lost(one):
                return ast.Constant(False)
            case ast.Compare(ops=[ast.NotEq()], comparators=[one]) if _is_lost(one):
                return ast.Constant(True)
        return node

    return spoiled(tree, replace)


def _is_lost(node: ast.AST) -> bool:
    return ast.unparse(node) in ("LOST", "-1")


def _lost_shown(evidence: Evidence) -> bool:
    return any(
        field.low == -1 or _has_example(field.examples, (-1.0,))
        for field in evidence.fields("rows", "json")
    )


def _spoil_wraps(tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Call) and called(node) == "increase" and node.keywords:
            return with_keyword(with_keyword(node, "modulus", None), "max_step", None)
        return node

    return spoiled(tree, replace)


CLOSE = 0.9
"""Of a power of two: a counter that drops from so far up may start again there by itself."""


def _wraps_shown(evidence: Evidence) -> bool:
    return any(
        CLOSE * top <= float(before) < top
        for field in evidence.fields("series")
        if field.name == DROPS
        for before in re.findall(r"\[([\d.]+),", field.examples)
        for top in (2.0**16, 2.0**32)
    )


# --- nulls ------------------------------------------------------------------------------------


def _nulls_tested(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        key = _null_key(node)
        if key:
            yield key


def _null_key(node: ast.AST) -> str:
    """The field in `x["key"] is None`, `… is not None` or `x["key"] or …`; empty for other code.
    What `max` of no rows gives is known without having been seen."""
    match node:
        case (
            ast.Compare(
                left=ast.Subscript(slice=ast.Constant(value=str(key))),
                ops=[ast.Is() | ast.IsNot()],
                comparators=[ast.Constant(value=None)],
            )
            | ast.BoolOp(
                op=ast.Or(),
                values=[ast.Subscript(slice=ast.Constant(value=str(key))), ast.Constant()],
            )
        ):
            return "" if key in ("latest", "closed_utc") else key
    return ""


def _spoil_nulls(key: str, tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        if _null_key(node) != key:
            return node
        if isinstance(node, ast.BoolOp):
            return node.values[0]
        assert isinstance(node, ast.Compare)
        return ast.Constant(isinstance(node.ops[0], ast.IsNot))

    return spoiled(tree, replace)


def _nulls_shown(key: str, evidence: Evidence) -> bool:
    named = re.compile(rf"(?:^|[.\]]){re.escape(key)}$")
    return "NoneType" in evidence.failures or any(
        field.nulls > 0 and named.search(field.name) is not None
        for field in evidence.fields("rows", "json")
    )


# --- rows written twice, grain ----------------------------------------------------------------

DROPS = "value.drops"
"""How answers tell of a counter that goes down."""
WRITTEN, DIFFERENT = "written", "different"
"""What a count of a table's rows and one of its different rows are called."""


def _spoil_distinct(tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Constant(value=str(text)) if "SELECT DISTINCT " in text:
                return ast.Constant(text.replace("SELECT DISTINCT ", "SELECT "))
        return node

    return spoiled(tree, replace)


def _distinct_shown(evidence: Evidence) -> bool:
    return any(answer.doubled for answer in evidence.answers("rows")) or any(
        written.low is not None and different.low is not None and different.low < written.low
        for answer in evidence.answers("rows")
        for written in answer.fields
        for different in answer.fields
        if (written.name, different.name) == (WRITTEN, DIFFERENT)
    )


def _grains(tree: ast.AST) -> dict[str, int]:
    """Constants that a window's length is divided by."""
    divisors = {
        node.right.id
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and isinstance(node.right, ast.Name)
    }
    return {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int)
        and node.value.value in GRAINS
        for target in node.targets
        if isinstance(target, ast.Name)
        and target.id in divisors
        and not target.id.startswith("SLOT")
    }


def _spoil_grain(grain: int, tree: ast.Module) -> bool:
    names = {name for name, value in _grains(tree).items() if value == grain}
    finer = max(one for one in GRAINS if one < grain)

    def replace(node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in names:
                return ast.Assign(node.targets, ast.Constant(finer), lineno=node.lineno)
        return node

    return spoiled(tree, replace)


def _grain_shown(grain: int, evidence: Evidence) -> bool:
    return any(answer.step_s == grain for answer in evidence.answers("series"))


_GENERAL = [
    Quirk("sentinels", _spoil_sentinels, _sentinels_shown, "-1 and 9999 are no figures"),
    Quirk("lost link", _spoil_lost, _lost_shown, "-1 says that a link is lost"),
    Quirk("wraps", _spoil_wraps, _wraps_shown, "counters wrap"),
    Quirk("local times", spoil_local, local_shown, "times are those of the site's clocks"),
    Quirk(
        "spellings",
        partial(spoil_function, "_normalised", "text"),
        spellings_shown,
        "assets are spelled in several ways",
    ),
    Quirk(
        "coded numbers",
        partial(spoil_function, "_number", "code"),
        code_shown,
        "a code may be a text",
    ),
    Quirk(
        "coded words",
        partial(spoil_function, "_squeezed", "status or ''"),
        words_shown,
        "a status is spelled in several ways",
    ),
    Quirk("rows written twice", _spoil_distinct, _distinct_shown, "rows are written twice"),
]
