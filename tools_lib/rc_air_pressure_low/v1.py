"""The low end of the header's pressure: one reading in ten lies below it."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    no_data,
    quantile,
    samples,
    selector,
    valid,
)

GRAIN_S = 10
BAR_PER_PSI = 0.0689475729
SUBJECT = "AIR-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["air_window_s"])
    return [samples("metrics", selector("dock_air_pressure", site=warehouse), timestamp, window_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    scale = BAR_PER_PSI if context.site.units.get("air_pressure") == "psi" else 1
    bars = [
        value * scale
        for series in context.answer(queries(warehouse, timestamp, context)[0])
        for value in valid(series.values, sentinels=(-1, 9999))
    ]
    expected = float(context.params["air_window_s"]) / GRAIN_S
    if len(bars) < float(context.params["min_coverage"]) * expected:
        return no_data(f"{len(bars)} of {expected:g} readings of the air header", subject=SUBJECT)
    low = quantile(bars, 0.1)
    return conclude(
        [compare("air pressure", low, "<", float(context.params["air_bar"]), "bar")],
        f"air stood at {low:.2f} bar or less for a tenth of the time",
        subject=SUBJECT,
    )
