"""Each lane's newest snapshot: positions taken, of those that are not closed."""

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
SNAPSHOTS = (
    "SELECT DISTINCT lane, at_utc, positions, occupied, closed FROM staging_lane"
    " WHERE site = :site AND at_utc >= :oldest AND at_utc <= :until ORDER BY lane, at_utc"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    oldest = timestamp - timedelta(seconds=float(context.params["snapshot_max_age_s"]))
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", SNAPSHOTS, site=warehouse, oldest=_utc(oldest), until=_utc(until)),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    own = _lane(entity, context)
    heartbeat, snapshots = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    # Of a lane's snapshots, which come by time, the last one stays.
    latest = {_normalised(row["lane"], context): row for row in snapshots}
    crowded = {
        lane: 100 * (row["occupied"] - row["closed"]) / (row["positions"] - row["closed"])
        for lane, row in latest.items()
        if own in ("", lane) and row["positions"] > row["closed"]
    }
    if not crowded:
        return no_data(
            f"no fresh snapshot of {own or 'any lane'} with positions to use", subject=entity
        )
    fullest = min(crowded, key=lambda lane: (-crowded[lane], lane))
    return conclude(
        [compare("taken", crowded[fullest], ">=", float(context.params["staging_pct"]), "percent")],
        f"{crowded[fullest]:.0f} % of the usable positions of {fullest} are taken,"
        f" the most of {len(crowded)} lanes",
        subject=fullest,
    )


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
