"""Tickets that somebody may be working on, whose text names the asset or what it is part of."""

import re
from datetime import datetime, timedelta

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    asset_ids,
    compare,
    conclude,
    no_data,
    rows,
)

LIVE = ("open", "assigned", "inprogress")
HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
# One that was closed later was open then, whatever its status says by now.
TICKETS = (
    "SELECT DISTINCT ticket_id, asset_text, status, closed_utc FROM ticket"
    " WHERE site = :site AND opened_utc >= :oldest AND opened_utc <= :until"
    " AND (closed_utc IS NULL OR closed_utc > :until) ORDER BY ticket_id"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    oldest = timestamp - timedelta(hours=float(context.params["ticket_max_age_h"]))
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", TICKETS, site=warehouse, oldest=_utc(oldest), until=_utc(until)),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    heartbeat, tickets = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    facts = context.site.facts
    meant = {entity, _parent(entity, context)}
    found = [
        row["ticket_id"]
        for row in tickets
        if (row["closed_utc"] is not None or _squeezed(row["status"]) in LIVE)
        and meant.intersection(
            asset_ids(row["asset_text"] or "", words=facts["id_words"], width=facts["id_width"])
        )
    ]
    return conclude(
        [compare("open tickets", len(found), ">=", 1, "tickets")],
        f"{', '.join(found[:3])} is open on it or on what it is part of"
        if found
        else "no ticket is open on it or on what it is part of",
        subject=entity,
    )


def _parent(entity: str, context: Context) -> str:
    """What the asset is part of, empty when the rules name nothing."""
    found = re.fullmatch(r"(PE|DRV|CH|DD)-([0-9]+)", entity)
    if found is None:
        return ""
    kind, number = found[1], int(found[2])
    layout = context.site.facts["layout"]
    parent = "LS-1"
    if kind == "PE":
        parent = f"INF-{number // 10}"
    elif kind == "DD":
        parent = f"STG-{(number - 1) // layout['doors_per_lane'] + 1}"
    elif kind == "DRV" and number >= 10:
        parent = f"RC-{number - 10}"
    elif kind == "DRV" and number:
        parent = f"INF-{number}"
    return _normalised(parent, context)


def _squeezed(status: str | None) -> str:
    """`In Progress`, `IN_PROGRESS` and `in-progress` are one."""
    return re.sub(r"[ _-]", "", status or "").lower()


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
