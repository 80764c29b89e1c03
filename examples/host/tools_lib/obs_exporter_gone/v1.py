"""Whether the host's exporter fails its scrapes or is not scraped any more.

Absence is what this node asks about, so it is an answer here; but only while the monitoring
server has scraped itself, or else the gap is the server's own.
"""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Series,
    Verdict,
    compare,
    conclude,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    params = context.params
    window_s = float(params["window_s"])
    return [
        samples(
            "prometheus",
            selector("up", instance=context.entity, job=str(params["node_job"])),
            timestamp,
            window_s,
        ),
        samples(
            "prometheus", selector("up", job=str(params["prometheus_job"])), timestamp, window_s
        ),
    ]


def newest(answer: tuple[Series, ...]) -> float:
    return max((series.times[-1] for series in answer if series.times), default=0.0)


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    exporter, server = [context.answer(query) for query in queries(warehouse, timestamp, context)]
    now = timestamp.timestamp()
    stale_s = float(context.params["scrape_stale_s"])
    if now - newest(exporter) > stale_s:
        if now - newest(server) > stale_s:
            return no_data("the monitoring server has scraped nothing lately, not even itself")
        recent = [t for series in exporter for t in series.times if now - t <= stale_s]
        return conclude(
            [compare("scrapes", float(len(recent)), "==", 0, "scrapes")],
            f"the exporter of {context.entity} is not scraped any more",
        )
    wanted = float(context.params["failed_scrapes"])
    points = sorted(
        point for series in exporter for point in zip(series.times, series.values, strict=True)
    )
    failed = 0
    for _, up in reversed(points):
        if up != 0:
            break
        failed += 1
    return conclude(
        [compare("scrapes failed in a row", float(failed), ">=", wanted, "scrapes")],
        f"the last {failed} scrapes of the exporter failed" if failed else "the exporter answers",
    )
