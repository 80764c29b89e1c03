"""What the other cells and the stations can carry beside what arrives; or a cell so bad that
keeping it is worse."""

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
    no_data,
    quantile,
    samples,
    selector,
    valid,
)

MINUTE_S = 60
NOT_WORKING = ("maintenance", "off")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    pick_s = float(context.params["pick_window_s"])
    hour_s = float(context.params["headroom_window_s"])
    recent_s = float(context.params["arrivals_window_s"])
    asked = (
        ("dock_cell_picks_total", pick_s),
        ("dock_cell_fails_total", pick_s),
        ("dock_cell_picks_total", hour_s),
        ("dock_cell_fails_total", hour_s),
        ("dock_cell_rate", hour_s),
        ("dock_cell_state_seconds", recent_s),
        ("dock_manual_rate", recent_s),
        ("dock_arrivals_rate", recent_s),
    )
    return [
        samples("metrics", selector(metric, site=warehouse), timestamp, window_s)
        for metric, window_s in asked
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    asked = queries(warehouse, timestamp, context)
    cell = _worst_cell(
        entity, _increases(context, asked[0]), _increases(context, asked[1]), context
    )
    clauses = []
    said = []
    picks, fails = (_increases(context, query).get(cell, nan) for query in asked[2:4])
    if isfinite(fails) and picks >= float(context.params["pick_min_attempts"]):
        harm = 100 * fails / picks
        said.append(f"{cell} fails {harm:.1f} % of its picks")
        clauses.append(
            compare(
                "keeping it is worse", harm, ">=", float(context.params["harm_fail_pct"]), "percent"
            )
        )
    capacity = _capacity(asked[4:7], context)
    arrivals = _mean(_values(context, asked[7]).get("LS-1", ()), context)
    if isfinite(capacity) and isfinite(arrivals):
        said.append(f"the others can carry {capacity:.0f} of {arrivals:.0f} parcels an hour")
        clauses.append(
            compare(
                "capacity without it",
                capacity,
                ">=",
                float(context.params["headroom_ratio"]) * arrivals,
                "parcels/h",
            )
        )
    if not clauses:
        return no_data("neither the load nor the cells are known", subject=cell or entity)
    return conclude(clauses, "; ".join(said), subject=cell or entity, any_of=True)


def _capacity(asked: list[Query], context: Context) -> float:
    """Parcels per hour of all enabled cells but one and of the stations, NaN when not known."""
    rates, states, manual = asked
    expected = float(context.params["headroom_window_s"]) / MINUTE_S
    needed = float(context.params["min_coverage"]) * expected
    idle = _idle_s(context, states)
    enabled = {
        cell: values
        for cell, values in _values(context, rates).items()
        if len(values) >= needed and idle.get(cell, 0) < float(context.params["enabled_max_off_s"])
    }
    if not enabled:
        return nan
    pooled = quantile([value for values in enabled.values() for value in values], 0.8)
    stations = [_mean(values, context) for values in _values(context, manual).values()]
    return (len(enabled) - 1) * pooled + fsum(one for one in stations if isfinite(one))


def _idle_s(context: Context, query: Query) -> dict[str, float]:
    """Seconds that each cell was in maintenance or off."""
    scale = 0.001 if context.site.units.get("cell_state_seconds") == "ms" else 1
    idle: dict[str, float] = {}
    for series in context.answer(query):
        if series.labels.get("state") in NOT_WORKING:
            cell = _normalised(series.labels.get("asset", ""), context)
            seconds = fsum(valid(series.values, sentinels=(-1, 9999))) * scale
            idle[cell] = idle.get(cell, 0) + seconds
    return idle


def _mean(values: tuple[float, ...], context: Context) -> float:
    """NaN when too much of the recent window is missing."""
    expected = float(context.params["arrivals_window_s"]) / MINUTE_S
    if len(values) < float(context.params["min_coverage"]) * expected:
        return nan
    return fsum(values) / len(values)


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
