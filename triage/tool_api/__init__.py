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

from triage.model.query import Aggregate, Answer, Call, Query, Reading, Rows, Samples, Series
from triage.model.site import Site
from triage.model.verdict import Clause, Truth, Verdict
from triage.tool_api.asking import aggregate, call, rows, samples, selector
from triage.tool_api.context import Context
from triage.tool_api.figures import (
    Held,
    Trend,
    held,
    increase,
    last,
    mean,
    median,
    quantile,
    same_time_weeks_before,
    span_s,
    trend,
    valid,
)
from triage.tool_api.judging import compare, conclude, no_data
from triage.tool_api.naming import asset_id, asset_ids

__all__ = [
    "Aggregate",
    "Answer",
    "Call",
    "Clause",
    "Context",
    "Held",
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
    "asset_id",
    "asset_ids",
    "call",
    "compare",
    "conclude",
    "held",
    "increase",
    "last",
    "mean",
    "median",
    "no_data",
    "quantile",
    "rows",
    "same_time_weeks_before",
    "samples",
    "selector",
    "span_s",
    "trend",
    "valid",
]
