"""The cell that fails most, beside the middle of the others."""

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
    minimum = float(context.params["pick_min_attempts"])
    failing = {
        cell: 100 * fails[cell] / picks[cell]
        for cell in picks
        if cell in fails and picks[cell] >= minimum
    }
    worst = min(failing, key=lambda cell: (-failing[cell], cell), default=entity)
    needed = int(context.params["min_neighbours"])
    if len(failing) < needed + 1:
        return no_data(
            f"{len(failing)} cells with at least {minimum:g} picks; a cell and {needed} others"
            " are needed to compare",
            subject=worst,
        )
    others = median([percent for cell, percent in failing.items() if cell != worst])
    factor = float(context.params["single_cell_factor"])
    return conclude(
        [
            compare("fails of the worst cell", failing[worst], ">=", factor * others, "percent"),
            compare(
                "fails of the others",
                others,
                "<",
                float(context.params["neighbours_fail_pct"]),
                "percent",
            ),
        ],
        f"{worst} fails {failing[worst]:.1f} % of its picks, the others {others:.1f} %",
        subject=worst,
    )


def _increases(context: Context, query: Query) -> dict[str, float]:
    modulus = float(context.params["counter_modulus"])
    max_step = float(context.params["counter_max_step"])
    grown = {
        _normalised(series.labels.get("asset", ""), context): increase(
            series, modulus=modulus, max_step=max_step
        )
        for series in context.answer(query)
    }
    return {cell: value for cell, value in grown.items() if isfinite(value)}


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
