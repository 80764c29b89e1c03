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
from itertools import pairwise
from math import fsum, isfinite, isnan, nan
from typing import Any, NamedTuple, Protocol

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
    "Trend",
    "Truth",
    "Verdict",
    "aggregate",
    "call",
    "compare",
    "conclude",
    "increase",
    "last",
    "mean",
    "median",
    "no_data",
    "quantile",
    "rows",
    "samples",
    "selector",
    "span_s",
    "trend",
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

    def wall_clock(self, moment: datetime) -> datetime:
        """What the site's clocks show at an aware `moment`, without offset; its `fold` is 1 in
        the second of two hours that look the same. The inverse of `localise`."""


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


LEAST_POINTS = 3  # two always lie on a line

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
    return fsum(after - before if after >= before else after for before, after in pairwise(values))


def span_s(series: Series) -> float:
    """Seconds from the first sample to the last, 0 with fewer than two: how much of a window was
    really seen. A series that covers half a window must not speak for all of it."""
    return series.times[-1] - series.times[0] if series.times else 0.0


class Trend(NamedTuple):
    """`per_s` is growth per second; `r2`, 0 to 1, is the share of the variance it explains."""

    per_s: float
    r2: float


def trend(series: Series) -> Trend:
    """The least-squares line through the finite samples.

    Both figures are 0 with fewer than three of them, when all are of one instant, and when all
    have one value.
    """
    points = [(t, v) for t, v in zip(series.times, series.values, strict=True) if isfinite(v)]
    if len(points) < LEAST_POINTS:
        return Trend(0.0, 0.0)
    middle_t = fsum(t for t, _ in points) / len(points)
    middle_v = fsum(v for _, v in points) / len(points)
    tt = fsum((t - middle_t) ** 2 for t, _ in points)
    vv = fsum((v - middle_v) ** 2 for _, v in points)
    tv = fsum((t - middle_t) * (v - middle_v) for t, v in points)
    if tt <= 0 or vv <= 0:
        return Trend(0.0, 0.0)
    # Not tv² / (tt·vv): of differences near the smallest float either product is rounding alone.
    explained = (tv / tt) * (tv / vv)
    return Trend(tv / tt, min(explained, 1.0) if isfinite(explained) else 0.0)


def mean(values: Sequence[float]) -> float:
    """Mean of the finite values; NaN when there is none."""
    finite = [value for value in values if isfinite(value)]
    return fsum(finite) / len(finite) if finite else nan


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile of the finite values, q in [0, 1], NaN when there is none.

    Interpolated linearly between the two values around rank q * (n - 1), as PromQL and numpy do
    by default (R's type 7). Raises ValueError for another q.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"{q!r} is no quantile: it must be in [0, 1]")
    ordered = sorted(value for value in values if isfinite(value))
    if not ordered:
        return nan
    rank = q * (len(ordered) - 1)
    below = int(rank)
    if below + 1 >= len(ordered) or rank == below:
        return ordered[below]
    weight = rank - below
    return ordered[below] * (1 - weight) + ordered[below + 1] * weight


def median(values: Sequence[float]) -> float:
    """The middle of the finite values, the mean of the two middle ones; NaN when there is none."""
    return quantile(values, 0.5)


def last(series: Series) -> float:
    """The newest value, NaN when the series is empty."""
    return series.values[-1] if series.values else nan
