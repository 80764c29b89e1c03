"""Repeat laps over the window, beside a usual day: the same time in the four weeks before."""

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
    mean,
    median,
    no_data,
    same_time_weeks_before,
    samples,
    selector,
    valid,
)

GRAIN_S = 60
WEEKS = 4
SUBJECT = "LS-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["recirc_window_s"])
    recirc = selector("dock_recirc_pct", site=warehouse)
    inducted = selector("dock_inducted_total", site=warehouse)
    ends = (timestamp, *same_time_weeks_before(context, timestamp, WEEKS))
    return [
        samples("metrics", inducted, timestamp, window_s),
        *(samples("metrics", recirc, end, window_s) for end in ends),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    counted, now, *weeks = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    recirc = _mean_pct(now, context)
    if not isfinite(recirc):
        return no_data("too few samples of recirculation", subject=SUBJECT)
    modulus = float(context.params["counter_modulus"])
    max_step = float(context.params["counter_max_step"])
    grown = [increase(one, modulus=modulus, max_step=max_step) for one in counted]
    inducted = fsum(value for value in grown if isfinite(value))
    minimum = float(context.params["recirc_min_inducted"])
    if inducted < minimum:
        return no_data(
            f"{inducted:g} parcels inducted, fewer than {minimum:g}: too few to judge laps by",
            subject=SUBJECT,
        )
    clauses = [
        compare("recirculation", recirc, ">=", float(context.params["recirc_pct"]), "percent")
    ]
    known = [one for one in (_mean_pct(week, context) for week in weeks) if isfinite(one)]
    usual = "no usual day to compare with"
    if len(known) >= float(context.params["baseline_min_weeks"]):
        factor = float(context.params["recirc_baseline_factor"])
        usual = f"usually {median(known):.2f} %"
        clauses.append(
            compare("beside a usual day", recirc, ">=", factor * median(known), "percent")
        )
    return conclude(clauses, f"{recirc:.2f} % of the laps repeat, {usual}", subject=SUBJECT)


def _mean_pct(series: tuple[Series, ...], context: Context) -> float:
    window_s = float(context.params["recirc_window_s"])
    scale = 100 if context.site.units.get("recirc_pct") == "fraction" else 1
    values = [value * scale for one in series for value in valid(one.values, sentinels=(-1, 9999))]
    enough = len(values) >= float(context.params["min_coverage"]) * window_s / GRAIN_S
    return mean(values) if enough else float("nan")
