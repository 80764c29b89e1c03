"""What one evaluation of a node saw, as figures that can be compared with the next one's.

A *slot* is a query without what changes from alert to alert: windows, sites, assets, parameters.
Its name is its source, its shape and its place among queries of one shape, so a node that asks
twelve things has the same twelve slots at every alert. Sites are kept apart by whoever compares:
they report in units, spellings and volumes of their own, and the answers of two of them are no
sample of one distribution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import isfinite, isnan, log10
from typing import Any, NamedTuple

from triage.model.canonical import sha256_hex
from triage.model.decision import AnsweredBy, Asked, NodeId, NodeResult
from triage.model.query import Aggregate, Call, Query, Reading, Rows, Samples, Series, decode_answer

MAX_VALUES = 600  # of one field that are looked at, spread over all there are
MAX_ITEMS = 300  # rows, series or elements of one list, likewise
MAX_FIELDS = 64  # an answer with more has data for names, and its fields are not compared
MAX_DEPTH = 6
SEQUENCE = 8  # numbers that only go up or down: fewer may do so by chance
MAX_BODY = 2 << 20  # bytes; decoding more would hold the event loop for tens of milliseconds
SQL_CHARS = 60  # of a statement, in a slot's name
ID_CHARS = 6

SENTINELS = frozenset({-1.0, -99.0, -999.0, -9999.0, 9999.0, 99999.0, 999999.0})
"""What systems write for "nothing". Only counted, so one that is a true value costs nothing but the
sight of it."""

VALUE = "value"
"""The field of series and readings that is no label."""

TIMESTAMP = "timestamp"
LOCAL_TIMESTAMP = "local timestamp"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_MATCHER = re.compile(r'([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"')
_COUNTS_UP = ("_total", "_count", "_sum", "_bucket")  # as OpenMetrics has counters end
_ID = re.compile(r"(?:^|[_.])id$")
_TABLE = re.compile(r"\b(?:from|join)\s+([A-Za-z_][\w.]*)", re.IGNORECASE)


class FieldSeen(NamedTuple):
    """One field of one answer: a label, `value`, a column, or a path into JSON (`a.b[].c`).

    `inside` is the path of what holds it, "" for the answer itself: a field is missing only where
    its holder was there. `types` are `number`, `text`, `timestamp`, `local timestamp` (no offset),
    `bool`, `list` and `object`; null is none of them. `nulls` of the `values` were null, NaN or a
    sentinel. `median` and `p90` are log10 of the magnitude of the others that are not 0, None
    without any; of a counter, of its growth per second."""

    name: str
    inside: str
    types: tuple[str, ...]
    values: int
    nulls: int = 0
    median: float | None = None
    p90: float | None = None


class SlotSeen(NamedTuple):
    """One answer. `size` is how many series, readings, rows or elements. `rate` is log10 of the
    samples per second of all series together, None for other kinds and where there were none.
    `holders` are the paths that held something; `wide` is an answer with too many fields to be
    compared. `failure` is the reason in place of an answer."""

    slot: str
    source: str
    size: int = 0
    rate: float | None = None
    fields: tuple[FieldSeen, ...] = ()
    holders: frozenset[str] = frozenset()
    wide: bool = False
    failure: str = ""
    detail: str = ""


class NodeSeen(NamedTuple):
    """One evaluation. `at` is the alert's time, aware UTC. `word` is the verdict's, or `failed`;
    `failure` the reason why the tool failed, also where the fallback answered in its place."""

    node: NodeId
    tool_sha256: str
    site: str
    at: datetime
    word: str
    failure: str = ""
    detail: str = ""
    slots: tuple[SlotSeen, ...] = ()


def node_seen(
    result: NodeResult, site: str, at: datetime, slots: Sequence[SlotSeen] = ()
) -> NodeSeen:
    """`slots` are of what its tool asked: see `slots_of`."""
    failure = result.tool_failure or result.failure
    return NodeSeen(
        node=result.node,
        tool_sha256=result.tool_sha256,
        site=site,
        at=at,
        word=result.word,
        failure=failure.reason if failure is not None else "",
        detail=failure.detail if failure is not None else "",
        slots=tuple(slots),
    )


def slots_of(result: NodeResult) -> Iterator[tuple[str, Asked]]:
    """What the node's tool asked, with the slot's name. What a fallback asked is its own: it is
    left out, with all that the tool asked where the two cannot be told apart."""
    if result.answered_by is AnsweredBy.FALLBACK or result.trace is not None:
        return
    seen: Counter[str] = Counter()
    for asked in result.asked:
        shape = query_shape(asked.query)
        seen[shape] += 1
        yield (shape if seen[shape] == 1 else f"{shape} #{seen[shape]}"), asked


def query_shape(query: Query) -> str:
    """`metrics dock_cell_leak{site}`, `warehouse 3f9a2c (departure)`, `equipment doors(asset,at)`:
    the same for every query that differs in values only."""
    match query:
        case Samples():
            return f"{query.source} {selector_shape(query.selector)}"
        case Aggregate():
            return f"{query.source} {query.function} {selector_shape(query.selector)}"
        case Rows():
            text = " ".join(query.sql.split())
            tables = ", ".join(dict.fromkeys(_TABLE.findall(text))) or text[:SQL_CHARS]
            return f"{query.source} {sha256_hex(text.encode())[:ID_CHARS]} ({tables})"
        case Call():
            return f"{query.source} {query.tool}"


def selector_shape(selector: str) -> str:
    metric, brace, matchers = selector.partition("{")
    if not brace:
        return metric.strip()
    found = sorted(
        name if op == "=" else f"{name}{op}" for name, op in _MATCHER.findall("{" + matchers)
    )
    return f"{metric.strip()}{{{','.join(found)}}}"


def failed_slot(slot: str, asked: Asked) -> SlotSeen:
    """Of a query that was not answered."""
    failure = asked.failure
    return SlotSeen(
        slot=slot,
        source=asked.query.source,
        failure=failure.reason if failure is not None else "unanswered",
        detail=failure.detail if failure is not None else "",
    )


def slot_seen(slot: str, query: Query, body: bytes) -> SlotSeen:
    """The figures of one encoded answer; about as long as decoding it takes. Raises ValueError for
    bytes that are no answer."""
    return answer_seen(slot, query, decode_answer(body))


def answer_seen(slot: str, query: Query, answer: Any) -> SlotSeen:
    match query:
        case Samples():
            return _series_seen(slot, query, answer)
        case Aggregate():
            return _readings_seen(slot, query, answer)
        case Rows():
            return _tree_seen(slot, query.source, answer, len(answer), "")
        case Call():
            size = len(answer) if isinstance(answer, list | dict) else int(answer is not None)
            return _tree_seen(slot, query.source, answer, size, "")


# --- series -----------------------------------------------------------------------------------


def _series_seen(slot: str, query: Samples, series: Sequence[Series]) -> SlotSeen:
    samples = sum(len(one.times) for one in series)
    window_s = (query.end - query.start).total_seconds()
    counts_up = query.selector.partition("{")[0].strip().endswith(_COUNTS_UP)
    some = _spread(series, MAX_ITEMS)
    values: list[float] = []
    step = max(1, samples // MAX_VALUES)
    for one in some:
        values += _growth(one) if counts_up else one.values[::step]
    return SlotSeen(
        slot=slot,
        source=query.source,
        size=len(series),
        rate=log10(samples / window_s) if samples and window_s > 0 else None,
        fields=(*_labels([one.labels for one in some]), _numbers(VALUE, values)),
        holders=frozenset({""}) if series else frozenset(),
    )


def _readings_seen(slot: str, query: Aggregate, readings: Sequence[Reading]) -> SlotSeen:
    some = _spread(readings, MAX_ITEMS)
    return SlotSeen(
        slot=slot,
        source=query.source,
        size=len(readings),
        fields=(
            *_labels([one.labels for one in some]),
            _numbers(VALUE, [one.value for one in some]),
        ),
        holders=frozenset({""}) if readings else frozenset(),
    )


def _growth(series: Series) -> Iterator[float]:
    """Per second, of a counter that did not start again meanwhile."""
    if len(series.times) > 1:
        seconds = series.times[-1] - series.times[0]
        grown = series.values[-1] - series.values[0]
        if seconds > 0 and not grown < 0:
            yield grown / seconds


def _labels(labels: Iterable[Mapping[str, str]]) -> Iterator[FieldSeen]:
    counted = Counter(name for one in labels for name in one)
    for name in sorted(counted):
        yield FieldSeen(name, "", ("text",), counted[name])


def _numbers(name: str, values: Sequence[float], inside: str = "") -> FieldSeen:
    nulls = sum(1 for value in values if isnan(value) or value in SENTINELS)
    logs = sorted(
        log10(abs(value))
        for value in values
        if value != 0 and value not in SENTINELS and isfinite(value)
    )
    return FieldSeen(
        name=name,
        inside=inside,
        types=("number",) if values else (),
        values=len(values),
        nulls=nulls,
        median=logs[len(logs) // 2] if logs else None,
        p90=logs[min(len(logs) - 1, len(logs) * 9 // 10)] if logs else None,
    )


# --- rows and JSON ----------------------------------------------------------------------------


class _Tally:
    """Of one field, while an answer is walked."""

    __slots__ = ("count", "inside", "nulls", "numbers", "types")

    def __init__(self, inside: str) -> None:
        self.inside = inside
        self.count = self.nulls = 0
        self.numbers: list[float] = []
        self.types: set[str] = set()


def _tree_seen(slot: str, source: str, answer: Any, size: int, root: str) -> SlotSeen:
    tallies: dict[str, _Tally] = {}
    holders: set[str] = set()
    whole = answer if isinstance(answer, list | tuple) else (answer,)
    _walk(_spread(whole, MAX_ITEMS), root, tallies, holders, 0)
    wide = len(tallies) > MAX_FIELDS
    return SlotSeen(
        slot=slot,
        source=source,
        size=size,
        fields=() if wide else tuple(_field(name, tallies[name]) for name in sorted(tallies)),
        holders=frozenset() if wide else frozenset(holders),
        wide=wide,
    )


def _walk(
    elements: Sequence[Any],
    path: str,
    tallies: dict[str, _Tally],
    holders: set[str],
    depth: int,
) -> None:
    """`elements` are what stands at `path`: rows, the elements of a list, or one object."""
    for element in elements:
        if not isinstance(element, dict):
            # A list of plain values: they are the field `path` themselves.
            _count(tallies, path or VALUE, path, element, holders)
            continue
        holders.add(path)
        for key, value in element.items():
            name = f"{path}.{key}" if path else str(key)
            if len(tallies) > MAX_FIELDS:
                return
            _count(tallies, name, path, value, holders)
            if depth >= MAX_DEPTH:
                continue
            if isinstance(value, dict):
                _walk((value,), name, tallies, holders, depth + 1)
            elif isinstance(value, list) and value:
                _walk(_spread(value, MAX_ITEMS), f"{name}[]", tallies, holders, depth + 1)


def _count(
    tallies: dict[str, _Tally], name: str, inside: str, value: Any, holders: set[str]
) -> None:
    holders.add(inside)
    tally = tallies.get(name)
    if tally is None:
        tally = tallies[name] = _Tally(inside)
    tally.count += 1
    if value is None:
        tally.nulls += 1
        return
    tally.types.add(_type(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        tally.numbers.append(float(value))


def _type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case list():
            return "list"
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return "text"
    return TIMESTAMP if found[3] else LOCAL_TIMESTAMP


def _field(name: str, tally: _Tally) -> FieldSeen:
    numbers = _numbers(name, () if _names(name, tally) else _spread(tally.numbers, MAX_VALUES))
    sentinels = sum(1 for value in tally.numbers if value in SENTINELS)
    return FieldSeen(
        name=name,
        inside=tally.inside,
        types=tuple(sorted(tally.types)),
        values=tally.count,
        nulls=tally.nulls + sentinels,
        median=numbers.median,
        p90=numbers.p90,
    )


def _names(name: str, tally: _Tally) -> bool:
    """Whether the numbers are names of rows, which grow for ever and are in no unit: by what the
    field is called, or because they only go up or down from row to row."""
    if _ID.search(name.lower()):
        return True
    numbers = tally.numbers
    if len(numbers) < SEQUENCE or not all(number.is_integer() for number in numbers):
        return False
    steps = {after > before for before, after in pairwise(numbers) if after != before}
    return len(set(numbers)) == len(numbers) and len(steps) == 1


def _spread(values: Sequence[Any], most: int) -> Sequence[Any]:
    """All of them, or `most` at the most, evenly from first to last."""
    if len(values) <= most:
        return values
    return values[:: -(-len(values) // most)]
