"""Heads in each outbound area in this quarter of an hour, beside the plan."""

from datetime import UTC, datetime, timedelta

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

SLOT_S = 900
HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
SLOT = (
    "SELECT DISTINCT area, planned, actual, trained_outbound, shift_start_utc, shift_end_utc"
    " FROM labor_slot WHERE site = :site AND slot_utc = :slot ORDER BY area"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    slot = datetime.fromtimestamp(until.timestamp() // SLOT_S * SLOT_S, UTC)
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", SLOT, site=warehouse, slot=_utc(slot)),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    heartbeat, slot = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    areas = [row for row in slot if row["area"] in context.site.facts["outbound_areas"]]
    since_s = [(until - context.localise(row["shift_start_utc"])).total_seconds() for row in areas]
    if since_s and min(since_s) < float(context.params["labor_settle_s"]):
        return no_data(f"the shift began {min(since_s) / 60:.0f} min before", subject=entity)
    manned = {
        row["area"]: (row["actual"] / row["planned"], row["actual"], row["planned"])
        for row in areas
        if row["actual"] is not None
        and row["planned"] >= float(context.params["labor_min_planned"])
    }
    if not manned:
        return no_data("no outbound area's heads are known", subject=entity)
    area = min(manned, key=lambda one: (manned[one][0], one))
    ratio, actual, planned = manned[area]
    return conclude(
        [compare("heads of plan", ratio, "<", float(context.params["labor_ratio"]), "ratio")],
        f"{area} has {actual} of {planned} planned heads, the fewest of {len(manned)} areas",
        subject=entity,
    )


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
