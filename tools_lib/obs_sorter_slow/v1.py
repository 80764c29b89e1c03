"""Speed over set speed, sample by sample; the middle of the ratios decides."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Series,
    Verdict,
    compare,
    conclude,
    median,
    no_data,
    samples,
    selector,
    valid,
)

GRAIN_S = 5
SUBJECT = "LS-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["speed_window_s"])
    return [
        samples("metrics", selector(metric, site=warehouse), timestamp, window_s)
        for metric in ("dock_sorter_speed", "dock_sorter_setpoint")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    speed, setpoint = (
        _by_time(context.answer(query)) for query in queries(warehouse, timestamp, context)
    )
    # Both come in one unit, so the ratio needs none.
    ratios = [speed[at] / setpoint[at] for at in speed if setpoint.get(at, 0) > 0]
    expected = float(context.params["speed_window_s"]) / GRAIN_S
    if len(ratios) < float(context.params["min_coverage"]) * expected:
        return no_data(
            f"{len(ratios)} of {expected:g} pairs of speed and set speed", subject=SUBJECT
        )
    ratio = median(ratios)
    return conclude(
        [compare("speed of set speed", ratio, "<", float(context.params["slow_ratio"]), "ratio")],
        f"the loop runs at {100 * ratio:.1f} % of its set speed",
        subject=SUBJECT,
    )


def _by_time(answer: tuple[Series, ...]) -> dict[float, float]:
    return {
        at: value
        for series in answer
        for at, value in zip(series.times, series.values, strict=True)
        if valid([value], sentinels=(-1, 9999))
    }
