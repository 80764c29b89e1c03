"""One chute's failed diverts over two hours, beside the middle of the others."""

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
    median,
    no_data,
    samples,
    selector,
)

COUNTS = ("attempts", "fails", "lane_full")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["worn_window_s"])
    return [
        samples(
            "metrics", selector(f"dock_divert_{count}_total", site=warehouse), timestamp, window_s
        )
        for count in COUNTS
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    minimum = float(context.params["worn_min_attempts"])
    failing = {
        chute: 100 * failed / tried
        for chute, (tried, failed) in _clean(
            context, queries(warehouse, timestamp, context)
        ).items()
        if tried >= minimum
    }
    chute = entity
    if not entity.startswith("CH-"):
        chute = min(failing, key=lambda one: (-failing[one], one), default="")
    others = [percent for one, percent in failing.items() if one != chute]
    if chute not in failing or len(others) < float(context.params["min_neighbours"]):
        return no_data(
            "too few diverts tried to compare a chute with others",
            subject=chute or entity,
        )
    usual = median(others)
    return conclude(
        [
            compare(
                "failed diverts",
                failing[chute],
                ">=",
                float(context.params["worn_fail_pct"]),
                "percent",
            ),
            compare(
                "beside the others",
                failing[chute],
                ">=",
                float(context.params["worn_factor"]) * usual,
                "percent",
            ),
        ],
        f"{chute} fails {failing[chute]:.2f} % of its diverts, the others {usual:.2f} %",
        subject=chute,
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
