"""What a source's answer looked like: enough to write a tool by, and small enough for a prompt.

    query: samples metrics tank_level{site="north"}
    window: 900 s to the timestamp
    answer: 4 series, a sample every 30 s, 2 gaps, from -885 s to -15 s
    field | types | count | nulls | low | high | examples
    value | number | 116 | 3 | 0.5 | 9999 | 0.5, 12.5, 47, 9999
    value.edge | number | 5 | 0 | 9999 | 9999 | 9999
    tank | text | 4 | 0 | - | - | "TK-1", "TK-2", "tank 3", "TK-4"

A series has its labels and `value`, a reading likewise, a row its columns, JSON its paths. Times
are seconds from the window's end. Beside them a field may have `.edge` (a number that repeats at
the end of its range, far from the others), and `value` may have `.drops` (a counter that goes down:
`[before, after]`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Any

from triage.fallback.masking import Mask
from triage.maker.model import SeenAnswer, SeenField
from triage.maker.seen_fields import MORE, NUMBER, edges, fields_of, spelled
from triage.maker.seen_paths import doubled, leaves
from triage.maker.seen_text import described
from triage.model.query import Query, Reading, Series, decode_answer, query_document, read_instant
from triage.trial.model import Told

__all__ = ["described", "seen", "seen_answer"]

MOST_FIELDS = 24
"""Of one answer; the last one then says how many more there are."""
MAX_QUERY = 4_000  # characters of a selector, an SQL text or an argument
MAX_FAILURE = 300  # characters
MOST_DROPS = 4
KINDS = {"samples": "series", "aggregate": "readings", "rows": "rows", "call": "json"}
VALUE, TIME, LAST, DROPS, DOUBLED = "value", "time", "time.last", "value.drops", "rows.doubled"
"""Fields that are no label or column. `time` is of all samples and `time.last` of the last one of
each series, in seconds from the window's end; `rows.doubled` counts rows that are there already."""
_OWN = frozenset((VALUE, TIME))
_GAP = 2.0  # steps
_RISES = 4  # for one drop: what goes down as often as up is no counter
_LEAST_SAMPLES = 3
COUNTERS = ("_total", "_count")


def seen(told: Told, *, mask: Mask, timestamp: datetime | None = None) -> SeenAnswer:
    """As `seen_answer`, of one query of a trial."""
    failure = f"{told.failure}: {told.detail}" if told.failure and told.detail else told.failure
    return seen_answer(told.query, told.body, failure, mask=mask, timestamp=timestamp)


def seen_answer(
    query: Query | Mapping[str, Any],
    body: bytes,
    failure: str = "",
    *,
    mask: Mask,
    timestamp: datetime | None = None,
) -> SeenAnswer:
    """`query` is one or its document, `body` the encoded answer, empty where there is none.

    With the aware `timestamp` that a tool is asked with, the query says how its window lies to it,
    in place of start and end: `window_s` long and, unless it ends there, `before_s` before it.
    What cannot be read is a failure. Raises nothing for what a source said.
    """
    document = dict(query) if isinstance(query, Mapping) else query_document(query)
    shown = _query(document, mask, timestamp)
    kind = KINDS.get(str(document.get("kind")), "json")
    if failure or not body:
        said = " ".join(mask.clean(failure or "no answer was recorded").split())
        return SeenAnswer(shown, kind, 0, failure=_cut(said, MAX_FAILURE))
    try:
        answer = decode_answer(body)
    except (ValueError, TypeError):
        return SeenAnswer(shown, kind, 0, failure="the recorded answer cannot be read")
    match answer:
        case (Series(), *_):
            return _series(shown, answer, mask, _end(document))
        case (Reading(), *_):
            return _readings(shown, answer, mask)
        case tuple():
            return _rows(shown, kind, answer, mask)
        case _:
            fields, more = leaves([answer], mask=mask, top="$")
            size = len(answer) if isinstance(answer, list) else 1
            return SeenAnswer(shown, "json", size, _bounded(fields, more))


# --- what was asked ---------------------------------------------------------------------------


def _query(
    document: Mapping[str, Any], mask: Mask, timestamp: datetime | None
) -> Mapping[str, Any]:
    shown: dict[str, Any] = _clean(document, mask)
    start, end = read_instant(document.get("start")), read_instant(document.get("end"))
    if start is not None and end is not None:
        shown["window_s"] = (end - start).total_seconds()
        if timestamp is not None:
            del shown["start"], shown["end"]
            if before_s := (timestamp - end).total_seconds():
                shown["before_s"] = before_s
    return shown


def _clean(value: Any, mask: Mask) -> Any:
    match value:
        case str():
            return _cut(mask.clean(value), MAX_QUERY)
        case Mapping():
            return {mask.clean(str(key)): _clean(one, mask) for key, one in value.items()}
        case list() | tuple():
            return [_clean(one, mask) for one in value]
        case _:
            return value


