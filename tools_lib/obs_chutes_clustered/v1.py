"""The chutes that are full a good part of the time, counted by staging zone."""

from datetime import datetime, timedelta
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
    shares = _full_shares(context, queries(warehouse, timestamp, context)[0], timestamp)
    if not shares:
        return no_data("no chute has reported its state", subject=entity)
    limit = float(context.params["chute_full_pct"])
    layout = context.site.facts["layout"]
    per_zone = layout["chutes_per_lane"] * layout["lanes_per_zone"]
    zones: dict[int, int] = {}
    for chute, share in shares.items():
        if share >= limit:
            zone = (int(chute.removeprefix("CH-")) - 1) // per_zone + 1
            zones[zone] = zones.get(zone, 0) + 1
    full = len([chute for chute, share in shares.items() if share >= limit])
    first = min(zones, key=lambda zone: (-zones[zone], zone), default=0)
    percent = 100 * zones[first] / full if full else 0.0
    clauses = [
        compare("full chutes", full, ">=", float(context.params["cluster_min_chutes"]), "chutes"),
        compare(
            "of one zone", percent, ">=", float(context.params["cluster_share_pct"]), "percent"
        ),
    ]
    clustered = all(clause.holds for clause in clauses)
    return conclude(
        clauses,
        f"{full} chutes are full, {percent:.0f} % of them in zone {first}"
        if full
        else "no chute is full",
        subject=_normalised(f"ZN-{first}", context) if clustered else entity,
    )


def _full_shares(context: Context, query: Query, timestamp: datetime) -> dict[str, float]:
    """Percent of the known time, of the chutes of which enough time is known."""
    window_s = float(context.params["chute_window_s"])
    carry_s = float(context.params["chute_carry_s"])
    begin = timestamp - timedelta(seconds=window_s)
    shares = {}
    for series in context.answer(query):
        spans = held(series, begin, timestamp, carry_s=carry_s)
        known = fsum(span.end - span.start for span in spans)
        if known >= float(context.params["min_coverage"]) * window_s:
            full = fsum(span.end - span.start for span in spans if span.value == 1)
            shares[_normalised(series.labels.get("asset", ""), context)] = 100 * full / known
    return shares


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
