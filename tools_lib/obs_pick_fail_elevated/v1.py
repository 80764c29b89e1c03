"""Failed picks of the cells in scope, all attempts together."""

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


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["pick_window_s"])
    return [
        samples(
            "metrics", selector(f"dock_cell_{count}_total", site=warehouse), timestamp, window_s
        )
        for count in ("picks", "fails")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    picks, fails = (_increases(context, query) for query in queries(warehouse, timestamp, context))
    cells = [
        cell for cell in picks if cell in fails and (cell == entity or not entity.startswith("RC-"))
    ]
    attempts = fsum(picks[cell] for cell in cells)
    minimum = float(context.params["pick_min_attempts"])
    if not cells or attempts < minimum:
        return no_data(f"{attempts:g} picks, fewer than {minimum:g}", subject=entity)
    percent = 100 * fsum(fails[cell] for cell in cells) / attempts
    return conclude(
        [compare("failed picks", percent, ">=", float(context.params["pick_fail_pct"]), "percent")],
        f"{percent:.1f} % of {attempts:g} picks failed in {len(cells)} cells",
        subject=entity,
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
