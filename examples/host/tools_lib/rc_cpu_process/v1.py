"""The share of the busy processor time that one process used.

`host_top_process_cpu_ratio` comes from the top-process script through the exporter's textfile
collector: 1 is all cores of the host. A file that nobody renews would be served for ever, so its
age is looked at first.
"""

from datetime import datetime
from math import fsum, isfinite

from triage.tool_api import (
    Context,
    Query,
    Series,
    Verdict,
    compare,
    conclude,
    increase,
    last,
    no_data,
    samples,
    selector,
    span_s,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["window_s"])
    wanted = (
        selector("host_top_process_cpu_ratio", instance=context.entity),
        selector(
            "node_textfile_mtime_seconds",
            instance=context.entity,
            matching={"file": ".*host_top_process\\.prom"},
        ),
        selector("node_cpu_seconds_total", instance=context.entity),
    )
    return [samples("prometheus", metric, timestamp, window_s) for metric in wanted]


def busy_ratio(cpu: tuple[Series, ...], needed_s: float) -> float:
    total: list[float] = []
    idle: list[float] = []
    for series in cpu:
        grown = increase(series)
        if span_s(series) >= needed_s and grown >= 0:  # NaN is not
            total.append(grown)
            if series.labels.get("mode") in ("idle", "iowait"):
                idle.append(grown)
    return 1 - fsum(idle) / fsum(total) if fsum(total) > 0 else 0.0


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    processes, written, cpu = [
        context.answer(query) for query in queries(warehouse, timestamp, context)
    ]
    if not processes or not written:
        return no_data(
            f"{context.entity!r} reports no processes: the top-process script is not run"
        )
    age_s = timestamp.timestamp() - max(last(series) for series in written)
    if not age_s <= float(params["textfile_stale_s"]):
        return no_data(f"the top-process figures are {age_s:.0f} s old")
    busy = busy_ratio(cpu, float(params["window_s"]) * float(params["min_coverage"]))
    if busy <= 0:
        return no_data(f"no processor time of {context.entity!r}")
    # A process is listed only while it is among the busiest: absent means next to nothing.
    moments: set[float] = set()
    used: dict[str, float] = {}
    for series in processes:
        moments.update(series.times)
        name = f"{series.labels.get('comm', '')}[{series.labels.get('pid', '')}]"
        used[name] = used.get(name, 0.0) + fsum(v for v in series.values if isfinite(v))
    top = max(sorted(used), key=lambda name: used[name])
    share = 100 * used[top] / len(moments) / busy
    enough = float(params["process_share_pct"])
    return conclude(
        [compare("share of busy time", share, ">=", enough, "percent")],
        f"{top} used {share:.1f} % of the busy processor time",
        # Acquitted, it is not what the rest of the walk is about.
        subject=top if share >= enough else "",
    )
