"""Load and temperature of the drive behind the asset; samples while it is off do not count."""

import re
from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    asset_id,
    compare,
    conclude,
    no_data,
    quantile,
    samples,
    selector,
    valid,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["drive_window_s"])
    return [
        samples("metrics", selector(metric, site=warehouse), timestamp, window_s)
        for metric in ("dock_drive_load", "dock_drive_temp")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    drive = _drive(_normalised(context.entity, context))
    loads, temps = (
        _values(context, query).get(drive, ()) for query in queries(warehouse, timestamp, context)
    )
    minimum = int(context.params["drive_min_samples"])
    clauses = []
    said = []
    if len(loads) >= minimum:
        load = fsum(loads) / len(loads)
        said.append(f"load {load:.0f} %")
        clauses.append(
            compare("mean load", load, ">=", float(context.params["drive_load_pct"]), "percent")
        )
    if len(temps) >= minimum:
        hot = quantile(temps, 0.95)
        if context.site.units.get("drive_temp") == "fahrenheit":
            hot = (hot - 32) / 1.8
        said.append(f"temperature {hot:.0f} °C")
        clauses.append(
            compare("temperature", hot, ">=", float(context.params["drive_temp_c"]), "celsius")
        )
    if not clauses:
        return no_data(f"{drive} was not running, or has not reported", subject=drive)
    return conclude(clauses, f"{drive}: {', '.join(said)}", subject=drive, any_of=True)


def _drive(entity: str) -> str:
    """The drive that moves the asset: DRV-n of infeed n and its eyes, DRV-1n of cell n."""
    found = re.fullmatch(r"(DRV|INF|PE|RC)-([0-9]+)", entity)
    if found is None:
        return "DRV-0"
    number = int(found[2])
    if found[1] == "PE":
        number //= 10
    elif found[1] == "RC":
        number += 10
    return f"DRV-{number}"


def _values(context: Context, query: Query) -> dict[str, tuple[float, ...]]:
    return {
        _normalised(series.labels.get("asset", ""), context): valid(
            series.values, sentinels=(-1, 9999)
        )
        for series in context.answer(query)
    }


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
