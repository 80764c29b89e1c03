"""Declarations for the sandbox's type checker, and shapes for the reader, from JSON Schemas.

A schema comes from an MCP server: nothing of it becomes Python text but names that are plain
identifiers, and constants spelled by `repr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from keyword import iskeyword
from typing import Any

FILE = "prelude_stubs.py.txt"
MAX_DEPTH = 6
MAX_CONSTANTS = 40

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_BOUND = re.compile(r"^(?:class )?([A-Za-z]\w*)(?: =|:|\()", re.MULTILINE)
_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "Sequence[Any]",
    "object": "Mapping[str, Any]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTool:
    """One host function: `name` is what code calls, `tool` what its source has. Description and
    schemas are as the server gave them, data from outside."""

    name: str
    source: str
    tool: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None


def stubs(tools: Iterable[HostTool]) -> str:
    """Of the prelude, the inputs, `submit` and every tool. Reads a file of this package."""
    return "\n".join([prelude_stubs(), *(f"{signature(tool)}: ..." for tool in tools), ""])


def prelude_stubs() -> str:
    folder = resources.files(__package__ or "triage.fallback")
    return folder.joinpath(FILE).read_text(encoding="utf-8")


def bound_names(declarations: str) -> frozenset[str]:
    """Names that the sandbox has before there is any host function."""
    return frozenset(_BOUND.findall(declarations))


def signature(tool: HostTool) -> str:
    """`async def name(*, …) -> Envelope`, without a body. Keyword-only; what has no Python name,
    or may be anything, is `**others`."""
    parameters = list(_parameters(tool.input_schema))
    named = ["*", *parameters] if parameters else []
    others = ["**others: Any"] if _is_open(tool.input_schema) else []
    return f"async def {tool.name}({', '.join([*named, *others])}) -> Envelope"


def _parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    required = _listed(schema.get("required"))
    for name, inner in _properties(schema).items():
        if is_plain_name(name):
            default = "" if name in required else " = ..."
            yield f"{name}: {python_type(inner, schema)}{default}"


def is_plain_name(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and not iskeyword(name)


def _is_open(schema: Mapping[str, Any]) -> bool:
    properties = _properties(schema)
    if any(not is_plain_name(name) for name in properties):
        return True
    additional = schema.get("additionalProperties")
    if additional is None:
        return not properties
    return additional is not False


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def python_type(  # noqa: PLR0911 - one form of a schema a return
    schema: object, root: Mapping[str, Any], depth: int = 0
) -> str:
    """The Python type of what the schema allows, `Any` where that cannot be said."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return "Any"
    if "$ref" in schema:
        return python_type(resolved(schema["$ref"], root), root, depth + 1)
    constants = [schema["const"]] if "const" in schema else _listed(schema.get("enum"))
    if constants:
        return _literal(constants)
    for choice in ("anyOf", "oneOf"):
        if options := _listed(schema.get(choice)):
            return _union(python_type(option, root, depth + 1) for option in options)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union(python_type({**schema, "type": one}, root, depth + 1) for one in kind)
    if kind == "array" and "items" in schema:
        return f"Sequence[{python_type(schema['items'], root, depth + 1)}]"
    values = schema.get("additionalProperties")
    if kind == "object" and isinstance(values, Mapping) and not _properties(schema):
        return f"Mapping[str, {python_type(values, root, depth + 1)}]"
    return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"


def resolved(reference: object, root: Mapping[str, Any]) -> object:
    """What a `$ref` within the schema names, None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: object = root
    for step in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _literal(constants: Sequence[Any]) -> str:
    if len(constants) > MAX_CONSTANTS:
        return "Any"
    if not all(one is None or type(one) in (str, int, bool) for one in constants):
        return "Any"
    return f"Literal[{', '.join(map(repr, constants))}]"


def _union(types: Iterable[str]) -> str:
    found = list(dict.fromkeys(types))
    return "Any" if not found or "Any" in found else " | ".join(found)


def shape(  # noqa: PLR0911 - one form of a schema a return
    schema: object, root: Mapping[str, Any], depth: int = 0
) -> str:
    """What a result looks like, for a reader: `{"rows": [{…}]}`."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return "any"
    if "$ref" in schema:
        return shape(resolved(schema["$ref"], root), root, depth + 1)
    if constants := _listed(schema.get("enum")):
        return " | ".join(repr(one) for one in constants[:MAX_CONSTANTS])
    for choice in ("anyOf", "oneOf"):
        if options := _listed(schema.get(choice)):
            return " | ".join(shape(option, root, depth + 1) for option in options)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(str(one) for one in kind)
    if kind == "array":
        return f"[{shape(schema.get('items'), root, depth + 1)}, ...]"
    if kind == "object":
        return _object_shape(schema, root, depth)
    return kind if isinstance(kind, str) else "any"


def _object_shape(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties = _properties(schema)
    if not properties:
        additional = schema.get("additionalProperties")
        inner = shape(additional, root, depth + 1) if isinstance(additional, Mapping) else "any"
        return f"{{name: {inner}, ...}}"
    inside = (f'"{name}": {shape(inner, root, depth + 1)}' for name, inner in properties.items())
    return "{" + ", ".join(inside) + "}"
