"""Parcels that packing finished, beside what was planned for the same minutes. Those of a
scheduled break count on neither side."""

from datetime import UTC, datetime, timedelta
from math import fsum

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

MINUTE_S = 60
SLOT_S = 900
SLOT_MINUTES = 15
HEARTBEAT = (
    "SELECT max(at_utc) AS latest FROM feed_heartbeat"
    " WHERE site = :site AND at_utc > :after AND at_utc <= :until"
)
MINUTES = (
    "SELECT DISTINCT batch_id, at_local, fold, pack_completions FROM flow_minute"
    " WHERE site = :site AND at_local >= :first AND at_local <= :last ORDER BY batch_id"
)
PLAN = (
    "SELECT DISTINCT slot_utc, pack FROM forecast"
    " WHERE site = :site AND slot_utc >= :first AND slot_utc <= :last ORDER BY slot_utc"
)
BREAKS = (
    "SELECT DISTINCT start_local, start_fold, end_local, end_fold FROM break_plan"
    " WHERE site = :site AND start_local <= :last AND end_local >= :first"
    " ORDER BY start_local, start_fold"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    begin = until - timedelta(seconds=float(context.params["upstream_window_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    last = _shown(until, context, hour)
    slots = [slot for _, slot in _minutes(begin, until)]
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", MINUTES, site=warehouse, first=_shown(begin, context, -hour), last=last),
        rows("warehouse", PLAN, site=warehouse, first=_utc(slots[0]), last=_utc(slots[-1])),
        rows("warehouse", BREAKS, site=warehouse, first=_shown(begin, context, -hour), last=last),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    begin = until - timedelta(seconds=float(context.params["upstream_window_s"]))
    heartbeat, minutes, plan, breaks = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    pauses = [
        (
            context.localise(row["start_local"], fold=row["start_fold"]),
            context.localise(row["end_local"], fold=row["end_fold"]),
        )
        for row in breaks
    ]
    for start, end in pauses:
        if start <= until < end:
            return conclude(
                [compare("scheduled breaks", 1, "==", 0, "breaks")],
                f"packing has its break until {context.wall_clock(end):%H:%M}",
                subject=entity,
            )
    packed = fsum(
        row["pack_completions"]
        for row in minutes
        if begin < (at := context.localise(row["at_local"], fold=row["fold"])) <= until
        and not _paused(at, pauses)
    )
    by_slot = {context.localise(row["slot_utc"]): row["pack"] for row in plan}
    # Each minute has a fifteenth of its slot; divided once, so that nothing is rounded twice.
    fifteenfold = fsum(
        by_slot.get(slot, 0)
        for minute, slot in _minutes(begin, until)
        if not _paused(minute, pauses)
    )
    planned = fifteenfold / SLOT_MINUTES
    minimum = float(context.params["upstream_min_forecast"])
    if not planned or planned < minimum:
        return no_data(f"{planned:.0f} parcels planned, fewer than {minimum:g}", subject=entity)
    ratio = SLOT_MINUTES * packed / fifteenfold
    return conclude(
        [compare("packed of plan", ratio, "<", float(context.params["upstream_ratio"]), "ratio")],
        f"packing finished {packed:g} parcels, {100 * ratio:.0f} % of the {planned:.0f} planned",
        subject=entity,
    )


def _minutes(begin: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The end of each whole minute that ends in (begin, until], and its quarter of an hour."""
    first, last = (int(moment.timestamp() // MINUTE_S) for moment in (begin, until))
    return [
        (
            datetime.fromtimestamp(MINUTE_S * (minute + 1), UTC),
            datetime.fromtimestamp(MINUTE_S * minute // SLOT_S * SLOT_S, UTC),
        )
        for minute in range(first, last)
    ]


def _paused(minute_end: datetime, pauses: list[tuple[datetime, datetime]]) -> bool:
    return any(start < minute_end <= end for start, end in pauses)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
