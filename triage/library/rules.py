"""What a tool's source may use: the tables of the import policy.

It is a lint, not a wall. It keeps approved tools pure, deterministic and able to run in the
sandbox's interpreter as well as in this one; what stops hostile code is the sandbox.
"""

from __future__ import annotations

import bisect
import builtins
import collections
import dataclasses
import datetime
import decimal
import functools
import itertools
import json
import math
import re
import typing
from types import ModuleType

from triage import tool_api

if typing.TYPE_CHECKING:
    from collections.abc import Mapping

TOOL_API = "triage.tool_api"

_MODULES: Mapping[str, ModuleType] = {
    "bisect": bisect,
    "collections": collections,
    "dataclasses": dataclasses,
    "datetime": datetime,
    "decimal": decimal,
    "functools": functools,
    "itertools": itertools,
    "json": json,
    "math": math,
    "re": re,
    "typing": typing,
}

_WITHHELD: Mapping[str, frozenset[str]] = {
    # Caches outlive a call: what a tool answers must not depend on what it was asked before.
    "functools": frozenset({"cache", "cached_property", "lru_cache", "singledispatch"}),
    "decimal": frozenset({"getcontext", "setcontext"}),
    "dataclasses": frozenset({"make_dataclass"}),
    "typing": frozenset({"ForwardRef", "get_type_hints"}),
    "json": frozenset({"dump", "load"}),
}


def _offered(name: str, module: ModuleType) -> frozenset[str]:
    """Public names that are no modules: `dataclasses.sys` would be a way to everything."""
    return frozenset(
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and not isinstance(value, ModuleType)
    ) - _WITHHELD.get(name, frozenset())


ALLOWED_IMPORTS: Mapping[str, frozenset[str]] = {
    **{name: _offered(name, module) for name, module in _MODULES.items()},
    "__future__": frozenset({"annotations"}),
    TOOL_API: frozenset(tool_api.__all__),
}
"""Module to the names that may be taken from it."""

_SAFE_BUILTINS = [
    "abs",
    "all",
    "any",
    "bool",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "complex",
    "delattr",
    "dict",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "hasattr",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "object",
    "oct",
    "hex",
    "bin",
    "ord",
    "pow",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "super",
    "tuple",
    "type",
    "zip",
    "Ellipsis",
    "NotImplemented",
    "__build_class__",
]

SAFE_BUILTINS: Mapping[str, object] = {
    **{name: getattr(builtins, name) for name in _SAFE_BUILTINS},
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, Exception)
    },
}
"""All a tool finds as built in, besides an `__import__` that knows only ALLOWED_IMPORTS."""

_PURE = "tools do no I/O; answers come from `context`"
_NO_CODE = "tools do not make code"
_NO_INSIDES = "tools do not look into the interpreter"
_NO_ENDING = "a tool answers; raise ValueError for what cannot be"

FORBIDDEN_NAMES: Mapping[str, str] = {
    "open": _PURE,
    "print": _PURE,
    "input": _PURE,
    "breakpoint": _PURE,
    "help": _PURE,
    "eval": _NO_CODE,
    "exec": _NO_CODE,
    "compile": _NO_CODE,
    "globals": _NO_INSIDES,
    "locals": _NO_INSIDES,
    "vars": _NO_INSIDES,
    "dir": _NO_INSIDES,
    "memoryview": _NO_INSIDES,
    "exit": _NO_ENDING,
    "quit": _NO_ENDING,
    "SystemExit": _NO_ENDING,
    "KeyboardInterrupt": _NO_ENDING,
    "GeneratorExit": _NO_ENDING,
    "BaseException": "catch the exception you expect, by name",
    "BaseExceptionGroup": "catch the exception you expect, by name",
    "hash": "differs from one process to the next; compare the values themselves",
    "id": "differs from one process to the next; compare the values themselves",
    "aiter": "ask with `await context.ask(query)`",
    "anext": "ask with `await context.ask(query)`",
    "sum": "use `math.fsum`: the order of floats must not change the sum; count with `len`",
}
"""Builtin to why, or to what to use instead."""

CLOCK_ATTRIBUTES = frozenset({"now", "today", "utcnow"})

_CLASS_ONLY = "the sandbox has it on the class only"
_NOWHERE = "reckon with `timedelta`: the sandbox does not have it"

MOMENT_MAKERS: Mapping[str, str] = {
    "combine": f"write `datetime.combine(…)`: {_CLASS_ONLY}",
    "fromisoformat": f"write `datetime.fromisoformat(…)`: {_CLASS_ONLY}",
    "fromtimestamp": f"write `datetime.fromtimestamp(…, tz=UTC)`: {_CLASS_ONLY}",
    "strptime": f"write `datetime.strptime(…)`: {_CLASS_ONLY}",
    "utcfromtimestamp": "write `datetime.fromtimestamp(…, tz=UTC)`",
    "fromisocalendar": _NOWHERE,
    "fromordinal": _NOWHERE,
}
"""What the classes of `datetime` make moments with, to what to write when it is asked of a moment:
CPython finds it there, the sandbox's interpreter does not."""

INTERPRETER_ATTRIBUTES = frozenset(
    [
        "ag_code",
        "ag_frame",
        "co_code",
        "cr_code",
        "cr_frame",
        "f_back",
        "f_builtins",
        "f_code",
        "f_globals",
        "f_locals",
        "gi_code",
        "gi_frame",
        "mro",
        "tb_frame",
        "tb_next",
    ]
)

NAMEDTUPLE_ATTRIBUTES = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Public in spite of the underscore."""

MUTATORS = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    ]
)
