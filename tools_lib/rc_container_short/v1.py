"""Empty containers left in each zone, beside what it used in the last quarter of an hour."""

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
    "SELECT DISTINCT zone, at_utc, empties, used_15min FROM container_zone"
    " WHERE site = :site AND at_utc >= :oldest AND at_utc <= :until ORDER BY zone, at_utc"
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
    own = _zone(entity, context)
    heartbeat, snapshots = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    # Of a zone's snapshots, which come by time, the last one stays.
    latest = {_normalised(row["zone"], context): row for row in snapshots}
    minimum = float(context.params["container_min_use"])
    judged = [
        (not (used >= minimum and empties < used), empties - used, zone, empties, used)
        for zone, empties, used in (
            (zone, row["empties"], row["used_15min"]) for zone, row in latest.items()
        )
        if own in ("", zone)
    ]
    if not judged:
        return no_data(f"no fresh snapshot of {own or 'any zone'}", subject=entity)
    # One that runs short comes first, then the one with the least left over.
    enough, _, zone, empties, used = min(judged)
    return conclude(
        [
            compare("used", used, ">=", minimum, "containers"),
            compare("empties", empties, "<", used, "containers"),
        ],
        f"{zone} has {empties} empty containers and used {used} in 15 min",
        subject=entity if enough else zone,
    )


def _zone(entity: str, context: Context) -> str:
    """The staging zone that the asset belongs to, empty when it belongs to none."""
    found = re.fullmatch(r"(CH|DD|STG|ZN)-([0-9]+)", entity)
    if found is None or found[1] == "ZN":
        return entity if found else ""
    layout = context.site.facts["layout"]
    in_lane = {"CH": layout["chutes_per_lane"], "DD": layout["doors_per_lane"], "STG": 1}
    in_zone = in_lane[found[1]] * layout["lanes_per_zone"]
    return _normalised(f"ZN-{(int(found[2]) - 1) // in_zone + 1}", context)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
