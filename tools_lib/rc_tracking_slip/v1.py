"""Encoder beside drive, sample by sample, and parcels that the tracking lost."""

from datetime import datetime
from math import fsum, isfinite, nan

from triage.tool_api import (
    Context,
    Query,
    Series,
    Verdict,
    asset_id,
    compare,
    conclude,
    increase,
    no_data,
    samples,
    selector,
    valid,
)

GRAIN_S = 5
MS_PER_FTMIN = 0.3048 / 60
SUBJECT = "LS-1"


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    slip_s = float(context.params["slip_window_s"])
    lost_s = float(context.params["lost_window_s"])
    return [
        samples("metrics", selector("dock_encoder_speed", site=warehouse), timestamp, slip_s),
        samples("metrics", selector("dock_sorter_speed", site=warehouse), timestamp, slip_s),
        samples("metrics", selector("dock_tracking_lost_total", site=warehouse), timestamp, lost_s),
        samples("metrics", selector("dock_inducted_total", site=warehouse), timestamp, lost_s),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    encoder, drive, lost, inducted = queries(warehouse, timestamp, context)
    clauses = []
    said = []
    slips = _slips(
        _speeds(context.answer(encoder), "encoder_speed", context),
        _speeds(context.answer(drive), "sorter_speed", context),
        float(context.params["moving_speed"]),
    )
    expected = float(context.params["slip_window_s"]) / GRAIN_S
    if len(slips) >= float(context.params["min_coverage"]) * expected:
        slip = 100 * fsum(slips) / len(slips)
        said.append(f"encoder and drive differ by {slip:.2f} %")
        clauses.append(compare("slip", slip, ">=", float(context.params["slip_pct"]), "percent"))
    gone = _increases(context, lost).get(SUBJECT, nan)
    through = _increases(context, inducted).get(SUBJECT, nan)
    if isfinite(gone) and through >= float(context.params["lost_min_inducted"]):
        said.append(f"{gone:g} of {through:g} parcels lost")
        clauses.append(
            compare(
                "lost",
                1000 * gone / through,
                ">=",
                float(context.params["lost_per_1000"]),
                "per thousand",
            )
        )
    if not clauses:
        return no_data("neither speeds nor lost parcels are known", subject=SUBJECT)
    return conclude(clauses, "; ".join(said), subject=SUBJECT, any_of=True)


def _speeds(answer: tuple[Series, ...], metric: str, context: Context) -> dict[float, float]:
    """Metres per second by time."""
    scale = MS_PER_FTMIN if context.site.units.get(metric) == "ft/min" else 1
    return {
        at: value * scale
        for series in answer
        for at, value in zip(series.times, series.values, strict=True)
        if valid([value], sentinels=(-1, 9999))
    }


def _slips(encoder: dict[float, float], drive: dict[float, float], moving: float) -> list[float]:
    """As a share, of every instant at which both are known and the loop moves."""
    return [
        abs(encoder[at] / drive[at] - 1) for at in encoder if at in drive and drive[at] > moving
    ]


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
