"""From a tool's code to its two functions, in a namespace of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from triage.errors import Finding, ToolFailed, ToolFailure
from triage.library import rules

Functions = tuple[Callable[..., Any] | None, Callable[..., Any]]
"""`queries`, None for a dynamic tool, and `evaluate`."""


class Broken(Exception):
    """A node has no usable tool. Never leaves this package."""

    def __init__(self, failure: ToolFailure, *findings: Finding) -> None:
        super().__init__()
        self.failure = failure
        self.findings = findings


class Namespaces:
    """Makes them. All tools of one load share the builtins that the policy allows."""

    def __init__(self) -> None:
        self._builtins = {**rules.SAFE_BUILTINS, "__import__": _import_allowed}

    def functions(self, code: CodeType, *, file: str, node: str, dynamic: bool) -> Functions:
        """Runs the file's top level. Raises Broken, with a finding in `file`."""

        def broken(failure: ToolFailure, problem: str) -> Broken:
            return Broken(
                failure,
                Finding(
                    file=file,
                    where=node,
                    problem=problem,
                    fix="promote a mended version or roll back",
                ),
            )

        # Dataclasses with string annotations look their module up in sys.modules, where a tool
        # is not; under this name they find one that has what tools may name.
        module = ModuleType(rules.TOOL_API, None)
        module.__dict__["__builtins__"] = self._builtins
        try:
            exec(code, module.__dict__)  # noqa: S102 - verified by hash, approved by a person
        except Exception as error:  # noqa: BLE001 - whatever it raises is the tool's failure
            detail = f"{type(error).__name__}: {error}"
            raise broken(ToolFailure.RAISED, f"raised while loading: {detail}") from None
        queries = module.__dict__.get("queries")
        evaluate = module.__dict__.get("evaluate")
        if not isinstance(evaluate, FunctionType):
            raise broken(ToolFailure.INVALID_RESULT, "`evaluate` is not a function")
        if inspect.iscoroutinefunction(evaluate) is not dynamic:
            raise broken(ToolFailure.INVALID_RESULT, "`evaluate` and `dynamic` disagree")
        if dynamic:
            return None, evaluate
        if not isinstance(queries, FunctionType):
            raise broken(ToolFailure.INVALID_QUERIES, "`queries` is not a function")
        return queries, evaluate


class Deferred:
    """A tool's functions, made when one of them is first called: one millisecond then, and not
    thousands of them at a start. For sources that are known to load.

    Belongs to one thread. Holds the verified bytes until then, and nothing of the file later.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Functions]) -> None:
        self._make: Callable[[], Functions] | None = make
        self._made: Functions | None = None

    def queries(self, *arguments: Any) -> Any:
        """Raises ToolFailed when the functions cannot be made after all."""
        queries, _ = self._made or self._functions()
        assert queries is not None, "a dynamic tool has no `queries` to be called"
        return queries(*arguments)

    def evaluate(self, *arguments: Any) -> Any:
        """As `queries`; for a dynamic tool what it returns is awaited."""
        _, evaluate = self._made or self._functions()
        return evaluate(*arguments)

    def _functions(self) -> Functions:
        assert self._make is not None
        try:
            self._made = self._make()
        except Broken as broken:
            raise ToolFailed(broken.failure, broken.findings[0].problem) from None
        self._make = None
        return self._made


_IMPORTED_BY_C = frozenset({"time", "_strptime"})


def _import_allowed(
    name: str,
    globals_: Mapping[str, object] | None = None,
    locals_: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if isinstance(fromlist, list) and name in _IMPORTED_BY_C:
        # PyImport_Import, and no import statement: it looks up the builtins of the frame that
        # called strftime, and keeps the module from the tool.
        return __import__(name)
    if level or name not in rules.ALLOWED_IMPORTS:
        raise ImportError(f"tools may not import {name!r}")
    return __import__(name, globals_, locals_, fromlist or (), level)
