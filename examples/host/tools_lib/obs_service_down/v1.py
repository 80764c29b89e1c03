"""Whether the last scrapes of the service all failed."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    metric = selector("up", instance=context.entity, job=context.labels.get("job", ""))
    return [samples("prometheus", metric, timestamp, float(context.params["window_s"]))]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    job = context.labels.get("job", "")
    wanted = int(context.params["failed_scrapes"])
    answers = context.answer(queries(warehouse, timestamp, context)[0])
    scrapes = [
        up
        for _, up in sorted(
            point for series in answers for point in zip(series.times, series.values, strict=True)
        )
    ]
    newest = max((series.times[-1] for series in answers if series.times), default=0.0)
    age_s = timestamp.timestamp() - newest
    if len(scrapes) < wanted or age_s > float(context.params["scrape_stale_s"]):
        return no_data(f"{job!r} on {context.entity!r} was not scraped lately", subject=job)
    failed = 0
    for up in reversed(scrapes):
        if up != 0:
            break
        failed += 1
    return conclude(
        [compare("scrapes failed in a row", float(failed), ">=", float(wanted), "scrapes")],
        f"the last {failed} scrapes of {job} failed" if failed else f"{job} answers",
        subject=job,
    )
