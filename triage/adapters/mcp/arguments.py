"""Arguments against a tool's own schema, before anything is sent."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from jsonschema import SchemaError  # type: ignore[import-untyped] # it ships no types
from jsonschema.exceptions import best_match  # type: ignore[import-untyped] # likewise
from jsonschema.validators import validator_for  # type: ignore[import-untyped] # likewise
from referencing import Registry
from referencing.exceptions import Unresolvable

from triage.errors import SourceFailed, SourceFailure

if TYPE_CHECKING:
    from mcp_types import Tool


def fault(tool: Tool, given: dict[str, Any]) -> str:
    """What is wrong with the arguments, naming one; empty when nothing is.

    Raises SourceFailed when the server's schema is none.
    """
    try:
        validator = _validator(orjson.dumps(tool.input_schema, option=orjson.OPT_SORT_KEYS))
        error = best_match(validator.iter_errors(given))
    except (SchemaError, Unresolvable, TypeError) as problem:
        raise SourceFailed(
            SourceFailure.PROTOCOL, f"tool {tool.name!r} has an invalid inputSchema: {problem}"
        ) from None
    if error is None:
        return ""
    path = ".".join(str(step) for step in error.absolute_path)
    return f"argument {path!r}: {error.message}" if path else f"arguments: {error.message}"


@lru_cache(256)
def _validator(schema: bytes) -> Any:
    """Compiling costs sixty times a check, and a schema seldom changes. References are resolved
    within the schema only: nothing is fetched."""
    document = orjson.loads(schema)
    kind = validator_for(document)
    kind.check_schema(document)
    return kind(document, registry=Registry())
