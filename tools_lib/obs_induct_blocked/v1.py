"""Seconds that cells held a parcel with nowhere to put it, of those they could work in."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    no_data,
    samples,
    selector,
    valid,
)

NOT_WORKING = ("maintenance", "off")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["induct_window_s"])
    metric = selector("dock_cell_state_seconds", site=warehouse)
    return [samples("metrics", metric, timestamp, window_s)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    subject = _normalised(context.entity, context)
    scale = 0.001 if context.site.units.get("cell_state_seconds") == "ms" else 1
    spent: dict[str, float] = {}
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        state = series.labels.get("state", "")
        seconds = fsum(valid(series.values, sentinels=(-1, 9999))) * scale
        spent[state] = spent.get(state, 0) + seconds
    able = fsum(seconds for state, seconds in spent.items() if state not in NOT_WORKING)
    minimum = float(context.params["induct_min_cell_s"])
    if able < minimum:
        return no_data(
            f"{able:g} cell-seconds in which cells could work, fewer than {minimum:g}",
            subject=subject,
        )
    percent = 100 * spent.get("blocked", 0) / able
    return conclude(
        [compare("blocked", percent, ">=", float(context.params["blocked_pct"]), "percent")],
        f"the cells held a parcel with nowhere to put it {percent:.1f} % of that time",
        subject=subject,
    )


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
