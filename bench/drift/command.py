"""`python -m bench drift`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.saying import JsonFile, counting, say, write


def add_to(application: typer.Typer) -> None:
    application.command("drift")(drift_command)


def drift_command(
    json_file: JsonFile = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many worlds.")] = 10,
    injected: Annotated[
        int, typer.Option(min=0, max=10, help="In how many of them changes are injected.")
    ] = 10,
    each: Annotated[
        int, typer.Option(min=1, help="Units, names and levels in a world; every source dies.")
    ] = 8,
    tuning: Annotated[
        bool, typer.Option("--tuning", help="The worlds that the monitors were tuned on.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only changes whose name holds this.")] = "",
    processes: Annotated[int, typer.Option(min=1, help="That share the worlds.")] = min(
        4, os.cpu_count() or 1
    ),
) -> None:
    """Changes under the dock's tools: how soon each is named, and how often falsely.

    Units, names, levels and dead sources, injected into the world on the way of its alerts through
    the engine. Each is to be named within one re-test or 30 evaluations of the node, at every node
    that asks it. Ends with 1 when one is not, or with more than one false alarm in 10,000
    evaluations.
    """
    from bench.drift import measuring
    from bench.drift.figures import figures, in_words, is_right

    measuring.quiet_logs()
    worlds = (measuring.TUNED_ON if tuning else measuring.NEVER_TUNED_ON)[:seeds]
    sharing = min(processes, len(worlds))
    with counting("alerts" if sharing == 1 else "worlds") as count:
        run = measuring.measure(
            seeds=worlds,
            injected_on=injected,
            each=each,
            only=only,
            processes=sharing,
            progress=count,
            say=say,
        )
    found = figures(run)
    Console().print(_table(found))
    for line in in_words(found):
        typer.echo(line)
    write(found, json_file)
    if not is_right(found):
        raise typer.Exit(1)


def _table(found: Mapping[str, Any]) -> Table:
    from bench.drift.figures import COLUMNS

    table = Table("kind", title=f"drift: {found['criterion']}", box=SIMPLE_HEAD)
    table.caption = "pair: a change and a node that asks what it changes"
    for words in COLUMNS.values():
        table.add_column(words, justify="right", min_width=len(max(words.split(), key=len)))
    for kind, its in found["injected"].items():
        table.add_row(kind, *(str(its[name]) for name in COLUMNS))
    return table
