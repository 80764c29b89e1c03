"""A dock made by hand, and what the tools say about it.

Metrics are series, the warehouse is a database in memory, the equipment a mapping. The context is
the engine's own, with the dock's params and sites, so a tool finds here what it finds at work.
"""

from __future__ import annotations

import importlib.util
import json
import operator
import os
import re
import sqlite3
import tomllib
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from bench.world.catalogue import TABLES
from triage.evaluation.context import ToolContext
from triage.model.alert import Alert, AlertId, Severity
from triage.model.query import Answer, Call, Query, Rows, Samples, Series
from triage.model.verdict import Clause, Truth, Verdict
from triage.sop.load import load_sop
from triage.sop.sites import Sites, load_sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType

    from _pytest.mark.structures import ParameterSet

    from triage.model.site import ParamValue
    from triage.sop.procedure import SiteProfile, Sop

ROOT = Path(__file__).parents[3]
TOOLS = Path(os.environ.get("DOCK_TOOLS", ROOT / "tools_lib"))
"""A library, or with DOCK_TOOLS a folder of candidates named `<node>.py`."""

NOW = datetime(2026, 11, 18, 15, 7, tzinfo=UTC)  # a Wednesday, 10:07 in New York
T2 = NOW - timedelta(seconds=120)
WEEKS = (
    datetime(2026, 11, 11, 15, 7, tzinfo=UTC),
    datetime(2026, 11, 4, 15, 7, tzinfo=UTC),
    # Clocks went back on the first of November.
    datetime(2026, 10, 28, 14, 7, tzinfo=UTC),
    datetime(2026, 10, 21, 14, 7, tzinfo=UTC),
)
"""When New York's clocks showed what they show at NOW."""

Row = dict[str, Any]
_MATCHERS = re.compile(r'(\w+)="([^"]*)"')
_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, kw_only=True)
class World:
    """What the sources hold, and the alert. `calls` is tool to asset to answer, "" for no asset
    and "*" for any; `feed` is whether the warehouse shows a sign of life."""

    entity: str = ""
    at: datetime = NOW
    site: str = "FC1"
    series: Sequence[Series] = ()
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    feed: bool = True

    def answer(self, query: Query) -> Answer:
        match query:
            case Samples():
                return self._samples(query)
            case Rows():
                return self._rows(query)
            case Call():
                arguments = json.loads(query.arguments)
                assert arguments["site"] == self.site
                assert datetime.fromisoformat(arguments["at"]) == self.at
                answers = self.calls[query.tool]
                return answers.get("*") or answers[arguments.get("asset", "")]
            case _:
                raise AssertionError(f"the dock's tools do not ask {query!r}")

    def _samples(self, query: Samples) -> tuple[Series, ...]:
        """Samples of one set of labels are one series, however many pieces it was made of."""
        metric, wanted = query.selector.partition("{")[0], _MATCHERS.findall(query.selector)
        found: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
        for one in self.series:
            labels = {"site": self.site, **one.labels}
            if labels["__name__"] == metric and all(labels.get(k) == v for k, v in wanted):
                points = found.setdefault(tuple(sorted(labels.items())), {})
                points.update(
                    (at, value)
                    for at, value in zip(one.times, one.values, strict=True)
                    if query.start.timestamp() < at <= query.end.timestamp()
                )
        return tuple(
            Series(dict(key), tuple(sorted(points)), tuple(points[at] for at in sorted(points)))
            for key, points in found.items()
            if points
        )

    def _rows(self, query: Rows) -> tuple[Row, ...]:
        pulse = {"at_utc": utc(self.at - timedelta(seconds=300))}
        tables = {"feed_heartbeat": [pulse] if self.feed else [], **self.tables}
        with closing(sqlite3.connect(":memory:")) as database:
            for name, spec in TABLES.items():
                if name not in query.sql:
                    continue
                database.execute(f"CREATE TABLE {name} ({', '.join(spec.columns)})")
                for row in tables.get(name, ()):
                    full = {**dict.fromkeys(spec.columns), "site": self.site, **row}
                    assert set(full) == set(spec.columns), name
                    holes = ", ".join(f":{column}" for column in spec.columns)
                    database.execute(f"INSERT INTO {name} VALUES ({holes})", full)  # noqa: S608 - our own names
            cursor = database.execute(query.sql, dict(query.params))
            names = [column[0] for column in cursor.description]
            return tuple(dict(zip(names, row, strict=True)) for row in cursor)


def utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def sop() -> Sop:
    return load_sop(ROOT / "sop.yaml")


@cache
def _sites() -> Sites:
    return load_sites(ROOT / "sites.yaml", sop())


def profile_of(world: World) -> SiteProfile:
    profile = _sites().profile(world.site)
    assert set(world.params) <= set(profile.params)
    return replace(profile, params={**profile.params, **world.params})


def context_of(world: World) -> ToolContext:
    alert = Alert(
        alert_id=AlertId("0" * 32),
        integration="test",
        tenant="",
        fingerprint="1",
        alarm="al",
        site=world.site,
        entity=world.entity,
        severity=Severity.WARNING,
        fired_at=world.at,
        accepted_at=world.at,
        labels={},
        annotations={},
    )
    return ToolContext(alert, profile_of(world))


def nodes() -> list[str]:
    return sorted(sop().nodes)


def source_of(node: str) -> Path:
    """The active version of the node's tool, or the candidate for it."""
    if "DOCK_TOOLS" in os.environ:
        return TOOLS / f"{node}.py"
    manifest = tomllib.loads((TOOLS / node / "tool.toml").read_text(encoding="utf-8"))
    return TOOLS / node / f"v{manifest['active']}.py"


@cache
def tool(node: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"dock_tool_{node}", source_of(node))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(node: str, world: World) -> Verdict:
    """The verdict of a node's tool, which every verdict's own rules are checked on."""
    module, context = tool(node), context_of(world)
    asked = module.queries(world.site, world.at, context)
    context.open_for_judging({}, {query: world.answer(query) for query in asked})
    verdict = module.evaluate(world.site, world.at, context)
    assert isinstance(verdict, Verdict)
    assert verdict.explanation
    assert "\n" not in verdict.explanation
    for clause in verdict.clauses:
        _check(clause)
    held = {clause.holds for clause in verdict.clauses}
    assert verdict.value is not Truth.TRUE or True in held
    assert verdict.value is not Truth.FALSE or False in held
    return verdict


def _check(clause: Clause) -> None:
    """The clause says what was really compared."""
    for figure in (clause.observed, clause.threshold):
        assert isinstance(figure, int | float)
        assert isfinite(figure)
    assert clause.holds is _HOLDS[clause.op](clause.observed, clause.threshold)


class Case(NamedTuple):
    """What a tool has to say of a world. `subject` is the id the verdict speaks of."""

    node: str
    name: str
    world: World
    truth: str
    subject: str


def of(node: str, *cases: tuple[str, World, str, str]) -> list[Case]:
    return [Case(node, *one) for one in cases]


def params_of(cases: Iterable[Case]) -> list[ParameterSet]:
    return [pytest.param(one, id=f"{one.node}-{one.name.replace(' ', '-')}") for one in cases]


def check(case: Case) -> None:
    verdict = judge(case.node, case.world)
    said = (verdict.value.value, verdict.subject)
    assert said == (case.truth, case.subject), verdict.explanation
