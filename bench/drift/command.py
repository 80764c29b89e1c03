"""`python -m bench drift`."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from bench.saying import JsonFile, counting, say, show


def add_to(application: typer.Typer) -> None:
    application.command("drift")(drift_command)


def drift_command(
    json_file: JsonFile = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many worlds.")] = 10,
    injected: Annotated[
        int, typer.Option(min=0, max=10, help="In how many of them changes are injected.")
    ] = 2,
    each: Annotated[int, typer.Option(min=1, help="Changes of each kind.")] = 8,
    tuning: Annotated[
        bool, typer.Option("--tuning", help="The worlds that the monitors were tuned on.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only changes whose name holds this.")] = "",
) -> None:
    """Changes under the dock's tools: how soon each is named, and how often falsely.

    Units, names, levels and dead sources, injected into the world on the way of its alerts through
    the engine. Ends with 1 when one is missed, or with more than one false alarm in 10,000
    evaluations.
    """
    from bench.drift import measuring
    from triage.telemetry.logs import configure

    # What the watcher warns of is what is counted here.
    configure(format="console", level="error")
    worlds = (measuring.TUNED_ON if tuning else measuring.NEVER_TUNED_ON)[:seeds]
    with counting("alerts") as count:
        run = uvloop.run(
            measuring.measure(
                seeds=worlds, injected_on=injected, each=each, only=only, progress=count, say=say
            )
        )
    figures = measuring.figures(run)
    show("drift", figures, json_file)
    if not measuring.is_right(figures):
        raise typer.Exit(1)
