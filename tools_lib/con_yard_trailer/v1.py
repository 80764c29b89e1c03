"""Empty, inspected carrier trailers in the yard, and drivers on shift to move one."""

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
TRAILERS = (
    "SELECT DISTINCT trailer_id, arrived_local, arrived_fold, left_local, left_fold"
    " FROM yard_trailer WHERE site = :site AND kind = 'carrier' AND status = 'empty'"
    " AND inspected = 1 AND arrived_local <= :last"
    " AND (left_local IS NULL OR left_local >= :first) ORDER BY trailer_id, arrived_local"
)
DRIVERS = (
    "SELECT DISTINCT person_id, on_local, on_fold, off_local, off_fold FROM roster"
    " WHERE site = :site AND role = 'yard_driver'"
    " AND on_local <= :last AND off_local >= :first ORDER BY person_id, on_local, on_fold"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    first, last = _shown(until, context, -hour), _shown(until, context, hour)
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", TRAILERS, site=warehouse, first=first, last=last),
        rows("warehouse", DRIVERS, site=warehouse, first=first, last=last),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    heartbeat, yard, roster = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    trailers = {
        row["trailer_id"]
        for row in yard
        if context.localise(row["arrived_local"], fold=row["arrived_fold"]) <= until
        and (
            row["left_local"] is None
            or context.localise(row["left_local"], fold=row["left_fold"]) > until
        )
    }
    drivers = {
        row["person_id"]
        for row in roster
        if context.localise(row["on_local"], fold=row["on_fold"])
        <= until
        < context.localise(row["off_local"], fold=row["off_fold"])
    }
    return conclude(
        [
            compare("trailers", len(trailers), ">=", 1, "trailers"),
            compare("drivers", len(drivers), ">=", 1, "people"),
        ],
        f"{len(trailers)} empty inspected trailers in the yard, {len(drivers)} drivers on shift",
        subject=entity,
    )


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
