"""The newest count of the asset's spare part in the crib, without what is reserved."""

import re
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
STOCK = (
    "SELECT at_utc, on_hand, reserved FROM spare_stock"
    " WHERE site = :site AND part = :part AND at_utc <= :until ORDER BY at_utc DESC LIMIT 1"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    part = _part(_normalised(context.entity, context), context)
    asked: list[Query] = [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until))
    ]
    if part:
        asked.append(rows("warehouse", STOCK, site=warehouse, part=part, until=_utc(until)))
    return asked


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    heartbeat, *counts = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    if not counts:
        return no_data("no spare part is kept for such an asset", subject=entity)
    part = _part(entity, context)
    stock = [(row["on_hand"], row["reserved"] or 0) for row in counts[0]]
    on_hand, reserved = stock[0] if stock else (0, 0)
    needed = float(context.params["spare_min"])
    return conclude(
        [compare("spares", on_hand - reserved, ">=", needed, "parts")],
        f"{on_hand} of {part} on hand, {reserved} of them reserved"
        if stock
        else f"{part} was never counted",
        subject=entity,
    )


def _part(entity: str, context: Context) -> str:
    """The part that is kept for such assets, empty when none is."""
    found = re.fullmatch(r"([A-Z]+)-[0-9]+", entity)
    return str(context.site.facts["spare_parts"].get(found[1], "")) if found else ""


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
