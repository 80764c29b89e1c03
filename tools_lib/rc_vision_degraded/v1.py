"""Pictures without a grasp, of the cell and of the middle of the others."""

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
    median,
    no_data,
    samples,
    selector,
    valid,
)

GRAIN_S = 60


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    pick_s = float(context.params["pick_window_s"])
    window_s = float(context.params["vision_window_s"])
    picks = selector("dock_cell_picks_total", site=warehouse)
    return [
        samples("metrics", picks, timestamp, pick_s),
        samples("metrics", selector("dock_cell_fails_total", site=warehouse), timestamp, pick_s),
        samples("metrics", picks, timestamp, window_s),
        samples("metrics", selector("dock_cell_no_grasp", site=warehouse), timestamp, window_s),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    picks, fails, attempts, no_grasp = queries(warehouse, timestamp, context)
    cell = _worst_cell(entity, _increases(context, picks), _increases(context, fails), context)
    if not cell:
        return no_data("no cell has picked enough to be suspected", subject=entity)
    means = _means(_increases(context, attempts), _values(context, no_grasp), context)
    others = [percent for one, percent in means.items() if one != cell]
    if cell not in means or len(others) < float(context.params["min_neighbours"]):
        return no_data("too little is known of the cell or of the others", subject=cell)
    usual = median(others)
    return conclude(
        [
            compare(
                "no grasp", means[cell], ">=", float(context.params["no_grasp_pct"]), "percent"
            ),
            compare(
                "beside the others",
                means[cell],
                ">=",
                float(context.params["vision_factor"]) * usual,
                "percent",
            ),
        ],
        f"{cell} finds no grasp in {means[cell]:.1f} % of its pictures, the others {usual:.1f} %",
        subject=cell,
    )


def _means(
    attempts: dict[str, float], no_grasp: dict[str, tuple[float, ...]], context: Context
) -> dict[str, float]:
    """Mean percent without a grasp, of cells with enough picks and enough samples."""
    scale = 100 if context.site.units.get("cell_no_grasp") == "fraction" else 1
    minimum = float(context.params["vision_min_attempts"])
    expected = float(context.params["vision_window_s"]) / GRAIN_S
    return {
        cell: fsum(value * scale for value in values) / len(values)
        for cell, values in no_grasp.items()
        if attempts.get(cell, 0) >= minimum
        and len(values) >= float(context.params["min_coverage"]) * expected
    }


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
