"""Which printer made the labels that nobody could read, beside its share of all labels."""

from datetime import datetime, timedelta
from math import fsum
from typing import Any

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
NO_READS = (
    "SELECT DISTINCT parcel_id, at_local, fold, printer FROM no_read"
    " WHERE site = :site AND printer IS NOT NULL AND at_local >= :first AND at_local <= :last"
    " ORDER BY parcel_id"
)
LABELS = (
    "SELECT DISTINCT batch_id, at_local, fold, printer, labels FROM label_count"
    " WHERE site = :site AND at_local >= :first AND at_local <= :last ORDER BY batch_id, printer"
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    after = until - timedelta(seconds=float(context.params["heartbeat_s"]))
    begin = until - timedelta(seconds=float(context.params["label_window_s"]))
    hour = timedelta(hours=1)  # by which a wall clock may have been put forward or back since
    first, last = _shown(begin, context, -hour), _shown(until, context, hour)
    return [
        rows("warehouse", HEARTBEAT, site=warehouse, after=_utc(after), until=_utc(until)),
        rows("warehouse", NO_READS, site=warehouse, first=first, last=last),
        rows("warehouse", LABELS, site=warehouse, first=first, last=last),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    heartbeat, no_reads, labels = (
        context.answer(query) for query in queries(warehouse, timestamp, context)
    )
    if heartbeat[0]["latest"] is None:
        return no_data("the warehouse feed is silent", subject=entity)
    unread = [_normalised(row["printer"], context) for row in _inside(no_reads, timestamp, context)]
    minimum = float(context.params["label_min_identified"])
    if not unread or len(unread) < minimum:
        return no_data(
            f"{len(unread)} unread labels with a known printer, fewer than {minimum:g}",
            subject=entity,
        )
    counts = {printer: unread.count(printer) for printer in unread}
    printer = min(counts, key=lambda one: (-counts[one], one))
    percent = 100 * counts[printer] / len(unread)
    printed = _inside(labels, timestamp, context)
    total = fsum(row["labels"] for row in printed)
    if not total:
        return no_data("no label was printed", subject=printer)
    own = fsum(row["labels"] for row in printed if _normalised(row["printer"], context) == printer)
    usual = 100 * own / total
    return conclude(
        [
            compare(
                "of the unread labels",
                percent,
                ">=",
                float(context.params["printer_share_pct"]),
                "percent",
            ),
            compare(
                "beside its share of labels",
                percent,
                ">=",
                float(context.params["printer_factor"]) * usual,
                "percent",
            ),
        ],
        f"{printer} made {percent:.0f} % of {len(unread)} unread labels and {usual:.0f} % of all",
        subject=printer,
    )


def _inside(
    answer: tuple[dict[str, Any], ...], timestamp: datetime, context: Context
) -> list[dict[str, Any]]:
    """The rows of the window, now that their local times are told apart."""
    until = timestamp - timedelta(seconds=float(context.params["warehouse_lag_s"]))
    begin = until - timedelta(seconds=float(context.params["label_window_s"]))
    return [
        row
        for row in answer
        if begin < context.localise(row["at_local"], fold=row["fold"]) <= until
    ]


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shown(moment: datetime, context: Context, margin: timedelta) -> str:
    return (context.wall_clock(moment) + margin).strftime("%Y-%m-%d %H:%M:%S")


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
