"""Parcels that were read but came back without a destination, minute by minute."""

from datetime import datetime, timedelta
from math import fsum

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
MINUTES = (
    "SELECT DISTINCT batch_id, at_local, fold, reads, unassigned FROM flow_minute"
    " WHERE site = :site AND at_local >= :first AND at_local <= :last ORDER BY batch_id"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    begin = until - timedelta(seconds=float(context.params["route_window_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    first, last = _shown(begin, context, -hour), _shown(until, context, hour)
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", MINUTES, site=warehouse, first=first, last=last),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    begin = until - timedelta(seconds=float(context.params["route_window_s"]))
    heartbeat, minutes = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    inside = [
        row
        for row in minutes
        if begin < context.localise(row["at_local"], fold=row["fold"]) <= until
    ]
    reads = fsum(row["reads"] for row in inside)
    minimum = float(context.params["route_min_reads"])
    if not reads or reads < minimum:
        return no_data(f"{reads:g} parcels read, fewer than {minimum:g}", subject=entity)
    percent = 100 * fsum(row["unassigned"] for row in inside) / reads
    return conclude(
        [compare("unassigned", percent, ">=", float(context.params["unassigned_pct"]), "percent")],
        f"{percent:.2f} % of {reads:g} parcels read have no destination",
        subject=entity,
    )


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
