"""Pages a second into swap and out of it: thrashing needs both."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Series,
    Verdict,
    compare,
    conclude,
    increase,
    no_data,
    samples,
    selector,
    span_s,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["window_s"])
    return [
        samples("prometheus", selector(metric, instance=context.entity), timestamp, window_s)
        for metric in ("node_vmstat_pswpin", "node_vmstat_pswpout")
    ]


def rate(answer: tuple[Series, ...], needed_s: float) -> float:
    rates = [increase(series) / span_s(series) for series in answer if span_s(series) >= needed_s]
    return fsum(rates) if rates else -1.0


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    needed_s = float(params["window_s"]) * float(params["min_coverage"])
    pages_in, pages_out = [
        rate(context.answer(query), needed_s) for query in queries(warehouse, timestamp, context)
    ]
    if not (pages_in >= 0 and pages_out >= 0):
        return no_data(f"no swap figures of {context.entity!r} for {needed_s:g} s")
    most = float(params["swap_pages_per_s"])
    return conclude(
        [
            compare("pages fetched back", pages_in, ">", most, "pages per second"),
            compare("pages moved out", pages_out, ">", most, "pages per second"),
        ],
        f"{pages_in:.0f} pages a second come back from swap, {pages_out:.0f} go out",
    )
