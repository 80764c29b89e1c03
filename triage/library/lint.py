"""The rules of the import policy, one syntax node at a time."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from triage.library import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSIDES = "tools do not look into the interpreter"
_ASK = "ask with `await context.ask(query)`"

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Global: ("`global`", "tools keep no state between calls"),
    ast.Nonlocal: ("`nonlocal`", "return the value instead"),
    ast.Yield: ("`yield`", "build a list: the sandbox has no generator functions"),
    ast.YieldFrom: ("`yield from`", "build a list: the sandbox has no generator functions"),
    ast.AsyncFor: ("`async for`", _ASK),
    ast.AsyncWith: ("`async with`", _ASK),
    ast.TryStar: ("`except*`", "use `except`"),
}

_WATCHED = frozenset(
    {
        *_REFUSED,
        ast.Import,
        ast.ImportFrom,
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Call,
        ast.Compare,
        ast.MatchClass,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Lambda,
        ast.ClassDef,
        ast.Try,
        ast.Await,
        ast.comprehension,
        ast.While,
    }
)

_LEAVES = frozenset({ast.Load, ast.Store, ast.Del, ast.Constant})
"""Nothing to watch in them nor below them, and half of all there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`line` is 1-based, 0 for the file as a whole."""

    line: int
    problem: str
    fix: str
    warning: bool = False

    @classmethod
    def at(cls, node: ast.AST, problem: str, fix: str, *, warning: bool = False) -> Fault:
        line: int = getattr(node, "lineno", 0)
        return cls(line=line, problem=problem, fix=fix, warning=warning)


class Lint:
    """One tree's faults. Walks without recursion, so depth costs no stack."""

    def __init__(self, tree: ast.Module, *, dynamic: bool) -> None:
        self._tree = tree
        self._async_allowed: ast.stmt | None = None
        self._modules: dict[str, str] = {}
        """Local name to the module it is bound to."""
        self._classes = {"datetime"}
        """Names of classes of `datetime`."""
        self._lasting: set[str] = set()
        """Names of what the module holds between calls."""
        for statement in tree.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    self._lasting.add(name)
                case ast.AsyncFunctionDef(name=name):
                    self._lasting.add(name)
                    if dynamic and name == "evaluate":
                        self._async_allowed = statement
                case ast.Assign(targets=targets):
                    for target in targets:
                        self._lasting.update(
                            n.id for n in ast.walk(target) if isinstance(n, ast.Name)
                        )
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self._lasting.add(name)
                case _:
                    pass

    def faults(self) -> Iterator[Fault]:
        nodes = _watched(self._tree)
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._modules[alias.asname or alias.name] = alias.name
            elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
                self._classes.update(alias.asname or alias.name for alias in node.names)
        for node in nodes:
            if type(node) is ast.Name:  # half of what is watched, and hardly ever at fault
                if node.id in rules.FORBIDDEN_NAMES or node.id.startswith("__"):
                    yield from self._name(node)
            else:
                yield from self._judge(node)

    def _judge(self, node: ast.AST) -> Iterator[Fault]:  # noqa: PLR0911, PLR0912 - one case a kind of node
        match node:
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.Compare():
                return _rounds(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node)
            case ast.Lambda():
                return _mutable_defaults(node.args)
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=ast.Name(id=owner)):
                return self._changes(node, owner)
            case ast.Import():
                return _imports(node)
            case ast.ImportFrom():
                return _imports_from(node)
            case ast.Try():
                return _tries(node)
            case ast.Await():
                return _awaits(node)
            case ast.ClassDef() if any(keyword.arg == "metaclass" for keyword in node.keywords):
                return _one(node, "a metaclass", "use a dataclass")
            case ast.comprehension(is_async=is_async) if is_async:
                return _one(node.iter, "`async for`", _ASK)
            case ast.MatchClass():
                return _matches(node)
            case ast.While():
                return _endless(node)
            case _ if type(node) in _REFUSED:
                return _one(node, *_REFUSED[type(node)])
            case _:
                return iter(())

    def _name(self, node: ast.Name) -> Iterator[Fault]:
        if node.id in rules.FORBIDDEN_NAMES:
            if isinstance(node.ctx, ast.Load):
                yield Fault.at(node, f"uses `{node.id}`", rules.FORBIDDEN_NAMES[node.id])
        elif node.id.startswith("__"):
            yield Fault.at(node, f"uses `{node.id}`", _INSIDES)

    def _attribute(self, node: ast.Attribute) -> Iterator[Fault]:
        name = node.attr
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if name.startswith("_"):
            own = owner in ("self", "cls") and not name.startswith("__")
            if not own and name not in rules.NAMEDTUPLE_ATTRIBUTES:
                yield Fault.at(node, f"reads `.{name}`", "use what is public")
        elif name in rules.INTERPRETER_ATTRIBUTES:
            yield Fault.at(node, f"reads `.{name}`", _INSIDES)
        elif name in rules.CLOCK_ATTRIBUTES:
            yield Fault.at(node, f"uses `.{name}`", "it reads the clock: use `timestamp`")
        elif owner in self._modules:
            module = self._modules[owner]
            if name not in rules.ALLOWED_IMPORTS.get(module, frozenset({name})):
                yield Fault.at(node, f"uses `{module}.{name}`", "tools may not use it")
        elif name in rules.MOMENT_MAKERS and not (self._is_class(node.value) or name in self._own):
            problem = f"uses `.{name}` of what is no class of `datetime`"
            yield Fault.at(node, problem, rules.MOMENT_MAKERS[name])
        if not isinstance(node.ctx, ast.Load):
            yield from self._changes(node, owner)

    def _is_class(self, owner: ast.expr) -> bool:
        """Whether it is one of `datetime`, by its name."""
        match owner:
            case ast.Name(id=name):
                return name in self._classes
            case ast.Attribute(value=ast.Name(id=name)):
                return self._modules.get(name) == "datetime"
            case _:
                return False

    @cached_property
    def _own(self) -> frozenset[str]:
        """Names that the tool gives to something itself: no matter of `datetime`."""
        return frozenset(filter(None, map(_given, ast.walk(self._tree))))

    def _changes(self, node: ast.AST, owner: str) -> Iterator[Fault]:
        if owner in self._lasting or owner in self._modules:
            yield Fault.at(
                node,
                f"changes `{owner}`, which outlives the call",
                "tools keep no state between calls: work on a copy under another name",
            )

    def _call(self, node: ast.Call) -> Iterator[Fault]:
        match node.func:
            case ast.Name(id="getattr" | "setattr" | "delattr" | "hasattr" as name):
                named = node.args[1] if len(node.args) > 1 else None
                if not isinstance(named, ast.Constant) or not isinstance(named.value, str):
                    yield Fault.at(node, f"`{name}` of a computed name", "write out the name")
                elif _is_inside(named.value):
                    yield Fault.at(node, f"`{name}` of `{named.value}`", "use what is public")
            case ast.Name(id="compare"):
                for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                    yield from _rounds(argument)
            case ast.Attribute(attr="format" | "format_map" as name, value=text):
                plain = isinstance(text, ast.Constant) and isinstance(text.value, str)
                if not plain or "_" in text.value:  # type: ignore[attr-defined]  # a Constant
                    yield Fault.at(
                        node,
                        f"`.{name}` of text that is not plain",
                        "use an f-string: a format can reach into what it prints",
                    )
            case ast.Attribute(attr="fromtimestamp"):
                if len(node.args) + len(node.keywords) == 1:
                    yield Fault.at(node, "`fromtimestamp` without a zone", "give it `tz=UTC`")
            case ast.Attribute(attr=name, value=ast.Name(id=owner)) if name in rules.MUTATORS:
                if owner in self._lasting:
                    yield from self._changes(node, owner)
            case _:
                pass

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Fault]:
        if isinstance(node, ast.AsyncFunctionDef) and node is not self._async_allowed:
            yield Fault.at(
                node, f"`async def {node.name}`", "only `evaluate` of a dynamic tool is async"
            )
        yield from _mutable_defaults(node.args)