def _end(document: Mapping[str, Any]) -> float | None:
    end = read_instant(document.get("end"))
    return end.timestamp() if end is not None else None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}{MORE} {len(text) - limit} more"


# --- what was answered ------------------------------------------------------------------------


def _series(
    query: Mapping[str, Any], answer: Sequence[Series], mask: Mask, end: float | None
) -> SeenAnswer:
    steps = [after - before for one in answer for before, after in pairwise(one.times)]
    step = median(steps) if steps else None
    gaps = sum(between > _GAP * step for between in steps) if step else 0
    values = [value for one in answer for value in one.values]
    fields = [
        *fields_of(VALUE, values, mask=mask, whole=True),
        *_drops(answer, str(query.get("selector", ""))),
        *(_times(answer, end) if end is not None else ()),
        *_labels([one.labels for one in answer], query, mask),
    ]
    return SeenAnswer(
        query,
        "series",
        len(answer),
        _bounded(fields),
        step_s=round(step, 3) if step is not None else None,
        gaps=gaps,
    )


def _readings(query: Mapping[str, Any], answer: Sequence[Reading], mask: Mask) -> SeenAnswer:
    values = [one.value for one in answer]
    fields = [
        *fields_of(VALUE, values, mask=mask, whole=True),
        *_labels([one.labels for one in answer], query, mask),
    ]
    return SeenAnswer(query, "readings", len(answer), _bounded(fields))


def _rows(
    query: Mapping[str, Any], kind: str, answer: Sequence[Mapping[str, Any]], mask: Mask
) -> SeenAnswer:
    """Also an empty answer to any kind of query: it is encoded as no rows."""
    if not answer:
        return SeenAnswer(query, kind, 0)
    fields, more = leaves(answer, mask=mask)
    if again := doubled(answer):
        fields.insert(0, SeenField(DOUBLED, (), again))
    return SeenAnswer(query, "rows", len(answer), _bounded(fields, more))


def _labels(
    labels: Sequence[Mapping[str, str]], query: Mapping[str, Any], mask: Mask
) -> Iterator[SeenField]:
    """In the order of their names. A metric's own name is left out where the selector says it."""
    for name in sorted({name for one in labels for name in one}):
        held = [one[name] for one in labels if name in one]
        if name == "__name__" and set(held) == {_metric(query)}:
            continue
        shown = f"labels.{name}" if name in _OWN else name
        yield from fields_of(shown, held, mask=mask, missing=len(labels) - len(held))


def _metric(query: Mapping[str, Any]) -> str:
    return str(query.get("selector", "")).partition("{")[0].strip()


def _times(answer: Sequence[Series], end: float) -> Iterator[SeenField]:
    times = [at - end for one in answer for at in one.times]
    if not times:
        return
    low, high = round(min(times), 3), round(max(times), 3)
    yield SeenField(TIME, (NUMBER,), len(times), low=low, high=high)
    last = [one.times[-1] - end for one in answer if one.times]
    low, high = round(min(last), 3), round(max(last), 3)
    yield SeenField(LAST, (NUMBER,), len(last), low=low, high=high)


def _drops(answer: Sequence[Series], selector: str) -> Iterator[SeenField]:
    """Where what mostly rises goes down: a counter that was reset, or that wrapped. From a value at
    the edge, which is no count, nothing goes down."""
    rises = 0
    drops: list[tuple[float, float]] = []
    apart = {value for value, _ in edges(Counter(_finite(answer)))}
    for one in answer:
        finite = [value for value in _finite([one]) if value not in apart]
        rises += sum(after > before for before, after in pairwise(finite))
        drops += [(before, after) for before, after in pairwise(finite) if after < before]
    named = selector.partition("{")[0].strip().endswith(COUNTERS)
    samples = sum(len(one.values) for one in answer)
    if not drops or not (named or (samples >= _LEAST_SAMPLES and rises >= _RISES * len(drops))):
        return
    highest_first = sorted(Counter(drops), key=lambda pair: (-pair[0], pair[1]))
    examples = [
        f"[{spelled(before, whole=True)}, {spelled(after, whole=True)}]"
        for before, after in highest_first[:MOST_DROPS]
    ]
    if more := len(highest_first) - len(examples):
        examples.append(f"{MORE} {more} more")
    yield SeenField(
        DROPS,
        (NUMBER,),
        len(drops),
        low=min(after for _, after in drops),
        high=max(before for before, _ in drops),
        examples=tuple(examples),
    )


def _finite(answer: Sequence[Series]) -> list[float]:
    return [value for one in answer for value in one.values if isfinite(value)]


def _bounded(fields: Sequence[SeenField], more: int = 0) -> tuple[SeenField, ...]:
    """`more` are left out already."""
    if not more and len(fields) <= MOST_FIELDS:
        return tuple(fields)
    kept = fields[: MOST_FIELDS - 1]
    left = more + len(fields) - len(kept)
    return (*kept, SeenField(f"{MORE} {left} more fields", (), 0))
