"""Bags and odd shapes among the parcels whose kind is known, beside a usual day."""

from datetime import datetime, timedelta
from math import fsum, isfinite, nan
from typing import Any

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    median,
    no_data,
    rows,
    same_time_weeks_before,
)

WEEKS = 4
HARD = ("polybag", "irregular")
HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
MIX = (
    "SELECT DISTINCT batch_id, at_local, fold, class, parcels FROM item_mix"
    " WHERE site = :site AND at_local >= :first AND at_local <= :last ORDER BY batch_id, class"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    window = timedelta(seconds=float(context.params["mix_window_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        *(
            rows(
                "warehouse",
                MIX,
                site=warehouse,
                first=_shown(end - window, context, -hour),
                last=_shown(end, context, hour),
            )
            for end in _ends(until, context)
        ),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    heartbeat, *mixes = (context.answer(query) for query in queries(warehouse, timestamp, context))
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    now, *weeks = (
        _hard_pct(mix, end, context) for mix, end in zip(mixes, _ends(until, context), strict=True)
    )
    if not isfinite(now):
        return no_data("too few parcels whose kind is known", subject=entity)
    known = [percent for percent in weeks if isfinite(percent)]
    if len(known) < float(context.params["baseline_min_weeks"]):
        return no_data(
            f"{now:.1f} % are bags and odd shapes; {len(known)} weeks to compare with",
            subject=entity,
        )
    usual = median(known)
    return conclude(
        [
            compare(
                "bags and odd shapes",
                now,
                ">=",
                usual + float(context.params["mix_points"]),
                "percent",
            )
        ],
        f"{now:.1f} % of the parcels are bags and odd shapes, usually {usual:.1f} %",
        subject=entity,
    )


def _ends(until: datetime, context: Context) -> list[datetime]:
    """The end of the window now, and at the same time in the weeks before."""
    return [until, *same_time_weeks_before(context, until, WEEKS)]


def _hard_pct(answer: tuple[dict[str, Any], ...], end: datetime, context: Context) -> float:
    """Percent of the parcels whose kind is known, NaN when there are too few."""
    begin = end - timedelta(seconds=float(context.params["mix_window_s"]))
    inside = [
        row for row in answer if begin < context.localise(row["at_local"], fold=row["fold"]) <= end
    ]
    total = fsum(row["parcels"] for row in inside)
    unknown = fsum(row["parcels"] for row in inside if row["class"] == "unknown")
    if total < float(context.params["mix_min_parcels"]) or unknown == total:
        return nan
    if 100 * unknown / total > float(context.params["mix_max_unknown_pct"]):
        return nan
    return 100 * fsum(row["parcels"] for row in inside if row["class"] in HARD) / (total - unknown)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
