"""The next departure of the lane: whether its trailer is on a door, and how late it is."""

import re
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
    rows,
    samples,
    selector,
)

HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
DEPARTURES = (
    "SELECT DISTINCT departure_id, lane, cpt_utc, plan_local, plan_fold, docked_local, docked_fold"
    " FROM departure WHERE site = :site AND cpt_utc > :now AND cpt_utc <= :horizon"
    " ORDER BY cpt_utc, departure_id"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    horizon = timestamp + timedelta(seconds=float(context.params["trailer_horizon_s"]))
    asked: list[Query] = [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows(
            "warehouse",
            DEPARTURES,
            site=warehouse,
            now=_utc(timestamp),
            horizon=_utc(horizon),
        ),
    ]
    if not _lane(_normalised(context.entity, context), context):
        seconds = float(context.params["chute_window_s"]) + float(context.params["chute_carry_s"])
        asked.append(
            samples("metrics", selector("dock_chute_full", site=warehouse), timestamp, seconds)
        )
    return asked


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    heartbeat, departures, *chutes = queries(warehouse, timestamp, context)
    if context.answer(heartbeat)[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    lane = _lane(entity, context)
    if chutes:
        lane = _lane(_fullest(entity, context, chutes[0], timestamp), context)
    if not lane:
        return no_data("no chute has reported its state", subject=entity)
    due = [row for row in context.answer(departures) if _normalised(row["lane"], context) == lane]
    if not due:
        return conclude(
            [compare("departures due", 0, ">=", 1, "departures")],
            f"no departure of {lane} is due soon",
            subject=lane,
        )
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    first = due[0]  # they come by their pull
    docked = (
        first["docked_local"] is not None
        and context.localise(first["docked_local"], fold=first["docked_fold"]) <= until
    )
    planned = context.localise(first["plan_local"], fold=first["plan_fold"])
    late_s = (until - planned).total_seconds()
    return conclude(
        [
            compare("trailers on a door", int(docked), "==", 0, "trailers"),
            compare("past its plan", late_s, ">=", float(context.params["trailer_late_s"]), "s"),
        ],
        f"the next trailer of {lane} is {'' if docked else 'not '}on a door,"
        f" {late_s / 60:.0f} min past its plan",
        subject=lane,
    )


def _lane(entity: str, context: Context) -> str:
    """The staging lane that the asset belongs to, empty when it belongs to none."""
    found = re.fullmatch(r"(CH|DD|STG)-([0-9]+)", entity)
    if found is None:
        return ""
    layout = context.site.facts["layout"]
    in_lane = {"CH": layout["chutes_per_lane"], "DD": layout["doors_per_lane"], "STG": 1}
    return _normalised(f"STG-{(int(found[2]) - 1) // in_lane[found[1]] + 1}", context)


def _fullest(entity: str, context: Context, query: Query, timestamp: datetime) -> str:
    """The chute that was full longest, of the alert's zone or of all; empty when none is known."""
    zone = re.fullmatch(r"ZN-([0-9]+)", entity)
    layout = context.site.facts["layout"]
    in_zone = layout["chutes_per_lane"] * layout["lanes_per_zone"]
    shares = {
        chute: share
        for chute, share in _full_shares(context, query, timestamp).items()
        if zone is None or (int(chute.removeprefix("CH-")) - 1) // in_zone + 1 == int(zone[1])
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


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
