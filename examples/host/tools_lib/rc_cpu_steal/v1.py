"""Share of all processor time that the hypervisor gave to somebody else."""

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
    stolen: list[float] = []
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        grown = increase(series)
        if span_s(series) >= needed_s and grown >= 0:  # NaN is not
            total.append(grown)
            if series.labels.get("mode") == "steal":
                stolen.append(grown)
    if not stolen or fsum(total) <= 0:
        return no_data(f"{context.entity!r} does not report stolen processor time")
    share = 100 * fsum(stolen) / fsum(total)
    return conclude(
        [
            compare(
                "processor stolen", share, ">", float(context.params["cpu_steal_pct"]), "percent"
            )
        ],
        f"the hypervisor took {share:.1f} % of the processor time",
    )
