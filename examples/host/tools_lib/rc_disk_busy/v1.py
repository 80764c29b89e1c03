"""Share of the time each disk had requests in flight; the busiest one counts."""

from datetime import datetime

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
    metric = selector("node_disk_io_time_seconds_total", instance=context.entity)
    return [samples("prometheus", metric, timestamp, window_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    needed_s = float(params["window_s"]) * float(params["min_coverage"])
    busy: dict[str, float] = {}
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        if span_s(series) < needed_s:
            continue
        share = 100 * increase(series) / span_s(series)
        if share >= 0:  # NaN is not
            busy[series.labels.get("device", "")] = share
    if not busy:
        return no_data(f"no disk figures of {context.entity!r} for {needed_s:g} s")
    device = max(sorted(busy), key=lambda name: busy[name])
    enough = float(params["device_busy_pct"])
    return conclude(
        [compare("disk busy", busy[device], ">=", enough, "percent")],
        f"{device} was busy {busy[device]:.1f} % of the time",
        # Acquitted, it is not what the rest of the walk is about.
        subject=device if busy[device] >= enough else "",
    )
