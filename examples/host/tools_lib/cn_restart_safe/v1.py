"""When the service was last started, and how much of the budget window it was away."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    aggregate,
    compare,
    conclude,
    no_data,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    params = context.params
    start = selector("process_start_time_seconds", instance=context.entity)
    up = selector("up", instance=context.entity)
    window_s = float(params["budget_window_s"])
    return [
        # Long windows: the source sums them up. A service that is down has no start time now,
        # so the newest one it ever had in the window counts.
        aggregate("prometheus", start, timestamp, window_s, "max"),
        aggregate("prometheus", up, timestamp, window_s, "count"),
        aggregate("prometheus", up, timestamp, window_s, "sum"),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    # An alert that names no job is about the host: what may be restarted is its exporter.
    service = context.labels.get("job", "") or str(params["node_job"])
    started, scrapes, answered = [
        [one.value for one in context.answer(query) if one.labels.get("job") == service]
        for query in queries(warehouse, timestamp, context)
    ]
    if not started or not fsum(scrapes) > 0:
        return no_data(f"{service!r} does not say when it was started", subject=service)
    age_s = timestamp.timestamp() - max(started)
    away = 100 * (1 - fsum(answered) / fsum(scrapes))
    return conclude(
        [
            compare("seconds since start", age_s, ">", float(params["restart_quiet_s"]), "s"),
            compare("away", away, "<", float(params["error_budget_pct"]), "percent"),
        ],
        f"{service} was started {age_s:.0f} s ago and failed {away:.2f} % of the "
        f"{fsum(scrapes):.0f} scrapes in the budget window",
        subject=service,
    )
