"""No-reads of the tunnels in scope, also beside the same time in the four weeks before."""

from datetime import datetime
from math import fsum, isfinite, nan

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    increase,
    median,
    no_data,
    same_time_weeks_before,
    samples,
    selector,
)

WEEKS = 4


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["no_read_window_s"])
    ends = (timestamp, *same_time_weeks_before(context, timestamp, WEEKS))
    return [
        samples("metrics", selector(f"dock_tunnel_{count}_total", site=warehouse), end, window_s)
        for end in ends
        for count in ("scans", "no_reads")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    asked = queries(warehouse, timestamp, context)
    percents = [
        _percent(entity, _increases(context, scans), _increases(context, no_reads), context)
        for scans, no_reads in zip(asked[::2], asked[1::2], strict=True)
    ]
    now, known = percents[0], [percent for percent in percents[1:] if isfinite(percent)]
    if not isfinite(now):
        return no_data("too few scans to judge by", subject=entity)
    clauses = [compare("no-reads", now, ">=", float(context.params["no_read_pct"]), "percent")]
    usual = "no usual day to compare with"
    if len(known) >= float(context.params["baseline_min_weeks"]):
        points = float(context.params["no_read_baseline_points"])
        usual = f"usually {median(known):.2f} %"
        clauses.append(compare("above a usual day", now, ">=", median(known) + points, "percent"))
    return conclude(
        clauses, f"{now:.2f} % of the scans found no label, {usual}", subject=entity, any_of=True
    )


def _percent(
    entity: str, scans: dict[str, float], no_reads: dict[str, float], context: Context
) -> float:
    tunnels = [
        tunnel
        for tunnel in scans
        if tunnel in no_reads and (tunnel == entity or not entity.startswith("ST-"))
    ]
    total = fsum(scans[tunnel] for tunnel in tunnels)
    if not tunnels or total < float(context.params["no_read_min_scans"]):
        return nan
    return 100 * fsum(no_reads[tunnel] for tunnel in tunnels) / total


def _increases(context: Context, query: Query) -> dict[str, float]:
    """What each asset's counter grew by, of those with two samples at least."""
    modulus = float(context.params["counter_modulus"])
    max_step = float(context.params["counter_max_step"])
    grown = {
        _normalised(series.labels.get("asset", ""), context): increase(
            series, modulus=modulus, max_step=max_step
        )
        for series in context.answer(query)
    }
    return {asset: value for asset, value in grown.items() if isfinite(value)}


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
