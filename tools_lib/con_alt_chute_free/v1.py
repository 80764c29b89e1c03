"""The alternate that the routing has for the chute: enabled, of the same pull, and with room."""

import re
from datetime import datetime, timedelta
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    call,
    compare,
    conclude,
    held,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    seconds = float(context.params["chute_window_s"]) + float(context.params["chute_carry_s"])
    return [
        samples("metrics", selector("dock_chute_full", site=warehouse), timestamp, seconds),
        call("equipment", "routes", site=warehouse, at=timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    full, routing = queries(warehouse, timestamp, context)
    shares = _full_shares(context, full, timestamp)
    chute = entity if entity.startswith("CH-") else _fullest(entity, shares, context)
    if not chute:
        return no_data("no chute has reported its state", subject=entity)
    answer = context.answer(routing)
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return no_data(f"the routing was last heard {age_s:.0f} s ago", subject=chute)
    routes = {_normalised(route["chute"], context): route for route in answer["routes"]}
    own = routes.get(chute)
    named = own["alternate"] if own is not None else None
    alternate = _normalised(named, context) if named is not None else ""
    other = routes.get(alternate)
    if own is None or other is None or other["enabled"] is not True or other["cpt"] != own["cpt"]:
        return conclude(
            [compare("usable alternates", 0, ">=", 1, "chutes")],
            "the chute has no alternate that is enabled and of the same pull",
            subject=chute,
        )
    if alternate not in shares:
        return no_data(f"it is not known how full {alternate} was", subject=chute)
    return conclude(
        [
            compare("usable alternates", 1, ">=", 1, "chutes"),
            compare(
                "alternate full",
                shares[alternate],
                "<",
                float(context.params["alternate_full_pct"]),
                "percent",
            ),
        ],
        f"{alternate} could take it and was full {shares[alternate]:.0f} % of the time",
        subject=chute,
    )


def _fullest(entity: str, shares: dict[str, float], context: Context) -> str:
    scope = _scope(entity, context)
    known = [chute for chute in shares if scope is None or chute in scope]
    return min(known, key=lambda chute: (-shares[chute], chute), default="")


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
