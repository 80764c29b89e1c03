"""Processor time by mode over the window, all cores together; iowait counts as idle."""

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

MODES = ("user", "system", "nice", "irq", "softirq", "steal")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["window_s"])
    metric = selector("node_cpu_seconds_total", instance=context.entity)
    return [samples("prometheus", metric, timestamp, window_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    window_s = float(context.params["window_s"])
    needed_s = window_s * float(context.params["min_coverage"])
    spent: dict[str, list[float]] = {}
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        grown = increase(series)
        if span_s(series) >= needed_s and grown >= 0:  # NaN is not
            spent.setdefault(series.labels.get("mode", ""), []).append(grown)
    total = fsum(fsum(values) for values in spent.values())
    if total <= 0:
        return no_data(f"no processor time of {context.entity!r} for {needed_s:g} s")
    share = {mode: 100 * fsum(values) / total for mode, values in spent.items()}
    busy = fsum(value for mode, value in share.items() if mode not in ("idle", "iowait"))
    modes = ", ".join(f"{mode} {share[mode]:.1f} %" for mode in MODES if share.get(mode, 0) > 0)
    return conclude(
        [compare("processor busy", busy, ">", float(context.params["cpu_busy_pct"]), "percent")],
        f"processor busy {busy:.1f} % of {window_s:g} s ({modes or 'idle'})",
    )
