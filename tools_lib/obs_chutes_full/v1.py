"""For each chute in scope, how much of the window it was full; the fullest decides."""

import re
from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    held,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    seconds = float(context.params["chute_window_s"]) + float(context.params["chute_carry_s"])
    return [samples("metrics", selector("dock_chute_full", site=warehouse), timestamp, seconds)]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    scope = _scope(entity, context)
    shares = {
        chute: share
        for chute, share in _full_shares(warehouse, timestamp, context).items()
        if scope is None or chute in scope
    }
    if not shares:
        return no_data("no chute in scope has reported its state", subject=entity)
    fullest = min(shares, key=lambda chute: (-shares[chute], chute))
    return conclude(
        [
            compare(
                "full", shares[fullest], ">=", float(context.params["chute_full_pct"]), "percent"
            )
        ],
        f"{fullest} was full {shares[fullest]:.0f} % of the time, the most of {len(shares)}",
        subject=fullest,
    )


def _full_shares(warehouse: str, timestamp: datetime, context: Context) -> dict[str, float]:
    """Percent of the known time, of the chutes of which enough time is known."""
    window_s = float(context.params["chute_window_s"])
    carry_s = float(context.params["chute_carry_s"])
    begin = datetime.fromtimestamp(timestamp.timestamp() - window_s, timestamp.tzinfo)
    shares = {}
    for series in context.answer(queries(warehouse, timestamp, context)[0]):
        spans = held(series, begin, timestamp, carry_s=carry_s)
        known = fsum(span.end - span.start for span in spans)
        if known >= float(context.params["min_coverage"]) * window_s:
            full = fsum(span.end - span.start for span in spans if span.value == 1)
            shares[_normalised(series.labels.get("asset", ""), context)] = 100 * full / known
    return shares


def _scope(entity: str, context: Context) -> set[str] | None:
    """The chutes that the alert speaks of, None for all of the site."""
    found = re.fullmatch(r"(CH|DD|STG|ZN)-([0-9]+)", entity)
    if found is None:
        return None
    kind, number = found[1], int(found[2])
    layout = context.site.facts["layout"]
    if kind == "CH":
        return {entity}
    if kind == "STG":
        lanes = [number]
    elif kind == "DD":
        lanes = [(number - 1) // layout["doors_per_lane"] + 1]
    else:
        last = number * layout["lanes_per_zone"]
        lanes = [last - offset for offset in range(layout["lanes_per_zone"])]
    per_lane = layout["chutes_per_lane"]
    return {
        _normalised(f"CH-{per_lane * (lane - 1) + chute}", context)
        for lane in lanes
        for chute in range(1, per_lane + 1)
    }


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
