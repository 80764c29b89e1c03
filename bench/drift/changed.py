"""A source of the dock, changed on purpose: a unit, a name, its life, a level."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from triage.errors import SourceFailed, SourceFailure, ToolFailed
from triage.model.query import Aggregate, Answer, Call, Query, Reading, Rows, Samples, Series
from triage.ports import Source

_SITE = re.compile(r'site="([^"]*)"')
GONE = "_since_renamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`target` is a metric, a table or a call; `field` a label or `value`, a column, or a key.
    `factors` are by site, for what multiplies; `kind` is unit, moved, renamed or dead. A dead
    source has no target."""

    kind: str
    source: str
    target: str = ""
    field: str = ""
    factors: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        sites = f" at {', '.join(self.factors)}" if self.factors else ""
        return f"{self.kind} {self.source} {self.target} {self.field}".rstrip() + sites

    def concerns(self, query: Query) -> bool:
        return query.source == self.source and (not self.target or target_of(query) == self.target)

    def factor(self, query: Query) -> float:
        """1 where it does not concern the query's site."""
        return self.factors.get(site_of(query), 1.0)


class ChangedSource:
    """Stands before a source. `change` may be set while it is asked."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.change: Change | None = None

    @property
    def name(self) -> str:
        return self._inner.name

    async def open(self) -> None:
        """Whoever opened the source before closes it."""

    async def close(self) -> None:
        """Likewise."""

    async def ask(self, query: Query, *, timeout_s: float) -> Answer:
        change = self.change
        if change is None or not change.concerns(query):
            return await self._inner.ask(query, timeout_s=timeout_s)
        if change.kind == "dead":
            raise SourceFailed(SourceFailure.CONNECT, f"{self.name}: connection refused")
        if change.kind == "renamed" and isinstance(query, Rows):
            return await self._without_column(query, change, timeout_s)
        answer = await self._inner.ask(query, timeout_s=timeout_s)
        if change.kind == "renamed":
            return _renamed(answer, change.field)
        return _scaled(answer, change.field, change.factor(query))

    async def _without_column(self, query: Rows, change: Change, timeout_s: float) -> Answer:
        """The database's own answer to a column that it does not have."""
        gone = f"{change.field}{GONE}"
        sql = re.sub(rf"(?<!:)\b{re.escape(change.field)}\b", gone, query.sql)
        try:
            return await self._inner.ask(query._replace(sql=sql), timeout_s=timeout_s)
        except ToolFailed as failed:
            raise ToolFailed(failed.failure, failed.detail.replace(GONE, "")) from None


def target_of(query: Query) -> str:
    match query:
        case Samples() | Aggregate():
            return query.selector.partition("{")[0]
        case Rows():
            found = re.search(r"\bFROM\s+(\w+)", query.sql)
            return found[1] if found else ""
        case Call():
            return query.tool


def site_of(query: Query) -> str:
    match query:
        case Samples() | Aggregate():
            found = _SITE.search(query.selector)
            return found[1] if found else ""
        case Rows():
            return str(dict(query.params).get("site", ""))
        case Call():
            return str(orjson.loads(query.arguments).get("site", ""))


def _scaled(answer: Answer, name: str, factor: float) -> Answer:
    if factor == 1.0:
        return answer
    if isinstance(answer, tuple) and answer and isinstance(answer[0], Series):
        return tuple(
            Series(one.labels, one.times, tuple(value * factor for value in one.values))
            for one in answer
        )
    if isinstance(answer, tuple) and answer and isinstance(answer[0], Reading):
        return tuple(Reading(one.labels, one.value * factor) for one in answer)
    return _each(answer, name, lambda value: value * factor)


def _each(value: Any, name: str, change: Any) -> Any:
    """The numbers under the key `name`, wherever in rows or JSON."""
    if isinstance(value, dict):
        return {
            key: change(one)
            if key == name and isinstance(one, int | float) and not isinstance(one, bool)
            else _each(one, name, change)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(_each(one, name, change) for one in value)
    return value


def _renamed(answer: Any, name: str) -> Any:
    """The label or key `name`, wherever it stands."""
    if isinstance(answer, Series):
        return Series(_renamed(answer.labels, name), answer.times, answer.values)
    if isinstance(answer, Reading):
        return Reading(_renamed(answer.labels, name), answer.value)
    if isinstance(answer, Mapping):
        return {
            (f"{key}{GONE}" if key == name else key): _renamed(one, name)
            for key, one in answer.items()
        }
    if isinstance(answer, list | tuple):
        return type(answer)(_renamed(one, name) for one in answer)
    return answer
