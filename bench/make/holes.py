"""The names in a tool that belong to a site's data, and wrong guesses at them.

A model that knows how such a question is answered knows what the code looks like. It does not know
what this site calls its metrics, labels, tables, columns, fields and their values: each of those
names is a hole until it was seen, and a guess fills it, made of the name's own words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Literal, NamedTuple

from bench.cases.mutation import called
from bench.world.catalogue import PREFIX

Kind = Literal["metric", "family", "word", "label", "call", "argument", "field", "value"]
"""`family`: what the metrics that a loop makes of `word`s have in common. `field`: a table, a
column or a key of JSON."""


class Hole(NamedTuple):
    kind: Kind
    name: str


class Place(NamedTuple):
    """Where a hole is in a tree; `put` writes another name there."""

    hole: Hole
    put: Callable[[str], None]


_NAME = re.compile(r"[a-z]\w*")
_SQL_NAME = re.compile(r"(?<![:\w'])[a-z_]\w*(?![\w'(])")
_SQL_VALUE = re.compile(r"'([^']*)'")
_SQL_ALIAS = re.compile(r"\bAS ([a-z_]\w*)")
_NOT_DATA = frozenset({"facts", "layout", "params", "units", "in_lane"})
"""What tools call things that are no answers of a source."""


def holes_of(tree: ast.Module) -> dict[Hole, None]:
    """In the order of the file."""
    return dict.fromkeys(place.hole for place in places(tree))


def fill(tree: ast.Module, hole: Hole, name: str) -> bool:
    """Writes `name` wherever the hole is; whether it is anywhere."""
    found = [place for place in places(tree) if place.hole == hole]
    for place in found:
        place.put(name)
    return bool(found)


def unfill(tree: ast.Module, hole: Hole, name: str) -> None:
    """Writes the hole's own name wherever `name` was written into it."""
    fill(tree, Hole(hole.kind, name), hole.name)
    if hole.kind in ("metric", "value"):
        # A guess may look like no name of its kind.
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == name:
                node.value = hole.name


def is_seen(hole: Hole, text: str) -> bool:
    """Whether that very name stands in the text. A word of a family is seen in the middle of a
    metric's name, a value also in another spelling."""
    name = re.escape(hole.name)
    match hole.kind:
        case "family":
            first, last = map(re.escape, hole.name.split("*"))
            return re.search(rf"(?<!\w){first}\w+{last}(?!\w)", text) is not None
        case "word" | "call":
            # A tool of a server is a host function under its source's name.
            return re.search(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])", text) is not None
        case "value":
            squeezed = re.sub(r"(?<=\w)[ _-](?=\w)", "", text)
            return any(
                re.search(rf"(?<!\w){name}(?!\w)", one, re.IGNORECASE) for one in (text, squeezed)
            )
        case _:
            return re.search(rf"(?<!\w){name}(?!\w)", text) is not None


# --- where they are ---------------------------------------------------------------------------


