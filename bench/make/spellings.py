"""Quirks of how things are written: times of the site's clocks, assets, codes and words."""

from __future__ import annotations

import ast
import re

from bench.make.evidence import Evidence
from bench.make.spoiling import spoiled


def spoil_local(tree: ast.Module) -> bool:
    def replace(node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Call(func=ast.Attribute(attr="wall_clock"), args=[moment]):
                return moment
            case ast.Call(func=ast.Attribute(attr="localise"), keywords=[_]):
                text = ast.BinOp(node.args[0], ast.Add(), ast.Constant("Z"))
                return ast.Call(node.func, [text], [])
        return node

    return spoiled(tree, replace)


def local_shown(evidence: Evidence) -> bool:
    return any("local timestamp" in field.types for field in evidence.fields("rows", "json"))


def spoil_function(name: str, returned: str, tree: ast.Module) -> bool:
    """A function that brings things to one form gives back what it was given."""
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and one.name == name:
            body = ast.parse(f"return {returned}").body
            if ast.unparse(one.body[-1]) != ast.unparse(body[0]):
                one.body = body
                ast.fix_missing_locations(tree)
                return True
    return False


_ASSET = re.compile(r"([A-Za-z]{2,})[ _-]?(\d+)")
_PLAIN_ASSET = re.compile(r"[A-Z]{2,4}-\d+")


def spellings_shown(evidence: Evidence) -> bool:
    texts = [*evidence.entities]
    for field in evidence.fields("series", "readings", "rows", "json"):
        texts += re.findall(r'"([^"]*)"', field.examples)
    return any(_ASSET.fullmatch(one) and not _PLAIN_ASSET.fullmatch(one) for one in texts)


def code_shown(evidence: Evidence) -> bool:
    return any(
        re.search(r"\bcode$", field.name) and "text" in field.types
        for field in evidence.fields("json", "rows")
    )


def words_shown(evidence: Evidence) -> bool:
    return any(
        field.name.endswith("status")
        and any(
            one != one.lower() or " " in one for one in re.findall(r'"([^"]*)"', field.examples)
        )
        for field in evidence.fields("rows", "json")
    )
