"""Everything a compiled tool may use, and nothing else of this project.

A tool is a file with two pure functions and no I/O::

    from triage.tool_api import Clause, Context, Query, Truth, Verdict, compare, samples, selector

    def queries(warehouse, timestamp, context):
        return [samples("metrics", selector("queue_depth", site=warehouse), timestamp, 300)]

    def evaluate(warehouse, timestamp, context):
        series = context.answer(queries(warehouse, timestamp, context)[0])
        ...

A dynamic tool (its manifest says so) has no `queries` and `async def evaluate`, and asks in
steps with `await context.ask(query)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import fsum, isfinite, isnan, nan
from typing import Any, Protocol

from triage.model.query import (
    Aggregate,
    AggregateFunction,
    Answer,
    Call,
    Parameter,
    Query,
    Reading,
    Rows,
    Samples,
    Series,
)
from triage.model.site import ParamValue, Site
from triage.model.verdict import Clause, Truth, Verdict

__all__ = [
    "Aggregate",
    "Answer",
    "Call",
    "Clause",
    "Context",
    "Query",
    "Reading",
    "Rows",
    "Samples",
    "Series",
    "Site",
    "Truth",
    "Verdict",
    "aggregate",
    "call",
    "compare",
    "conclude",
    "increase",
    "last",
    "mean",
    "no_data",
    "rows",
    "samples",
    "selector",
]


class Context(Protocol):
    """What a tool may know besides the site's name and the time."""

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The SOP's params with this site's overrides."""

    @property
    def site(self) -> Site: ...

    @property
    def entity(self) -> str:
        """The asset the alert speaks of, empty when it names none."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The alert's labels. They are data from outside: build selectors with `selector`."""

    @property
    def parents(self) -> Mapping[str, Verdict]:
        """Verdicts of the parents named in the manifest's `reads_parents`; a failed one is
        absent. Only `evaluate` may read it: queries are asked before parents have answered."""

    def answer(self, query: Query) -> Answer:
        """The answer to a query that `queries` returned. Raises LookupError for any other."""

    async def ask(self, query: Query) -> Answer:
        """For dynamic tools: ask now. Raises what ends the node; do not catch it."""

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        """An ISO 8601 timestamp as aware UTC. Without an offset it is taken in the site's zone;
        `fold` 1 picks the second of the two readings of an hour that clocks repeat."""


# --- asking -----------------------------------------------------------------------------------


def samples(source: str, selector: str, end: datetime, window_s: float) -> Samples:
    """Raw samples in (end - window_s, end]."""
    return Samples(source, selector, end - timedelta(seconds=window_s), end)


def aggregate(
    source: str,
    selector: str,
    end: datetime,
    window_s: float,
    function: AggregateFunction,
    quantile: float = 0.0,
) -> Aggregate:
    """One value a series over (end - window_s, end]; for windows too long for `samples`."""
    return Aggregate(source, selector, end - timedelta(seconds=window_s), end, function, quantile)


def rows(source: str, sql: str, **params: Parameter) -> Rows:
    """A read-only query; every value from outside goes into `params` as `:name`."""
    return Rows(source, sql, tuple(sorted(params.items())))


def call(source: str, tool: str, **arguments: Any) -> Call:
    """A call of a read-only MCP tool. Arguments are JSON values."""
    return Call(source, tool, json.dumps(arguments, sort_keys=True, separators=(",", ":")))


_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def selector(
    metric: str,
    *,
    without: Mapping[str, str] | None = None,
    matching: Mapping[str, str] | None = None,
    not_matching: Mapping[str, str] | None = None,
    **equal: str,
) -> str:
    """A metric selector with every value quoted, so that label values from an alert stay data.

    `equal` are `=` matchers, `without` are `!=`, `matching` are `=~`, `not_matching` are `!~`.
    Raises ValueError for a name that is no metric or label name.
    """
    if not _METRIC.fullmatch(metric):
        raise ValueError(f"{metric!r} is not a metric name")
    parts = []
    for op, matchers in (
        ("=", equal),
        ("!=", without or {}),
        ("=~", matching or {}),
        ("!~", not_matching or {}),
    ):
        for name in sorted(matchers):
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name!r} is not a label name")
            value = matchers[name].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            parts.append(f'{name}{op}"{value}"')
    return f"{metric}{{{','.join(parts)}}}" if parts else metric


# --- judging ----------------------------------------------------------------------------------


def compare(name: str, observed: float, op: str, threshold: float, unit: str = "") -> Clause:
    """A clause from a comparison. `op` is one of > >= < <= == !=; a NaN holds nothing.

    Raises ValueError for another op.
    """
    match op:
        case ">":
            holds = observed > threshold
        case ">=":
            holds = observed >= threshold
        case "<":
            holds = observed < threshold
        case "<=":
            holds = observed <= threshold
        case "==":
            holds = observed == threshold
        case "!=":
            holds = observed != threshold and not isnan(observed)
        case _:
            raise ValueError(f"{op!r} is not a comparison: use > >= < <= == !=")
    return Clause(name=name, observed=observed, op=op, threshold=threshold, unit=unit, holds=holds)


def conclude(
    clauses: Sequence[Clause], explanation: str, *, subject: str = "", any_of: bool = False
) -> Verdict:
    """TRUE when every clause holds (with `any_of`: when one does), else FALSE.

    Raises ValueError without clauses: a verdict that nothing led to explains nothing.
    """
    if not clauses:
        raise ValueError("a verdict needs at least one clause")
    held = [clause.holds is True for clause in clauses]
    value = Truth.TRUE if (any(held) if any_of else all(held)) else Truth.FALSE
    return Verdict(value=value, clauses=tuple(clauses), explanation=explanation, subject=subject)


def no_data(explanation: str, *, subject: str = "", clauses: Sequence[Clause] = ()) -> Verdict:
    """The query worked and what it should have found is missing."""
    return Verdict(
        value=Truth.NO_DATA, clauses=tuple(clauses), explanation=explanation, subject=subject
    )


def increase(series: Series) -> float:
    """What a counter grew by between its first and last sample; a drop is a restart from 0.

    Unlike PromQL's `increase` nothing is extrapolated to the window's edges. NaN with fewer than
    two samples.
    """
    values = series.values
    if len(values) <= 1:
        return nan
    return fsum(
        after - before if after >= before else after
        for before, after in zip(values[:-1], values[1:], strict=True)
    )


def mean(values: Sequence[float]) -> float:
    """Mean of the finite values; NaN when there is none."""
    finite = [value for value in values if isfinite(value)]
    return fsum(finite) / len(finite) if finite else nan


def last(series: Series) -> float:
    """The newest value, NaN when the series is empty."""
    return series.values[-1] if series.values else nan
