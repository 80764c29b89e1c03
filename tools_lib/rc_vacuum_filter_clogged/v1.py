"""Free-flow vacuum of the cell, while its grips still hold. A repeated value is no new reading."""

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
    valid,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    pick_s = float(context.params["pick_window_s"])
    window_s = float(context.params["gripper_window_s"])
    return [
        *(
            samples(
                "metrics", selector(f"dock_cell_{count}_total", site=warehouse), timestamp, pick_s
            )
            for count in ("picks", "fails")
        ),
        *(
            samples("metrics", selector(metric, site=warehouse), timestamp, window_s)
            for metric in ("dock_cell_freeflow", "dock_cell_leak")
        ),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    picks, fails, freeflow, leak = queries(warehouse, timestamp, context)
    cell = _worst_cell(entity, _increases(context, picks), _increases(context, fails), context)
    if not cell:
        return no_data("no cell has picked enough to be suspected", subject=entity)
    least = float(context.params["freeflow_valid_mbar"])
    distinct = {value for value in _values(context, freeflow).get(cell, ()) if value >= least}
    holds = _values(context, leak).get(cell, ())
    if len(distinct) < float(context.params["freeflow_min_distinct"]) or len(holds) < float(
        context.params["leak_min_holds"]
    ):
        return no_data(
            f"{len(distinct)} different free-flow readings and {len(holds)} holds of the cell",
            subject=cell,
        )
    flow, leaking = median(sorted(distinct)), median(holds)
    return conclude(
        [
            compare("free flow", flow, ">=", float(context.params["freeflow_mbar"]), "mbar"),
            compare("leak", leaking, "<", float(context.params["leak_mbar_s"]), "mbar/s"),
        ],
        f"{cell}: free flow at {flow:.0f} mbar, leak {leaking:.1f} mbar/s",
        subject=cell,
    )


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
