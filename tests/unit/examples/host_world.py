"""A host's metrics made by hand, and a context that answers from them as Prometheus would."""

from __future__ import annotations

import importlib.util
import operator
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from triage.model.query import Aggregate, Answer, Query, Reading, Samples, Series
from triage.model.site import ParamValue, Site
from triage.model.verdict import Truth, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

HOST = Path(__file__).parents[3] / "examples" / "host"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NOW_S = NOW.timestamp()
STEP_S = 15.0

_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
_HOLDS: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}


_FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "count": lambda values: float(len(values)),
    "max": max,
    "sum": fsum,
}


def ramp(
    metric: str,
    per_s: float = 0.0,
    *,
    start: float = 0.0,
    instance: str = "web-1",
    **labels: str,
) -> Series:
    """Two hours that change by `per_s` each second from `start`, up to a sample at NOW."""
    offsets = [STEP_S * i for i in range(int(7200 / STEP_S) + 1)]
    first = NOW_S - offsets[-1]
    return Series(
        {"__name__": metric, "instance": instance, **labels},
        tuple(first + offset for offset in offsets),
        tuple(start + per_s * offset for offset in offsets),
    )


def points(
    metric: str,
    values: Sequence[float],
    *,
    end: float = NOW_S,
    instance: str = "web-1",
    **labels: str,
) -> Series:
    """A series of these values, one scrape apart, the last one at `end`."""
    times = tuple(end - STEP_S * i for i in reversed(range(len(values))))
    return Series({"__name__": metric, "instance": instance, **labels}, times, tuple(values))


def cut(series: Series, *, after: float = 0.0, until: float = NOW_S) -> Series:
    """The samples with after < time <= until."""
    kept = [
        (time, value)
        for time, value in zip(series.times, series.values, strict=True)
        if after < time <= until
    ]
    return Series(series.labels, tuple(t for t, _ in kept), tuple(v for _, v in kept))


@dataclass(frozen=True, kw_only=True)
class World:
    """What the metrics source holds, and the alert a tool is asked about."""

    series: Sequence[Series]
    entity: str = "web-1"
    labels: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    parents: Mapping[str, Verdict] = field(default_factory=dict)

    def find(self, selector: str) -> list[Series]:
        matchers = _MATCHER.findall(selector)
        name = selector.partition("{")[0]
        return [
            one
            for one in self.series
            if one.labels["__name__"] == name
            and all(
                _HOLDS[op](one.labels.get(label, ""), value.replace("\\\\", "\\"))
                for label, op, value in matchers
            )
        ]

    def answer(self, query: Query) -> Answer:
        assert isinstance(query, Samples | Aggregate), "the host's tools ask for metrics only"
        found = [
            cut(one, after=query.start.timestamp(), until=query.end.timestamp())
            for one in self.find(query.selector)
        ]
        named = [
            ({k: v for k, v in one.labels.items() if k != "__name__"}, one)
            for one in found
            if one.times
        ]
        if isinstance(query, Samples):
            return tuple(Series(labels, one.times, one.values) for labels, one in named)
        return tuple(Reading(labels, _FOLDS[query.function](one.values)) for labels, one in named)


class _Context:
    """Answers only what `queries` asked for, as the engine does."""

    def __init__(self, world: World, params: Mapping[str, ParamValue]) -> None:
        self._world = world
        self._answers: dict[Query, Answer] = {}
        self.params = params
        self.site = Site(name="lab", zone="UTC", units={}, facts={})
        self.entity = world.entity
        self.labels = world.labels
        self.parents = world.parents

    def prepare(self, queries: Sequence[Query]) -> None:
        self._answers = {query: self._world.answer(query) for query in queries}

    def answer(self, query: Query) -> Answer:
        return self._answers[query]

    async def ask(self, query: Query) -> Answer:
        raise LookupError(f"not a dynamic tool: {query}")

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        raise LookupError(f"no table source: {text} {fold}")

    def wall_clock(self, moment: datetime) -> datetime:
        raise LookupError(f"no local times: {moment}")


@cache
def sop() -> dict[str, Any]:
    document = yaml.safe_load((HOST / "sop.yaml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


@cache
def tool(node: str) -> ModuleType:
    """The node's tool, version 1."""
    path = HOST / "tools_lib" / node / "v1.py"
    spec = importlib.util.spec_from_file_location(f"host_tool_{node}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(node: str, world: World) -> Verdict:
    """The verdict of a node's tool, version 1, at NOW."""
    module = tool(node)
    defaults = {name: entry["value"] for name, entry in sop()["params"].items()}
    context = _Context(world, {**defaults, **world.params})
    context.prepare(module.queries("lab", NOW, context))
    verdict = module.evaluate("lab", NOW, context)
    assert isinstance(verdict, Verdict)
    assert "\n" not in verdict.explanation
    assert verdict.value is Truth.NO_DATA or verdict.clauses
    return verdict


def truth(node: str, world: World) -> str:
    return judge(node, world).value.value


def said(subject: str) -> Verdict:
    """A parent's verdict that named this subject."""
    return Verdict(value=Truth.TRUE, subject=subject)
