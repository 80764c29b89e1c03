"""Queries, made so that what comes from an alert stays data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from triage.model.query import Aggregate, AggregateFunction, Call, Parameter, Rows, Samples


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