def places(tree: ast.Module) -> Iterator[Place]:
    iterated = _iterated(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                yield from _of_call(node)
            case ast.Subscript():
                yield from _of_key(node)
            case ast.Compare() if ".units" not in ast.unparse(node.left):
                yield from _of_values(node.comparators)
            case ast.Assign(value=ast.Tuple() as listed) if listed not in iterated:
                yield from _of_values(listed.elts)
            case ast.Tuple() if node in iterated:
                yield from _of_words(node)
            case ast.Constant(value=str(text)):
                yield from _of_text(node, text)


def _of_text(node: ast.Constant, text: str) -> Iterator[Place]:
    if "SELECT" in text:
        yield from _of_sql(node)
    elif _is_metric(text) and not text.endswith("_"):  # what ends so begins a family
        yield Place(Hole("metric", text), partial(_set_value, node))


def _is_metric(text: str) -> bool:
    return text.startswith(PREFIX) and _NAME.fullmatch(text) is not None


def _texts(nodes: Sequence[ast.expr]) -> Iterator[tuple[ast.Constant, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def _of_words(listed: ast.Tuple) -> Iterator[Place]:
    for one, text in _texts(listed.elts):
        if not text.startswith(PREFIX):
            yield Place(Hole("word", text), partial(_set_value, one))


def _of_call(node: ast.Call) -> Iterator[Place]:
    name = called(node)
    if name in ("selector", "call"):
        kind: Kind = "label" if name == "selector" else "argument"
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield Place(Hole(kind, keyword.arg), partial(setattr, keyword, "arg"))
    if name == "call" and isinstance(node.args[1], ast.Constant):
        yield Place(Hole("call", str(node.args[1].value)), partial(_set_value, node.args[1]))
    if name == "selector" and isinstance(node.args[0], ast.JoinedStr):
        first, *_, last = node.args[0].values
        if isinstance(first, ast.Constant) and isinstance(last, ast.Constant):
            hole = Hole("family", f"{first.value!s}*{last.value!s}")
            yield Place(hole, partial(_set_family, first, last))
    match node:
        case ast.Call(
            func=ast.Attribute(attr="get", value=base), args=[ast.Constant(value=str(key)), *_]
        ) if _NAME.fullmatch(key):
            constant = node.args[0]
            assert isinstance(constant, ast.Constant)
            if isinstance(base, ast.Attribute) and base.attr == "labels":
                yield Place(Hole("label", key), partial(_set_value, constant))
            elif isinstance(base, ast.Name) and base.id not in _NOT_DATA:
                yield Place(Hole("value", key), partial(_set_value, constant))


def _of_key(node: ast.Subscript) -> Iterator[Place]:
    key = node.slice
    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
        return
    named = {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node.value)
        if isinstance(one, ast.Name | ast.Attribute)
    }
    if _NAME.fullmatch(key.value) and not named & _NOT_DATA and key.value != "latest":
        yield Place(Hole("field", key.value), partial(_set_value, key))


def _of_values(nodes: Sequence[ast.expr]) -> Iterator[Place]:
    for node in nodes:
        for one, text in _texts(node.elts if isinstance(node, ast.Tuple) else [node]):
            if _NAME.fullmatch(text) and not text.startswith(PREFIX):
                yield Place(Hole("value", text), partial(_set_value, one))


def _of_sql(node: ast.Constant) -> Iterator[Place]:
    text = str(node.value)
    for value in dict.fromkeys(_SQL_VALUE.findall(text)):
        if value:
            yield Place(Hole("value", value), partial(_set_sql_value, node, value))
    # An alias of ours is no name of the data, unless it is one of its columns as well.
    own = {one for one in _SQL_ALIAS.findall(text) if text.count(one) == 1}
    for name in dict.fromkeys(_SQL_NAME.findall(_SQL_VALUE.sub("''", text))):
        if len(name) > 1 and name not in own:
            yield Place(Hole("field", name), partial(_set_sql_name, node, name))


def _iterated(tree: ast.Module) -> set[ast.Tuple]:
    """Tuples of names that a loop makes metrics of."""
    looped: list[tuple[ast.expr, ast.expr]] = [
        (one.target, one.iter)
        for one in ast.walk(tree)
        if isinstance(one, ast.comprehension | ast.For)
    ]
    inside = {
        value.value.id
        for joined in ast.walk(tree)
        if isinstance(joined, ast.Call) and called(joined) == "selector"
        for part in ast.walk(joined.args[0])
        if isinstance(part, ast.JoinedStr)
        for value in part.values
        if isinstance(value, ast.FormattedValue) and isinstance(value.value, ast.Name)
    }
    named = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Tuple)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    found: set[ast.Tuple] = set()
    for target, source in looped:
        if isinstance(target, ast.Name) and target.id in inside:
            if isinstance(source, ast.Tuple):
                found.add(source)
            elif isinstance(source, ast.Name) and source.id in named:
                found.add(named[source.id])
    return found


def _set_value(node: ast.Constant, name: str) -> None:
    node.value = name


def _set_family(first: ast.Constant, last: ast.Constant, name: str) -> None:
    first.value, last.value = name.split("*")


def _set_sql_value(node: ast.Constant, old: str, name: str) -> None:
    node.value = str(node.value).replace(f"'{old}'", f"'{name}'")


def _set_sql_name(node: ast.Constant, old: str, name: str) -> None:
    node.value = re.sub(rf"(?<![:\w']){re.escape(old)}(?![\w'(])", name, str(node.value))


# --- guesses ----------------------------------------------------------------------------------


def guess(hole: Hole, taken: Collection[str]) -> str:
    """A name that someone might have given it, and that none of `taken` is. Always the same."""
    forms = [
        form
        for form in dict.fromkeys(_forms(hole))
        if form != hole.name and form not in taken and form
    ]
    digest = sha256(f"{hole.kind}/{hole.name}".encode()).digest()
    return forms[digest[0] % len(forms)]


def _forms(hole: Hole) -> Iterator[str]:
    words = hole.name.split("_")
    match hole.kind:
        case "family":
            first, last = hole.name.split("*")
            own = first.removeprefix(PREFIX)
            yield f"{own}*{last}"
            yield f"site_{own}*{last}"
            yield f"{first}*_count"
        case "metric":
            yield "_".join(words[1:])
            yield "_".join(("site", *words[1:]))
            yield "_".join((*words[:-1], _plural(words[-1])))
        case "value":
            yield _plural(hole.name)
            yield hole.name.upper()
            yield f"is_{hole.name}"
        case "call":
            yield f"get_{hole.name}"
            yield f"{hole.name}_status"
            yield f"read_{hole.name}"
        case _:
            if len(words) > 1:
                yield "_".join((*words[1:], words[0]))
                yield words[0] + "".join(map(str.capitalize, words[1:]))
            yield "_".join((*words[:-1], _plural(words[-1])))
            yield f"{hole.name}_value"


def _plural(word: str) -> str:
    return word[:-1] if word.endswith("s") else f"{word}s"
