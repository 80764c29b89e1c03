"""Parcels that rode past a chute with room: of the alert's own chute, else of all together."""

from datetime import datetime
from math import fsum, isfinite

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

COUNTS = ("attempts", "fails", "lane_full")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    own = _normalised(context.entity, context).startswith("CH-")
    window_s = float(context.params["divert_chute_window_s" if own else "divert_window_s"])
    return [
        samples(
            "metrics", selector(f"dock_divert_{count}_total", site=warehouse), timestamp, window_s
        )
        for count in COUNTS
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    own = entity.startswith("CH-")
    counted = _clean(context, queries(warehouse, timestamp, context), chute=entity if own else "")
    attempts = fsum(tried for tried, _ in counted.values())
    minimum = float(context.params["divert_chute_min_attempts" if own else "divert_min_attempts"])
    if not counted or attempts < minimum:
        return no_data(f"{attempts:g} diverts tried, fewer than {minimum:g}", subject=entity)
    percent = 100 * fsum(failed for _, failed in counted.values()) / attempts
    return conclude(
        [
            compare(
                "failed diverts", percent, ">=", float(context.params["divert_fail_pct"]), "percent"
            )
        ],
        f"{percent:.2f} % of {attempts:g} diverts failed, those to full lanes left out",
        subject=entity,
    )


def _clean(context: Context, asked: list[Query], chute: str = "") -> dict[str, tuple[float, float]]:
    """For each chute, attempts and fails without those that found the lane full."""
    attempts, fails, lane_full = (_increases(context, query) for query in asked)
    return {
        one: (attempts[one] - lane_full[one], fails[one] - lane_full[one])
        for one in attempts
        if one in fails and one in lane_full and chute in ("", one)
    }


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
