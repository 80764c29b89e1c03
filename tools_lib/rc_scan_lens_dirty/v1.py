"""The worse tunnel beside the better one, over an hour."""

from datetime import datetime
from math import isfinite

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    increase,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["lens_window_s"])
    return [
        samples(
            "metrics", selector(f"dock_tunnel_{count}_total", site=warehouse), timestamp, window_s
        )
        for count in ("scans", "no_reads")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    scans, no_reads = (
        _increases(context, query) for query in queries(warehouse, timestamp, context)
    )
    minimum = float(context.params["lens_min_scans"])
    percents = {
        tunnel: 100 * no_reads[tunnel] / scans[tunnel]
        for tunnel in scans
        if tunnel in no_reads and scans[tunnel] >= minimum
    }
    tunnels = int(context.site.facts["layout"]["tunnels"])
    if len(percents) < tunnels:
        return no_data(
            f"{len(percents)} of {tunnels} tunnels with at least {minimum:g} scans",
            subject=_normalised(context.entity, context),
        )
    worse = min(percents, key=lambda tunnel: (-percents[tunnel], tunnel))
    better = min(percents.values())
    return conclude(
        [
            compare(
                "no-reads", percents[worse], ">=", float(context.params["no_read_pct"]), "percent"
            ),
            compare(
                "beside its twin",
                percents[worse],
                ">=",
                float(context.params["lens_factor"]) * better,
                "percent",
            ),
        ],
        f"{worse} misses {percents[worse]:.2f} % of the labels, its twin {better:.2f} %",
        subject=worse,
    )


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
