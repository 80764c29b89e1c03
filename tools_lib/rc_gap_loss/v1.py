"""Gaps behind the singulator at their short end, and the share of doubled parcels."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    no_data,
    quantile,
    samples,
    selector,
    valid,
)

DOUBLE_GRAIN_S = 60
SUBJECT = "SG-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["gap_window_s"])
    return [
        samples("metrics", selector(metric, site=warehouse), timestamp, window_s)
        for metric in ("dock_merge_gap", "dock_double_pct")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    gaps, doubles = (
        [
            value
            for series in context.answer(query)
            for value in valid(series.values, sentinels=(-1, 9999))
        ]
        for query in queries(warehouse, timestamp, context)
    )
    clauses = []
    said = []
    if len(gaps) >= float(context.params["gap_min_parcels"]):
        short = quantile(gaps, 0.1)
        said.append(f"a tenth of the gaps are {short:.0f} mm or less")
        clauses.append(compare("gap", short, "<", float(context.params["gap_mm"]), "mm"))
    expected = float(context.params["gap_window_s"]) / DOUBLE_GRAIN_S
    if len(doubles) >= float(context.params["min_coverage"]) * expected:
        doubled = fsum(doubles) / len(doubles)
        said.append(f"{doubled:.2f} % of the parcels are doubled")
        clauses.append(
            compare("doubles", doubled, ">=", float(context.params["double_pct"]), "percent")
        )
    if not clauses:
        return no_data("too few gaps measured, and no share of doubles", subject=SUBJECT)
    return conclude(clauses, ", ".join(said), subject=SUBJECT, any_of=True)
