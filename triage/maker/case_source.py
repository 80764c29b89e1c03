"""What sources answered for one case, to a tool or to an agent that asks in its own way."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from triage.adapters.memory import answered
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.maker.faced import as_tools_ask
from triage.model.canonical import canonical_json
from triage.model.case import LabelledCase, RecordedAnswer
from triage.model.catalogue import Catalogue, Column, Metric
from triage.model.query import (
    Aggregate,
    Answer,
    Query,
    Samples,
    Series,
    decode_answer,
)
from triage.ports import Catalogued, Shelf, Source, SourceTool
from triage.trial.answers import CaseAnswers
from triage.trial.model import Answers

FACE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "samples": ("samples", "aggregate"),
    "aggregate": ("samples", "aggregate"),
    "rows": ("query",),
}
"""Tools of a face by the kind of a recorded query. A call has tools of its own."""
_TABLE = re.compile(r"\b(?:from|join)\s+([A-Za-z_][\w.]{0,120})", re.IGNORECASE)


class Windows:
    """Implements `trial.model.Answers`: metric queries whose window lies within a recorded one of
    raw samples of the same selector, whole or aggregated. Anything else goes to `beyond`, and
    without that is `unrecorded`."""

    def __init__(self, answers: Sequence[RecordedAnswer], beyond: Answers | None = None) -> None:
        """Bodies are read when they are asked for."""
        self._answers = [
            one
            for one in answers
            if one.query.get("kind") == "samples" and one.body and not one.failure
        ]
        self._beyond = beyond

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        if isinstance(query, Samples | Aggregate):
            for recorded in self._answers:
                if _covers(recorded.query, query):
                    return _within(_decoded_answer(recorded), query)
        if self._beyond is not None:
            return await self._beyond.answer(query, timeout_s=timeout_s)
        raise SourceFailed(
            SourceFailure.UNRECORDED,
            f"no answer of source {query.source!r} to this was recorded",
        )


class CaseSource:
    """A source as it was recorded for a case, with what lies within recorded windows. What was not
    recorded is asked of the source `beyond`, which it neither opens nor closes.

    Without one it is refused, as a query and not as an outage: somebody who asks in other words may
    try again.
    """

    def __init__(self, name: str, case: LabelledCase, beyond: Source | None = None) -> None:
        """`case` has answers of this source only."""
        self._name = name
        self._answers = case.answers
        self._recorded = CaseAnswers(case, Windows(case.answers))
        self._beyond = beyond

    @property
    def name(self) -> str:
        return self._name

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        try:
            return await self._recorded.answer(query, timeout_s=timeout_s)
        except SourceFailed as failed:
            if failed.failure is not SourceFailure.UNRECORDED:
                raise
        if self._beyond is not None:
            return await self._beyond.ask(query, timeout_s=timeout_s)
        raise ToolFailed(
            ToolFailure.QUERY_REJECTED,
            f"source {self._name!r}: no answer to this was recorded for the case; there is one to"
            f" {self._asked() or 'nothing'}",
        )

    async def catalogue(self, *, timeout_s: float) -> Catalogue:
        """Of what was recorded and of what lies beyond. Nothing where that does not tell: part of
        it would look like all of it."""
        if self._beyond is not None and not isinstance(self._beyond, Catalogued):
            return Catalogue()
        metrics: dict[str, Metric] = {}
        tables: dict[str, tuple[Column, ...]] = {}
        for answer in self._answers:
            selector, sql = answer.query.get("selector"), answer.query.get("sql")
            if isinstance(selector, str) and (name := selector.partition("{")[0].strip()):
                known = metrics.get(name, Metric()).labels
                labels = tuple(dict.fromkeys((*known, *_labels(answer))))
                metrics[name] = Metric(labels)
            elif isinstance(sql, str):
                found = _TABLE.findall(sql)
                for table in found:
                    tables.setdefault(table, ())
                if len(set(found)) == 1:
                    tables[found[0]] = tuple(dict.fromkeys((*tables[found[0]], *_columns(answer))))
        if self._beyond is not None and isinstance(self._beyond, Catalogued):
            more = await self._beyond.catalogue(timeout_s=timeout_s)
            metrics |= more.metrics
            tables |= more.tables
        return Catalogue(metrics=metrics, tables=tables)

    @property
    def face(self) -> frozenset[str]:
        """Tools of a face that what was recorded answers; none when nothing was."""
        kinds = {str(answer.query.get("kind")) for answer in self._answers}
        return frozenset(tool for kind in kinds for tool in FACE_TOOLS.get(kind, ()))

    def _asked(self) -> str:
        """The queries that were recorded, in short."""
        return "; ".join(sorted({_short(answer.query) for answer in self._answers}))


class CaseShelf(CaseSource):
    """One whose recorded queries are calls, or behind which an MCP server stands: a `ports.Shelf`
    as well."""

    async def tools(self, *, timeout_s: float) -> Sequence[SourceTool]:
        found: dict[str, SourceTool] = {}
        if self._beyond is not None and isinstance(self._beyond, Shelf):
            found = {tool.name: tool for tool in await self._beyond.tools(timeout_s=timeout_s)}
        arguments: dict[str, dict[str, Any]] = {}
        for answer in self._answers:
            if answer.query.get("kind") == "call":
                given = answer.query.get("arguments")
                named = arguments.setdefault(str(answer.query.get("tool")), {})
                named |= {key: {} for key in (given if isinstance(given, Mapping) else ())}
        for name, properties in arguments.items():
            schema = {"type": "object", "properties": properties}
            found.setdefault(name, SourceTool(name=name, description="", input_schema=schema))
        return [found[name] for name in sorted(found)]


def case_source(name: str, case: LabelledCase, beyond: Source | None = None) -> CaseSource:
    """`case` may hold answers of other sources, and those that an agent got through a face."""
    own = tuple(one for one in case.answers if one.query.get("source") == name)
    if not isinstance(beyond, Shelf):
        own = as_tools_ask(own)
    calls = any(one.query.get("kind") == "call" for one in own)
    made = CaseShelf if calls or isinstance(beyond, Shelf) else CaseSource
    return made(name, case._replace(answers=own), beyond)


def _decoded_answer(recorded: RecordedAnswer) -> Answer:
    """Raises SourceFailed for what cannot be read."""
    try:
        return decode_answer(recorded.body)
    except (ValueError, TypeError):
        raise SourceFailed(SourceFailure.UNRECORDED, "the recorded answer cannot be read") from None


def _covers(recorded: Mapping[str, Any], query: Samples | Aggregate) -> bool:
    """Whether these are raw samples of the same selector, and of all of the query's window."""
    same = ("samples", query.source, query.selector)
    if (recorded.get("kind"), recorded.get("source"), recorded.get("selector")) != same:
        return False
    try:
        start = datetime.fromisoformat(recorded["start"])
        end = datetime.fromisoformat(recorded["end"])
        return start <= query.start and query.end <= end
    except (KeyError, TypeError, ValueError):
        return False


