"""What each departure that is due will have loaded at its pull, at the pace of late."""

import re
from datetime import datetime, timedelta
from math import inf, isfinite, nan
from typing import Any

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    no_data,
    rows,
)

HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
# Of what was loaded before `early` only the newest row can be the one that a pace is told from.
LOADING = (
    "SELECT DISTINCT d.departure_id, d.lane, d.cpt_utc, d.planned, l.at_utc, l.loaded"
    " FROM departure d LEFT JOIN loading l"
    " ON l.site = d.site AND l.departure_id = d.departure_id AND l.at_utc <= :until"
    " AND l.at_utc >= coalesce((SELECT max(e.at_utc) FROM loading e WHERE e.site = d.site"
    " AND e.departure_id = d.departure_id AND e.at_utc <= :early), '')"
    " WHERE d.site = :site AND d.cpt_utc > :now AND d.cpt_utc <= :horizon"
    " ORDER BY d.departure_id, l.at_utc"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    oldest = timestamp - timedelta(seconds=float(context.params["snapshot_max_age_s"]))
    early = oldest - timedelta(seconds=float(context.params["loading_rate_window_s"]))
    horizon = timestamp + timedelta(seconds=float(context.params["departure_horizon_s"]))
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows(
            "warehouse",
            LOADING,
            site=warehouse,
            now=_utc(timestamp),
            horizon=_utc(horizon),
            until=_utc(until),
            early=_utc(early),
        ),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    own = _lane(entity, context)
    heartbeat, loading = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    due: dict[str, list[dict[str, Any]]] = {}
    for row in loading:
        if own in ("", _normalised(row["lane"], context)):
            due.setdefault(row["departure_id"], []).append(row)
    if not due:
        return conclude(
            [compare("departures due", 0, ">=", 1, "departures")],
            f"no departure of {own or 'any lane'} is due soon",
            subject=entity,
        )
    known = []
    for history in due.values():
        lane, planned = _normalised(history[0]["lane"], context), history[0]["planned"]
        projected = _projected(history, timestamp, context)
        if isfinite(projected):
            known.append((projected / planned if planned else inf, lane, projected, planned))
    if not known:
        return no_data(f"the pace of {len(due)} departures is not known", subject=entity)
    known = sorted(known)
    _, worst, projected, planned = known[0]
    ratio = float(context.params["departure_min_ratio"])
    return conclude(
        [
            compare(f"{lane} at its pull", loaded, "<", ratio * plan, "parcels")
            for _, lane, loaded, plan in known
        ],
        f"at this pace {worst} leaves with {projected:.0f} of {planned} parcels,"
        f" the worst of {len(known)} departures",
        subject=worst,
        any_of=True,
    )


def _projected(history: list[dict[str, Any]], timestamp: datetime, context: Context) -> float:
    """Parcels on the trailer at its pull, NaN when the pace is not known. Rows come by time."""
    told = [
        (context.localise(row["at_utc"]), row["loaded"])
        for row in history
        if row["at_utc"] is not None
    ]
    if not told:
        return nan
    at, loaded = told[-1]
    if (timestamp - at).total_seconds() > float(context.params["snapshot_max_age_s"]):
        return nan
    window_s = float(context.params["loading_rate_window_s"])
    earlier = [one for one in told if (at - one[0]).total_seconds() >= window_s]
    if not earlier:
        return nan
    before, had = earlier[-1]
    per_s = (loaded - had) / (at - before).total_seconds()
    left_s = (context.localise(history[0]["cpt_utc"]) - timestamp).total_seconds()
    return float(loaded + per_s * left_s)


def _lane(entity: str, context: Context) -> str:
    """The staging lane that the asset belongs to, empty when it belongs to none."""
    found = re.fullmatch(r"(CH|DD|STG)-([0-9]+)", entity)
    if found is None:
        return ""
    layout = context.site.facts["layout"]
    in_lane = {"CH": layout["chutes_per_lane"], "DD": layout["doors_per_lane"], "STG": 1}
    return _normalised(f"STG-{(int(found[2]) - 1) // in_lane[found[1]] + 1}", context)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
