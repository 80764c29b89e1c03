"""A straight line through the free space, and when it reaches zero."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    last,
    no_data,
    samples,
    selector,
    span_s,
    trend,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["trend_window_s"])
    mount = context.labels.get("mountpoint", "")
    metric = "node_filesystem_avail_bytes"
    wanted = (
        selector(metric, instance=context.entity, mountpoint=mount)
        if mount
        else selector(metric, instance=context.entity)
    )
    return [samples("prometheus", wanted, timestamp, window_s)]


def spoken(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.1f} minutes" if 60 * hours >= 1 else f"{3600 * hours:.1f} seconds"


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    parent = context.parents.get("obs_disk_full")
    mount = parent.subject if parent is not None else context.labels.get("mountpoint", "")
    needed_s = float(params["trend_window_s"]) * float(params["min_coverage"])
    followed = [
        series
        for series in context.answer(queries(warehouse, timestamp, context)[0])
        if series.labels.get("mountpoint") == mount
        and len(series.times) >= 3
        and span_s(series) >= needed_s
    ]
    if not followed:
        return no_data(f"the free space of {mount!r} was not followed for {needed_s:g} s")
    # Devices stacked on one mount point all show the figures of the topmost: any will do.
    series = max(followed, key=lambda one: one.times[-1])
    free = last(series)
    per_hour = -3600 * trend(series).per_s
    if free > 0 and not per_hour > 0:
        return conclude(
            [compare("filling", per_hour / 2**20, ">", 0, "MiB per hour")],
            f"{mount} is not filling any more",
            subject=mount,
        )
    hours = free / per_hour if free > 0 else 0.0
    return conclude(
        [
            compare("hours until full", hours, "<", float(params["disk_hours_left"]), "hours"),
        ],
        f"{mount} is full in {spoken(hours)}" if free > 0 else f"{mount} has no free space left",
        subject=mount,
    )
