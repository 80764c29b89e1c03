"""People whom the donor areas can spare: above their own plan, trained, and with time left."""

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
    heartbeat, slot = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    needed = float(context.params["movable_heads"])
    needed_min = float(context.params["shift_left_min"])
    areas = []
    for row in slot:
        if row["area"] in context.site.facts["donor_areas"] and row["actual"] is not None:
            surplus = row["actual"] - float(context.params["donor_keep"]) * row["planned"]
            heads = min(surplus, row["trained_outbound"])
            left_s = (context.localise(row["shift_end_utc"]) - timestamp).total_seconds()
            movable = heads >= needed and left_s / 60 > needed_min
            areas.append((not movable, -heads, row["area"], left_s / 60))
    if not areas:
        return no_data("no donor area's heads are known", subject=entity)
    # One that can spare people comes first, then the one with most of them.
    _, short, area, left_min = min(areas)
    return conclude(
        [
            compare("movable", -short, ">=", needed, "heads"),
            compare("left of the shift", left_min, ">", needed_min, "min"),
        ],
        f"{area} can spare {max(-short, 0):.1f} trained heads, {left_min:.0f} min before shift end",
        subject=entity,
    )


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
