"""What a node's sources have, as far as its question may need it: told before it is asked for.

A model that does not know the names guesses them, and a name that is guessed wrong looks like
missing data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from triage.errors import SourceFailed, ToolFailed
from triage.fallback.arguments import spelled
from triage.fallback.stubs import HostTool
from triage.model.catalogue import Column, Metric, metric_words, ranked, table_words
from triage.model.query import Call
from triage.ports import SourceCalls

MOST_METRICS = 12
MOST_TABLES = 4
MAX_TEXT = 1_600  # characters a source, some 400 tokens
MAX_NAME = 120  # characters
MAX_HELP = 120
MAX_LINE = 500
MORE = "…"
WHOLE = 100
"""Entries of a catalogue that is asked for as a whole: the same answer for every question is stored
once. Of a larger one only those are asked for that hold a word of the question."""


class Listing(NamedTuple):
    """`function` tells more of it. `text` is data from outside."""

    function: str
    text: str


class _Entry(NamedTuple):
    """`line` is the name with what is known of it."""

    name: str
    words: str
    line: str


class _Kind(NamedTuple):
    key: str
    most: int
    read: Callable[[Mapping[str, Any]], _Entry | None]


def kind_of(tool: HostTool) -> _Kind | None:
    """None for a tool that lists nothing. A server's own tool of such a name is taken for one by
    its schemas only."""
    kind = _KINDS.get(tool.tool)
    takes = _properties(tool.input_schema)
    gives = _properties(tool.output_schema or {})
    if kind is None or kind.key not in gives or not {"contains", "limit"} <= takes.keys():
        return None
    return kind


async def listings(
    calls: SourceCalls, tools: Sequence[HostTool], words: Sequence[str]
) -> tuple[Listing, ...]:
    """Of every tool that lists something; one that fails, or has nothing, is left out. These are
    none of the model's own calls, but are recorded as the node's like them."""
    asked = [(tool, kind) for tool in tools if (kind := kind_of(tool)) is not None]
    sources = [tool.source for tool, _ in asked]
    texts = await asyncio.gather(
        *(
            _text(calls, tool, kind, words, MAX_TEXT // sources.count(tool.source))
            for tool, kind in asked
        )
    )
    return tuple(
        Listing(tool.name, text) for (tool, _), text in zip(asked, texts, strict=True) if text
    )


async def _text(
    calls: SourceCalls, tool: HostTool, kind: _Kind, words: Sequence[str], limit: int
) -> str:
    """Empty when there is nothing to tell: one task that raised would cancel the others."""
    try:
        entries, is_whole = await _asked(calls, tool, kind, {"limit": WHOLE})
        if not is_whole and words:
            arguments = {"contains": " ".join(words), "limit": kind.most}
            entries, _ = await _asked(calls, tool, kind, arguments)
    except (SourceFailed, ToolFailed):
        return ""
    return "\n".join(_lines(entries, kind, words, limit))


async def _asked(
    calls: SourceCalls, tool: HostTool, kind: _Kind, arguments: Mapping[str, Any]
) -> tuple[dict[str, _Entry], bool]:
    """Entries by name, and whether there are no more."""
    answer = await calls.call(Call(tool.source, tool.tool, spelled(arguments)))
    document = answer.data if isinstance(answer.data, dict) else {}
    found: dict[str, _Entry] = {}
    for item in _listed(document.get(kind.key)):
        entry = kind.read(item) if isinstance(item, dict) else None
        if entry is not None and entry.name:
            found[entry.name] = entry
    return found, not document.get("more")


def _lines(
    entries: Mapping[str, _Entry], kind: _Kind, words: Sequence[str], limit: int
) -> Iterator[str]:
    """What fits the words with all that is known of it, then the names of the rest."""
    limit -= len(MORE) + 2
    near = ranked({name: entry.words for name, entry in entries.items()}, words) if words else []
    told = set()
    for name in near[: kind.most]:
        line = _cut(entries[name].line, MAX_LINE)
        if len(line) >= limit:
            break
        limit -= len(line) + 1
        told.add(name)
        yield line
    rest: list[str] = []
    for name in (name for name in dict.fromkeys((*near, *sorted(entries))) if name not in told):
        limit -= len(name) + 2
        if limit < 0:
            rest.append(MORE)
            break
        rest.append(name)
    if rest:
        yield ", ".join(rest)


def _metric(item: Mapping[str, Any]) -> _Entry:
    labels = tuple(_texts(item.get("labels")))
    metric = Metric(labels=labels, help=_plain(item.get("help"), MAX_HELP))
    name = _plain(item.get("name"), MAX_NAME)
    line = f"{name}{{{', '.join(labels)}}}" if labels else name
    return _Entry(name, metric_words(metric), f"{line}: {metric.help}" if metric.help else line)


def _table(item: Mapping[str, Any]) -> _Entry:
    columns = tuple(
        Column(_plain(one.get("name"), MAX_NAME), _plain(one.get("type"), MAX_NAME))
        for one in _listed(item.get("columns"))
        if isinstance(one, dict)
    )
    name = _plain(item.get("name"), MAX_NAME)
    inside = ", ".join(f"{column.name} {column.type}".rstrip() for column in columns)
    return _Entry(name, table_words(columns), f"{name}({inside})")


_KINDS = {
    "metrics": _Kind("metrics", MOST_METRICS, _metric),
    "tables": _Kind("tables", MOST_TABLES, _table),
}


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> Iterator[str]:
    for one in _listed(value):
        if text := _plain(one, MAX_NAME):
            yield text


def _plain(value: object, limit: int) -> str:
    """On one line. Empty for what is no text."""
    if not isinstance(value, str):
        return ""
    printable = "".join(c if c.isprintable() else " " for c in value)
    return _cut(" ".join(printable.split()), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