def _watched(tree: ast.AST) -> list[ast.AST]:
    """Like `ast.walk` at a third of its cost, which is most of what a lint costs."""
    found = [tree]
    for node in found:
        for value in node.__dict__.values():
            kind = type(value)
            if kind is int or kind is str:
                continue
            if kind is list:
                found += [i for i in value if isinstance(i, ast.AST) and type(i) not in _LEAVES]
            elif isinstance(value, ast.AST) and kind not in _LEAVES:
                found.append(value)
    return [node for node in found if type(node) in _WATCHED]


def is_docstring(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def _given(node: ast.AST) -> str:
    """The name that something gets here, empty for none."""
    match node:
        case (
            ast.FunctionDef(name=name)
            | ast.arg(arg=name)
            | ast.Name(id=name, ctx=ast.Store())
            | ast.Attribute(attr=name, ctx=ast.Store())
        ):
            return name
        case _:
            return ""


def _one(node: ast.AST, problem: str, fix: str) -> Iterator[Fault]:
    yield Fault.at(node, problem, fix)


def _is_inside(name: str) -> bool:
    return name.startswith("_") or name in rules.INTERPRETER_ATTRIBUTES


def _imports(node: ast.Import) -> Iterator[Fault]:
    for alias in node.names:
        if alias.name == rules.TOOL_API:
            yield Fault.at(node, f"`import {alias.name}`", f"write `from {alias.name} import …`")
        elif alias.name not in rules.ALLOWED_IMPORTS:
            yield Fault.at(node, f"imports `{alias.name}`", _allowed())


def _imports_from(node: ast.ImportFrom) -> Iterator[Fault]:
    module = "." * node.level + (node.module or "")
    if module not in rules.ALLOWED_IMPORTS:
        yield Fault.at(node, f"imports from `{module}`", _allowed())
        return
    for alias in node.names:
        if alias.name not in rules.ALLOWED_IMPORTS[module]:
            fix = "name what you use" if alias.name == "*" else "tools may not use it"
            yield Fault.at(node, f"imports `{alias.name}` from `{module}`", fix)


def _allowed() -> str:
    return f"tools import only {', '.join(sorted(rules.ALLOWED_IMPORTS))}"


def _rounds(expression: ast.AST) -> Iterator[Fault]:
    for node in ast.walk(expression):
        match node:
            case ast.Call(func=ast.Name(id="round")):
                yield Fault.at(
                    node, "`round` in a comparison", "compare the value, round what is shown"
                )
            case _:
                pass


def _awaits(node: ast.Await) -> Iterator[Fault]:
    match node.value:
        case ast.Call(func=ast.Attribute(attr="ask", value=ast.Name(id="context"))):
            pass
        case _:
            yield Fault.at(node, "awaits something else than `context.ask(…)`", "only asking waits")


def _matches(node: ast.MatchClass) -> Iterator[Fault]:
    for name in node.kwd_attrs:
        if _is_inside(name):
            yield Fault.at(node, f"matches on `.{name}`", "use what is public")


def _tries(node: ast.Try) -> Iterator[Fault]:
    asks = any(isinstance(n, ast.Await) for part in node.body for n in ast.walk(part))
    for handler in node.handlers:
        if handler.type is None:
            yield Fault.at(handler, "a bare `except:`", "catch the exception you expect, by name")
        elif asks and any(
            isinstance(n, ast.Name) and n.id == "Exception" for n in ast.walk(handler.type)
        ):
            yield Fault.at(
                handler,
                "catches what `context.ask` raises",
                "that ends the node: catch the exception you expect, by name",
            )
    for part in node.finalbody:
        for n in ast.walk(part):
            if isinstance(n, ast.Return | ast.Break | ast.Continue):
                yield Fault.at(
                    n, "leaves a `finally`, which swallows the exception", "leave after it"
                )


def _mutable_defaults(args: ast.arguments) -> Iterator[Fault]:
    for default in (*args.defaults, *args.kw_defaults):
        if isinstance(default, ast.List | ast.Dict | ast.Set | ast.Call | ast.ListComp):
            yield Fault.at(
                default,
                "a default that outlives the call",
                "default to None or a tuple: tools keep no state between calls",
            )


def _endless(node: ast.While) -> Iterator[Fault]:
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if always and not any(
        isinstance(n, ast.Break | ast.Return | ast.Raise) for n in ast.walk(node)
    ):
        yield Fault.at(
            node,
            "`while True` without a way out",
            "bound the loop: `for _ in range(n)`",
            warning=True,
        )
