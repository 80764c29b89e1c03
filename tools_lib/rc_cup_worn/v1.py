"""How fast the cell's grips leak, beside the same hour of the seven days before."""

from datetime import datetime, timedelta
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
    valid,
)

DAYS = 7


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    pick_s = float(context.params["pick_window_s"])
    window_s = float(context.params["gripper_window_s"])
    leak = selector("dock_cell_leak", site=warehouse)
    return [
        *(
            samples(
                "metrics", selector(f"dock_cell_{count}_total", site=warehouse), timestamp, pick_s
            )
            for count in ("picks", "fails")
        ),
        *(
            samples("metrics", leak, timestamp - timedelta(days=day), window_s)
            for day in range(DAYS + 1)
        ),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    picks, fails, *leaks = queries(warehouse, timestamp, context)
    cell = _worst_cell(entity, _increases(context, picks), _increases(context, fails), context)
    if not cell:
        return no_data("no cell has picked enough to be suspected", subject=entity)
    minimum = float(context.params["leak_min_holds"])
    now, *before = (_values(context, leak).get(cell, ()) for leak in leaks)
    if len(now) < minimum:
        return no_data(f"{len(now)} holds of the cell, fewer than {minimum:g}", subject=cell)
    leak = median(now)
    clauses = [compare("leak", leak, ">=", float(context.params["leak_mbar_s"]), "mbar/s")]
    days = [median(values) for values in before if len(values) >= minimum]
    usual = "no week to compare with"
    if len(days) >= float(context.params["leak_min_days"]):
        factor = float(context.params["leak_factor"])
        usual = f"{median(days):.1f} in the week before"
        clauses.append(compare("beside its own week", leak, ">=", factor * median(days), "mbar/s"))
    return conclude(clauses, f"{cell} leaks {leak:.1f} mbar/s, {usual}", subject=cell)


def _worst_cell(
    entity: str, picks: dict[str, float], fails: dict[str, float], context: Context
) -> str:
    """The alert's own cell, else the one that fails most; empty when none picked enough."""
    if entity.startswith("RC-"):
        return entity
    minimum = float(context.params["pick_min_attempts"])
    failing = {
        cell: fails[cell] / picks[cell]
        for cell in picks
        if cell in fails and picks[cell] >= minimum
    }
    return min(failing, key=lambda cell: (-failing[cell], cell), default="")


def _values(context: Context, query: Query) -> dict[str, tuple[float, ...]]:
    return {
        _normalised(series.labels.get("asset", ""), context): valid(
            series.values, sentinels=(-1, 9999)
        )
        for series in context.answer(query)
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
