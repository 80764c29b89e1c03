"""Share of all processor time spent idle with a disk request outstanding."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
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
    metric = selector("node_cpu_seconds_total", instance=context.entity)
    return [samples("prometheus", metric, timestamp, window_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    window_s = float(context.params["window_s"])
    needed_s = window_s * float(context.params["min_coverage"])
    total: list[float] = []
    waiting: list[float] = []
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        grown = increase(series)
        if span_s(series) >= needed_s and grown >= 0:  # NaN is not
            total.append(grown)
            if series.labels.get("mode") == "iowait":
                waiting.append(grown)
    if not waiting or fsum(total) <= 0:
        return no_data(f"no processor time of {context.entity!r} for {needed_s:g} s")
    share = 100 * fsum(waiting) / fsum(total)
    return conclude(
        [compare("waiting for disks", share, ">", float(context.params["iowait_pct"]), "percent")],
        f"the processor waited for disks {share:.1f} % of {window_s:g} s",
    )
