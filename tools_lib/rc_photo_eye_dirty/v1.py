"""Little margin left, or blocked nearly all the time while its neighbours count parcels."""

import re
from datetime import datetime, timedelta
from math import fsum, isfinite
from typing import Any

from triage.tool_api import (
    Clause,
    Context,
    Query,
    Verdict,
    asset_id,
    call,
    compare,
    conclude,
    held,
    increase,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    entity = _normalised(context.entity, context)
    at = timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    if entity.startswith(("PE-", "INF-")):
        window_s = float(context.params["eye_window_s"])
        carried_s = window_s + float(context.params["eye_carry_s"])
        return [
            call("equipment", "eye_margin", site=warehouse, asset=entity, at=at),
            samples("metrics", selector("dock_eye_blocked", site=warehouse), timestamp, carried_s),
            samples("metrics", selector("dock_parcels_total", site=warehouse), timestamp, window_s),
        ]
    seconds = float(context.params["chute_window_s"]) + float(context.params["chute_carry_s"])
    asset = entity if entity.startswith("CH-") else "LS-1"
    return [
        call("equipment", "eye_margin", site=warehouse, asset=asset, at=at),
        samples("metrics", selector("dock_chute_full", site=warehouse), timestamp, seconds),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    asked = queries(warehouse, timestamp, context)
    margins = _margins(context.answer(asked[0]), timestamp, context)
    if entity.startswith(("PE-", "INF-")):
        facts = _infeed_eyes(entity, asked, margins, timestamp, context)
    else:
        chute = _fullest(entity, context, asked[1], timestamp)
        if not chute:
            return no_data("no chute has reported its state", subject=entity)
        limit = float(context.params["eye_margin_pct"])
        facts = [
            (chute, [compare("margin", margins[chute], "<", limit, "percent")])
            for _ in [chute]
            if chute in margins
        ]
    known = [(eye, clauses) for eye, clauses in facts if clauses]
    if not known:
        return no_data("no eye in scope can be judged", subject=entity)
    for eye, clauses in known:
        if any(clause.holds for clause in clauses):
            return conclude(clauses, f"{eye} sees badly", subject=eye, any_of=True)
    return conclude(
        known[0][1], f"none of {len(known)} eyes sees badly", subject=entity, any_of=True
    )


def _margins(answer: Any, timestamp: datetime, context: Context) -> dict[str, float]:
    """By eye, of those whose controller was heard lately."""
    age_s = (timestamp - datetime.fromisoformat(answer["as_of"])).total_seconds()
    if age_s > float(context.params["state_max_age_s"]):
        return {}
    return {
        _normalised(eye["eye"], context): float(eye["margin_pct"])
        for eye in answer["eyes"]
        if eye["margin_pct"] != -1
    }


def _infeed_eyes(
    entity: str,
    asked: list[Query],
    margins: dict[str, float],
    timestamp: datetime,
    context: Context,
) -> list[tuple[str, list[Clause]]]:
    """For each eye in scope, in order, the clauses that are known."""
    window_s = float(context.params["eye_window_s"])
    begin = timestamp - timedelta(seconds=window_s)
    carry_s = float(context.params["eye_carry_s"])
    states = {
        _normalised(series.labels.get("asset", ""), context): series
        for series in context.answer(asked[1])
    }
    grown = _increases(context, asked[2])
    facts: list[tuple[str, list[Clause]]] = []
    for eye, neighbours in _eyes(entity, context):
        clauses = []
        if eye in margins:
            clauses.append(
                compare(
                    "margin", margins[eye], "<", float(context.params["eye_margin_pct"]), "percent"
                )
            )
        spans = held(states[eye], begin, timestamp, carry_s=carry_s) if eye in states else ()
        known_s = fsum(span.end - span.start for span in spans)
        if known_s >= float(context.params["min_coverage"]) * window_s and all(
            neighbour in grown for neighbour in neighbours
        ):
            blocked_s = fsum(span.end - span.start for span in spans if span.value == 1)
            blocked = 100 * blocked_s / known_s
            least = min(grown[neighbour] for neighbour in neighbours)
            passing = least >= float(context.params["eye_neighbour_parcels"])
            clauses.append(
                compare(
                    "blocked while parcels pass",
                    blocked if passing else 0.0,
                    ">=",
                    float(context.params["eye_blocked_pct"]),
                    "percent",
                )
            )
        facts.append((eye, clauses))
    return facts


def _eyes(entity: str, context: Context) -> list[tuple[str, list[str]]]:
    """Each eye in scope, in flow order, with the eyes next to it."""
    layout = context.site.facts["layout"]
    count = layout["eyes_per_infeed"]
    return [
        (
            f"PE-{infeed}{place}",
            [f"PE-{infeed}{beside}" for beside in (place - 1, place + 1) if 1 <= beside <= count],
        )
        for infeed in range(1, layout["infeeds"] + 1)
        for place in range(1, count + 1)
        if entity in (f"PE-{infeed}{place}", f"INF-{infeed}")
    ]


def _fullest(entity: str, context: Context, query: Query, timestamp: datetime) -> str:
    """The chute that was full longest, empty when none is known."""
    if entity.startswith("CH-"):
        return entity
    scope = _scope(entity, context)
    shares = {
        chute: share
        for chute, share in _full_shares(context, query, timestamp).items()
        if scope is None or chute in scope
    }
    return min(shares, key=lambda chute: (-shares[chute], chute), default="")


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


def _increases(context: Context, query: Query) -> dict[str, float]:
    """What each asset's counter grew by, of those with two samples at least."""
    modulus = float(context.params["counter_modulus"])
    max_step = float(context.params["counter_max_step"])
    grown = {
        _normalised(series.labels.get("asset", ""), context): increase(
            series, modulus=modulus, max_step=max_step
        )
        for series in context.answer(query)
    }
    return {asset: value for asset, value in grown.items() if isfinite(value)}


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
