"""Technicians on shift who have the skill, without those whom an urgent ticket holds."""

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

LIVE = ("open", "assigned", "inprogress")
HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
ROSTER = (
    "SELECT DISTINCT person_id, on_local, on_fold, off_local, off_fold FROM roster"
    " WHERE site = :site AND role = 'technician' AND skill = :skill"
    " AND on_local <= :last AND off_local >= :first ORDER BY person_id, on_local, on_fold"
)
# One that was closed later was open then, whatever its status says by now.
URGENT = (
    "SELECT DISTINCT ticket_id, assignee, status, closed_utc FROM ticket"
    " WHERE site = :site AND priority IN ('P1', 'P2') AND assignee IS NOT NULL"
    " AND opened_utc <= :until AND (closed_utc IS NULL OR closed_utc > :until) ORDER BY ticket_id"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows(
            "warehouse",
            ROSTER,
            site=warehouse,
            skill=str(context.params["tech_skill"]),
            first=_shown(until, context, -hour),
            last=_shown(until, context, hour),
        ),
        rows("warehouse", URGENT, site=warehouse, until=_utc(until)),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    heartbeat, roster, urgent = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    present = {
        row["person_id"]
        for row in roster
        if context.localise(row["on_local"], fold=row["on_fold"])
        <= until
        < context.localise(row["off_local"], fold=row["off_fold"])
    }
    busy = present & {
        row["assignee"]
        for row in urgent
        if row["closed_utc"] is not None or _squeezed(row["status"]) in LIVE
    }
    free = len(present) - len(busy)
    return conclude(
        [compare("free technicians", free, ">=", float(context.params["tech_min"]), "people")],
        f"{len(present)} qualified technicians are on shift, {len(busy)} of them busy",
        subject=entity,
    )


def _squeezed(status: str | None) -> str:
    """`In Progress`, `IN_PROGRESS` and `in-progress` are one."""
    return re.sub(r"[ _-]", "", status or "").lower()


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
