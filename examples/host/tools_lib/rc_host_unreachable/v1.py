"""Whether everything scraped from the host fails at once."""

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
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    # The newest scrape of each target; a target that left the configuration has none.
    stale_s = float(context.params["scrape_stale_s"])
    return [samples("prometheus", selector("up", instance=context.entity), timestamp, stale_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    newest = {
        series.labels.get("job", ""): last(series)
        for series in context.answer(queries(warehouse, timestamp, context)[0])
        if series.times
    }
    answering = sorted(job for job, up in newest.items() if up == 1)
    if len(newest) < 2 and not answering:
        return no_data(
            f"{len(newest)} targets are scraped on {context.entity!r}: "
            "the host and its program cannot be told apart"
        )
    return conclude(
        [compare("targets answering", float(len(answering)), "==", 0, "targets")],
        f"of {len(newest)} targets on {context.entity} {len(answering)} answer"
        + (f": {', '.join(answering)}" if answering else ""),
    )
