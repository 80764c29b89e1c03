"""The command `shadow`, for `bench.__main__` to take up."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
import uvloop

from bench.saying import JsonFile, counting, say, show, write


class Part(StrEnum):
    both = "both"
    subset = "subset"
    cost = "cost"


def add_to(application: typer.Typer) -> None:
    application.command("shadow")(shadow_command)


def shadow_command(
    json_file: JsonFile = None,
    alerts: Annotated[int, typer.Option(min=1, help="How many historical alerts.")] = 1500,
    part: Annotated[
        Part, typer.Option(help="What is reported, what it costs, or both.")
    ] = Part.both,
    pairs: Annotated[int, typer.Option(min=1, help="Of halves with shadows and without.")] = 10,
    rate: Annotated[float, typer.Option(min=1, help="Alerts a second, in an open loop.")] = 20.0,
    seconds: Annotated[float, typer.Option(min=1, help="Of a half, those that count.")] = 30.0,
    shadows: Annotated[
        int,
        typer.Option(min=0, max=6, help="How many of six nodes have a shadow. With 0: the noise."),
    ] = 2,
) -> None:
    """What versions in shadow report, and what they cost the alerts beside them.

    `subset`: the dock's historical alerts through worker and store, with four tools in shadow that
    have another threshold. Written are, in all and in `nodes` by node: evaluated, how often the
    active tool answered; compared, how many of these were; differ, on how many the changed tool
    comes to another verdict or subject in CPython, on the answers that the decision kept; reported,
    how many the shadow run says differ; missing and extra, ids of the one that are not of the
    other; other_verdict, of those in both another verdict than CPython's; unrecorded, failed,
    dropped; not_compared, of the former two the alert and why.

    `cost`: one daemon at a fixed rate, with shadows and without in turns. Written are in `cost`:
    p99_ratio, the median over pairs of the p99 latency with shadows by that without; p99_ratios,
    of each pair; p99_ms and p50_ms, on and off; comparisons by result; sender_late_p99_ms.

    Ends with 1 when something is missing, extra or not compared, or the ratio is above 1.1.
    """
    from bench.replay import report
    from bench.shadow import cost, subset

    report.quiet()
    figures: dict[str, object] = {}
    right = True
    if part is not Part.cost:
        with counting("alerts") as count:
            found = uvloop.run(subset.measure_subset(count=alerts, progress=count, say=say))
        show("shadows: what they report", {k: v for k, v in found.items() if k != "nodes"}, None)
        right = subset.is_exact(found)
        figures |= found
    if part is not Part.subset:
        plan = cost.Plan(rate_per_s=rate, half_s=seconds, pairs=pairs, shadows=shadows)
        with counting("halves") as count:
            measured = cost.measure_cost(plan, count)
        show("shadows: what they cost", measured, None)
        right = right and cost.is_cheap(measured)
        figures["cost"] = measured
    write(figures, json_file)
    if not right:
        raise typer.Exit(1)
