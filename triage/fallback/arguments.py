"""Arguments of a host function: JSON, and what the tool's schema wants."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

import orjson
from jsonschema.exceptions import (  # type: ignore[import-untyped] # it ships no types
    SchemaError,
    ValidationError,
    best_match,
)
from jsonschema.validators import (  # type: ignore[import-untyped] # likewise
    Draft202012Validator,
    validator_for,
)
from referencing import Registry
from referencing.exceptions import Unresolvable

from triage.fallback.stubs import is_plain_name

MAX_DEPTH = 32
MAX_ITEMS = 10_000
MAX_BYTES = 65_536
MAX_INTEGER = 1 << 63

_EDGE = 80  # characters: a message begins with the whole value, and ends with what is wrong


class BadArguments(Exception):
    """The call is not made; `str()` says what to change."""


class Checker:
    """`schema` is a tool's input schema, a usable one. `usage` names its arguments."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = _validator(_bytes(schema))
        properties = schema.get("properties")
        names = [name for name in properties or () if is_plain_name(name)]
        self.usage = ", ".join(f"{name}=…" for name in names[:20]) or "it takes none"

    @classmethod
    def is_usable(cls, schema: Mapping[str, Any]) -> bool:
        """Whether arguments can be held against it."""
        return _validator(_bytes(schema)) is not None

    def check(self, given: Mapping[str, Any]) -> None:
        """Raises BadArguments, which names the argument."""
        try:
            error = best_match(self._validator.iter_errors(given))
        except (RecursionError, Unresolvable, re.error) as problem:
            raise BadArguments(
                f"the tool's own schema cannot be followed ({type(problem).__name__}): leave out"
                " what is optional"
            ) from None
        if error is not None:
            raise BadArguments(_told(error))


def _bytes(schema: Mapping[str, Any]) -> bytes:
    return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


@lru_cache(256)
def _validator(schema: bytes) -> Any:
    """None for what is no schema. Compiling costs sixty times a check, and a schema seldom changes.
    References are resolved within the schema only: nothing is fetched."""
    document = orjson.loads(schema)
    try:
        kind = validator_for(document, default=Draft202012Validator)
        kind.check_schema(document)
        validator = kind(document, registry=Registry())
        best_match(validator.iter_errors({}))
    except (SchemaError, Unresolvable, RecursionError, TypeError, AttributeError, re.error):
        return None
    return validator


def _told(error: ValidationError) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    message = error.message
    if len(message) > 2 * _EDGE:
        message = f"{message[:_EDGE]}…{message[-_EDGE:]}"
    return f"argument {path!r}: {message}" if path else f"arguments: {message}"


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON types. Raises BadArguments, which names the argument, for what has no JSON form."""
    left = [MAX_ITEMS]
    return {name: _plain(value, name, 0, left) for name, value in arguments.items()}


def _plain(value: object, path: str, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        raise BadArguments(f"argument {path[:_EDGE]!r} is nested too deeply or has too many items")
    match value:
        case None | bool():
            return value
        case int() if -MAX_INTEGER <= value < MAX_INTEGER:
            return int(value)
        case float() if isfinite(value):
            return float(value)
        case str() if not _has_surrogate(value):
            return str(value)
        case list() | tuple():
            return [_plain(one, f"{path}.{at}", depth + 1, left) for at, one in enumerate(value)]
        case dict() if all(type(key) is str and not _has_surrogate(key) for key in value):
            return {
                key: _plain(one, f"{path}.{key}", depth + 1, left) for key, one in value.items()
            }
    raise BadArguments(
        f"argument {path[:_EDGE]!r} is {_kind(value)}: give text, a finite number of 64 bits, true,"
        " false, null, a list or an object; a time as text, by .isoformat()"
    )


def _kind(value: object) -> str:
    if isinstance(value, int | float):
        return str(value)[:_EDGE] if isinstance(value, float) else "a number of more than 64 bits"
    return f"a {type(value).__name__}"


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def spelled(given: Mapping[str, Any]) -> str:
    """Canonical JSON, as a Call has it. Raises BadArguments when it is too long."""
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    if len(text) > MAX_BYTES:
        raise BadArguments(f"the arguments have {len(text)} bytes, the limit is {MAX_BYTES}")
    return text
