"""A seen answer as a model reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from triage.maker.model import SeenAnswer, SeenField
from triage.maker.seen_fields import MORE, spelled

COLUMNS = ("field", "types", "count", "nulls", "low", "high", "examples")
NONE = "-"
"""In a table, for what a field does not have."""
MAX_EXAMPLES = 160  # characters of a field's examples in its line
LEFT_OUT = "left out"
"""The kind of what stands for queries that are not told: `{"kind": "left out", "count": 7}`."""
NOTHING = {
    "series": "no series has a sample in the window",
    "readings": "no series has a sample in the window",
    "rows": "no rows",
    "json": "nothing",
}
_IN_WORDS = {
    "series": frozenset(("time", "time.last")),
    "rows": frozenset(("rows.doubled",)),
}
"""Fields that are told beside the answer's size, and not in its table."""
_NO_FIELDS: frozenset[str] = frozenset()


def described(answer: SeenAnswer) -> str:
    """The query in full, then what came of it, as in the example of `maker.seen`. Data from
    outside: to be put between fences."""
    return "\n".join((*_asked(answer.query), *_told(answer)))


def _asked(query: Mapping[str, Any]) -> Iterator[str]:
    match query:
        case {"kind": "samples" | "aggregate" as kind, "source": source, "selector": selector}:
            yield f"query: {kind} {_line(source)} {_block(selector)}"
            yield f"window: {_window(query)}"
            if kind == "aggregate":
                quantile = f" {query['quantile']}" if "quantile" in query else ""
                yield f"function: {_line(query.get('function', ''))}{_line(quantile)}"
        case {"kind": "rows", "source": source, "sql": sql}:
            yield f"query: rows {_line(source)} {_block(sql)}"
            if params := query.get("params"):
                yield f"params: {_json(params)}"
        case {"kind": "call", "source": source, "tool": tool}:
            yield f"query: call {_line(source)} {_line(tool)}"
            yield f"arguments: {_json(query.get('arguments', {}))}"
        case {"kind": "left out", "count": int(count)}:
            yield f"{MORE} {count} more queries, left out"
        case _:
            yield f"query: {_json(query)}"


def _window(query: Mapping[str, Any]) -> str:
    length, before = query.get("window_s"), query.get("before_s", 0)
    if not isinstance(length, int | float):
        return f"{_line(query.get('start', '?'))} to {_line(query.get('end', '?'))}"
    if "end" in query:
        return f"{_figure(length)} s to {_line(query['end'])}"
    if not isinstance(before, int | float) or before == 0:
        return f"{_figure(length)} s to the timestamp"
    side = "before" if before > 0 else "after"
    return f"{_figure(length)} s to {_figure(abs(before))} s {side} the timestamp"


def _told(answer: SeenAnswer) -> Iterator[str]:
    if answer.query.get("kind") == LEFT_OUT:
        return
    if answer.failure:
        yield f"answer: failed: {_line(answer.failure)}"
        return
    if not answer.size:
        yield f"answer: empty: {NOTHING.get(answer.kind, 'nothing')}"
        return
    in_words = _IN_WORDS.get(answer.kind, _NO_FIELDS)
    kept = {field.name: field for field in answer.fields if field.name in in_words}
    yield f"answer: {', '.join(_summary(answer, kept))}"
    listed = [field for field in answer.fields if field.name not in kept]
    if listed:
        yield _row(COLUMNS)
    for field in listed:
        yield field.name if field.name.startswith(MORE) else _row(_cells(field))


def _summary(answer: SeenAnswer, kept: Mapping[str, SeenField]) -> Iterator[str]:
    yield f"{answer.size} {'values' if answer.kind == 'json' else answer.kind}"
    if answer.step_s is not None:
        yield f"a sample every {_figure(answer.step_s)} s"
    if answer.gaps:
        yield f"{answer.gaps} gaps"
    time, last = kept.get("time"), kept.get("time.last")
    if time is not None and time.low is not None and time.high is not None:
        yield f"from {_figure(time.low)} s to {_figure(time.high)} s"
        step_s = answer.step_s or 0
        if last is not None and last.low is not None and time.high - last.low > 2 * step_s:
            yield f"one series stops at {_figure(last.low)} s"
    if "rows.doubled" in kept:
        yield f"{kept['rows.doubled'].count} of them doubled"


def _cells(field: SeenField) -> tuple[str, ...]:
    return (
        field.name,
        ", ".join(field.types) or NONE,
        str(field.count),
        str(field.nulls),
        NONE if field.low is None else _figure(field.low),
        NONE if field.high is None else _figure(field.high),
        _examples(field.examples) or NONE,
    )


def _row(cells: Sequence[str]) -> str:
    return " | ".join(cells)


def _examples(examples: tuple[str, ...]) -> str:
    """As many as fit, at least one; how many do not is said."""
    more = 0
    if examples and examples[-1].startswith(MORE):
        more = int(examples[-1].split()[1])
        examples = examples[:-1]
    shown: list[str] = []
    left = MAX_EXAMPLES
    for example in examples:
        left -= len(example) + 2
        if shown and left < 0:
            break
        shown.append(example)
    more += len(examples) - len(shown)
    return ", ".join((*shown, f"{MORE} {more} more") if more else shown)


def _figure(value: float) -> str:
    return spelled(value, whole=True)


def _line(value: object) -> str:
    return "".join(c if c.isprintable() else " " for c in str(value))


def _block(text: object) -> str:
    """Lines after the first stand in from the margin, so that none can pass for one of ours."""
    lines = [_line(line).rstrip() for line in str(text).splitlines()]
    return "\n    ".join(line for line in lines if line.strip())


def _json(value: object) -> str:
    try:
        return _line(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode())
    except TypeError:
        return _line(value)
