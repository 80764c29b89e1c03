"""The busiest core against the mean of the others."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    increase,
    mean,
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
    params = context.params
    needed_s = float(params["window_s"]) * float(params["min_coverage"])
    total: dict[str, list[float]] = {}
    idle: dict[str, list[float]] = {}
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        grown = increase(series)
        if span_s(series) >= needed_s and grown >= 0:  # NaN is not
            core = series.labels.get("cpu", "")
            total.setdefault(core, []).append(grown)
            if series.labels.get("mode") in ("idle", "iowait"):
                idle.setdefault(core, []).append(grown)
    busy = {
        core: 100 * (1 - fsum(idle.get(core, [])) / fsum(spent))
        for core, spent in total.items()
        if fsum(spent) > 0
    }
    if not busy:
        return no_data(f"no processor time of {context.entity!r} for {needed_s:g} s")
    busiest = max(sorted(busy), key=lambda core: busy[core])
    others = [value for core, value in busy.items() if core != busiest]
    clauses = [
        compare("cores", float(len(busy)), ">", 1),
        compare(
            f"core {busiest} busy",
            busy[busiest],
            ">=",
            float(params["core_saturated_pct"]),
            "percent",
        ),
    ]
    if others:
        clauses.append(
            compare(
                "other cores busy", mean(others), "<", float(params["core_others_pct"]), "percent"
            )
        )
    return conclude(
        clauses,
        f"core {busiest} is busy {busy[busiest]:.1f} %, "
        + (f"the rest ({len(others)}) {mean(others):.1f} %" if others else "and there is no other"),
    )
