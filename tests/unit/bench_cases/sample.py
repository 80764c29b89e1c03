"""A small tool, and what its params are."""

from __future__ import annotations

from triage.sop.procedure import Param

NODE = "rc_air_pressure_low"

PARAMS = {
    "air_window_s": Param(value=600, unit="s"),
    "air_bar": Param(value=5.3, unit="bar"),
    "air_least": Param(value=3, unit="samples"),
}

TOOL = '''"""Is the pressure low?"""

from triage.tool_api import compare, conclude, mean, no_data, samples, selector, valid


def queries(warehouse, timestamp, context):
    window_s = float(context.params["air_window_s"])
    return [samples("metrics", selector("dock_air_pressure", site=warehouse), timestamp, window_s)]


def evaluate(warehouse, timestamp, context):
    scale = 0.07 if context.site.units.get("air_pressure") == "psi" else 1
    bars = [
        value * scale
        for series in context.answer(queries(warehouse, timestamp, context)[0])
        for value in valid(series.values, sentinels=(-1,))
    ]
    if len(bars) < float(context.params["air_least"]):
        return no_data("too few", subject="AIR-1")
    low = mean(bars)
    return conclude(
        [compare("pressure", low, "<", float(context.params["air_bar"]), "bar")],
        f"{100 * low:.0f} hundredths of a bar",
        subject="AIR-1",
    )
'''

MUTANTS = [
    (6, "window", "end shifted by the lag"),
    (7, "window", "air_window_s half as long"),
    (7, "window", "air_window_s twice as long"),
    (12, "unit", "conversion dropped"),
    (12, "unit", "conversion everywhere"),
    (12, "unit", "wrong factor"),
    (16, "null", "invalid kept"),
    (16, "null", "sentinels kept"),
    (18, "boundary", "air_least one less"),
    (18, "boundary", "air_least one more"),
    (18, "boundary", "strictness"),
    (18, "null", "check dropped"),
    (19, "entity", "another asset"),
    (19, "null", "false for no_data"),
    (20, "aggregation", "median for mean"),
    (22, "boundary", "air_bar a tenth less"),
    (22, "boundary", "air_bar a tenth more"),
    (22, "boundary", "strictness"),
    (24, "entity", "another asset"),
]
"""Line, kind and operator of every mutant of TOOL."""
