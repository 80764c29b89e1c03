"""Mean of available memory against the total, over the window."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    mean,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["window_s"])
    wanted = ("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes")
    return [
        samples("prometheus", selector(metric, instance=context.entity), timestamp, window_s)
        for metric in wanted
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    available, total = [context.answer(query) for query in queries(warehouse, timestamp, context)]
    shares: dict[float, float] = {}
    for series in available:
        for whole in total:
            # Both come from one scrape, so their times are equal; a total alone says nothing.
            totals = dict(zip(whole.times, whole.values, strict=True))
            for time, value in zip(series.times, series.values, strict=True):
                if totals.get(time, 0) > 0:
                    shares[time] = 100 * value / totals[time]
    needed_s = float(params["window_s"]) * float(params["min_coverage"])
    if not shares or max(shares) - min(shares) < needed_s:
        return no_data(f"no memory figures of {context.entity!r} for {needed_s:g} s")
    share = mean(list(shares.values()))
    return conclude(
        [compare("memory available", share, "<", float(params["memory_available_pct"]), "percent")],
        f"{share:.1f} % of the memory is available to programs",
    )
