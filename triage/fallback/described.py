"""Host functions as a model reads of them. All of it is data from their servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triage.fallback.stubs import HostTool, shape, signature

MAX_DESCRIPTION = 420  # characters, of a function
MAX_ARGUMENT = 130  # of an argument
MAX_SHAPE = 300
MAX_ALL = 6_000
"""Of all descriptions: the functions after that have a signature only."""


def described(tools: Sequence[HostTool]) -> str:
    """A signature a function, with what it does, takes and gives. What was said of one function
    is not said again of the next."""
    lines: list[str] = []
    said: set[str] = set()
    left = MAX_ALL
    for tool in tools:
        lines.append(signature(tool))
        for line in _told(tool):
            if line not in said and len(line) <= left:
                said.add(line)
                left -= len(line)
                lines.append(line)
    return "\n".join(lines)


def _told(tool: HostTool) -> Iterator[str]:
    if tool.description:
        yield f"    {_short(tool.description, MAX_DESCRIPTION)}"
    properties = tool.input_schema.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        if text := _about(schema):
            yield f"    {_short(str(name), MAX_ARGUMENT)}: {text}"
    if tool.output_schema is not None:
        yield f'    r["data"]: {_short(shape(tool.output_schema, tool.output_schema), MAX_SHAPE)}'


def _about(schema: Any) -> str:
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return _short(text, MAX_ARGUMENT) if isinstance(text, str) else ""


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
