"""A straight line through the programs' own memory: steep, and close to the samples.

Anonymous pages are what programs allocated; cached files are not among them. Of the services
whose resident memory is known, the one that grows the most is the subject.
"""

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
    wanted = (
        selector("node_memory_AnonPages_bytes", instance=context.entity),
        selector("node_memory_MemTotal_bytes", instance=context.entity),
        selector(
            "process_resident_memory_bytes",
            instance=context.entity,
            without={"job": str(context.params["node_job"])},
        ),
    )
    return [samples("prometheus", metric, timestamp, window_s) for metric in wanted]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    anon, total, services = [
        context.answer(query) for query in queries(warehouse, timestamp, context)
    ]
    needed_s = float(params["trend_window_s"]) * float(params["min_coverage"])
    if not anon or not total or not last(total[0]) > 0:
        return no_data(f"no memory figures of {context.entity!r}")
    used = anon[0]
    if len(used.times) < 3 or span_s(used) < needed_s:
        return no_data(f"the memory of {context.entity!r} was not followed for {needed_s:g} s")
    slope, steadiness = trend(used)
    growth = 100 * 3600 * slope / last(total[0])
    growing = {series.labels.get("job", ""): trend(series)[0] for series in services}
    fastest = max(sorted(growing), key=lambda job: growing[job]) if growing else ""
    subject = fastest if fastest and growing[fastest] > 0 else ""
    return conclude(
        [
            compare("growth", growth, ">", float(params["leak_pct_per_hour"]), "percent per hour"),
            compare("steadiness", steadiness, ">=", float(params["leak_steadiness"]), "ratio"),
        ],
        f"the programs' memory grows by {growth:.2f} % of the host's an hour"
        + (f", {subject} the most" if subject else ""),
        subject=subject,
    )
