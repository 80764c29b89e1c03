"""Time until the next pull that still waits for parcels."""

from datetime import datetime, timedelta

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
DEPARTURES = (
    "SELECT DISTINCT d.departure_id, d.lane, d.cpt_utc, d.planned,"
    " (SELECT l.loaded FROM loading l WHERE l.site = d.site AND l.departure_id = d.departure_id"
    " AND l.at_utc <= :until ORDER BY l.at_utc DESC LIMIT 1) AS loaded"
    " FROM departure d WHERE d.site = :site AND d.cpt_utc > :now AND d.cpt_utc <= :horizon"
    " ORDER BY d.cpt_utc, d.departure_id"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    horizon = timestamp + timedelta(seconds=float(context.params["slack_horizon_s"]))
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows(
            "warehouse",
            DEPARTURES,
            site=warehouse,
            now=_utc(timestamp),
            horizon=_utc(horizon),
            until=_utc(until),
        ),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    heartbeat, departures = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    waiting = [row for row in departures if row["loaded"] is None or row["loaded"] < row["planned"]]
    if not waiting:
        return conclude(
            [compare("pulls that wait for parcels", 0, "==", 0, "pulls")],
            f"none of the next {len(departures)} pulls waits for parcels",
            subject=entity,
        )
    first = waiting[0]  # they come by their pull
    left_min = (context.localise(first["cpt_utc"]) - timestamp).total_seconds() / 60
    loaded = first["loaded"] or 0
    return conclude(
        [
            compare(
                "to the next pull", left_min, ">=", float(context.params["cpt_slack_min"]), "min"
            )
        ],
        f"{first['lane']} is pulled in {left_min:.0f} min with {loaded} of {first['planned']}"
        " parcels loaded by now",
        subject=entity,
    )


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