def _within(whole: Answer, query: Samples | Aggregate) -> Answer:
    """What the source would have answered: a window of samples holds all that there were."""

    def select(_: str, start: float, end: float) -> Iterator[Series]:
        for one in whole if isinstance(whole, tuple) else ():
            if not isinstance(one, Series):
                continue
            first, behind = bisect_right(one.times, start), bisect_right(one.times, end)
            if first < behind:
                yield Series(one.labels, one.times[first:behind], one.values[first:behind])

    return answered(query, select)


def _labels(answer: RecordedAnswer) -> Iterator[str]:
    for one in _decoded(answer, "series", "readings"):
        if isinstance(one, list) and one and isinstance(one[0], dict):
            yield from (name for name in one[0] if name != "__name__")


def _columns(answer: RecordedAnswer) -> Iterator[Column]:
    for row in _decoded(answer, "rows")[:1]:
        if isinstance(row, dict):
            yield from (Column(str(name), "") for name in row)


def _decoded(answer: RecordedAnswer, *forms: str) -> list[Any]:
    try:
        document = orjson.loads(answer.body)
    except ValueError:
        return []
    found = [document[form] for form in forms if isinstance(document, dict) and form in document]
    return found[0] if found and isinstance(found[0], list) else []


def _short(query: Mapping[str, Any]) -> str:
    match query:
        case {"selector": str(selector), "start": str(start), "end": str(end)}:
            return f"{selector} from {start} to {end}"
        case {"sql": str(sql)}:
            return " ".join(sql.split())
        case {"tool": str(tool), "arguments": arguments}:
            return f"{tool} {canonical_json(arguments).decode()}"
        case _:
            return str(query.get("kind", "?"))
