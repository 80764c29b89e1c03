"""What goes to a tool and what comes from it, against the tool's own schemas.

Results are not left to the library to check: it does that on the event loop, at 35 µs a number,
and an answer of a mebibyte held up every other alert for 1.6 s.
"""

from __future__ import annotations

import asyncio
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
    from collections.abc import Mapping

    from mcp_types import CallToolResult, InputRequiredResult, Tool

_EDGE = 150  # characters: a message begins with all of the value, and ends with what is wrong
_AT_ONCE = 2048  # bytes of a result that are checked on the event loop: some milliseconds


def argument_fault(tool: Tool, given: dict[str, Any]) -> str:
    """What is wrong with the arguments, naming one; empty when nothing is.

    Raises SourceFailed when the server's schema is none.
    """
    return _fault(tool, "inputSchema", tool.input_schema, given, "argument")


async def check_result(
    tool: Tool, result: CallToolResult | InputRequiredResult, value: Any, size: int
) -> None:
    """`value` is the result's structured content, `size` its bytes. Raises SourceFailed when it is
    not what the tool's output schema promises; may be cancelled."""
    schema = tool.output_schema
    if schema is None:
        return
    if "structured_content" not in result.model_fields_set:
        problem = "no structured content, though its outputSchema promises some"
    elif size <= _AT_ONCE:
        problem = _fault(tool, "outputSchema", schema, value, "result")
    else:
        problem = await asyncio.to_thread(_fault, tool, "outputSchema", schema, value, "result")
    if problem:
        raise SourceFailed(SourceFailure.PROTOCOL, f"the server broke its word: {problem}")


def _fault(tool: Tool, where: str, schema: Mapping[str, Any], value: Any, what: str) -> str:
    try:
        validator = _validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))
        error = best_match(validator.iter_errors(value))
    except (SchemaError, Unresolvable, TypeError) as problem:
        raise SourceFailed(
            SourceFailure.PROTOCOL, f"tool {tool.name!r} has an invalid {where}: {problem}"
        ) from None
    if error is None:
        return ""
    path = ".".join(str(step) for step in error.absolute_path)
    message = error.message
    if len(message) > 2 * _EDGE:
        message = f"{message[:_EDGE]}…{message[-_EDGE:]}"
    return f"{what} {path!r}: {message}" if path else f"{what}s: {message}"


@lru_cache(256)
def _validator(schema: bytes) -> Any:
    """Compiling costs sixty times a check, and a schema seldom changes. References are resolved
    within the schema only: nothing is fetched."""
    document = orjson.loads(schema)
    kind = validator_for(document)
    kind.check_schema(document)
    return kind(document, registry=Registry())
