"""`python -m bench NAME --json FILE`: what is measured, as ratios within one run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import overhead, prefetch, start
from bench.servers import MissingServer

application = typer.Typer(name="bench", no_args_is_help=True, add_completion=False, help=__doc__)
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often the contenders take turns.")]


@application.command("overhead")
def overhead_command(
    json_file: JsonFile = None,
    rounds: Rounds = overhead.ROUNDS,
    on_uvloop: Annotated[bool, typer.Option("--uvloop", help="Run on uvloop.")] = False,
) -> None:
    """Engine against a hand-written asyncio loop and against LangGraph.

    On the standard library's event loop, which is where both peers live; `--uvloop` uses the
    daemon's own.
    """
    with _progress() as progress:
        task = progress.add_task("walks", total=None)
        run = uvloop.run if on_uvloop else asyncio.run
        figures = run(
            overhead.measure(
                rounds, lambda done, of: progress.update(task, completed=done, total=of)
            )
        )
    figures["event_loop"] = "uvloop" if on_uvloop else "asyncio"
    _report("engine overhead", figures, json_file)


@application.command("prefetch")
def prefetch_command(json_file: JsonFile = None, rounds: Rounds = prefetch.ROUNDS) -> None:
    """`prefetch = subtree` against `layer` on a real Prometheus: latency and source load."""
    with _progress() as progress:
        task = progress.add_task("decisions", total=None)
        try:
            figures = prefetch.measure(
                rounds, lambda done, of: progress.update(task, completed=done, total=of)
            )
        except MissingServer as error:
            Console(stderr=True).print(str(error))
            raise typer.Exit(1) from None
    _report("prefetch", figures, json_file)


@application.command("start")
def start_command(json_file: JsonFile = None, rounds: Rounds = start.ROUNDS) -> None:
    """Time until the daemon is ready, and what it keeps resident when idle."""
    with _progress() as progress:
        task = progress.add_task("starts", total=None)
        figures = start.measure(
            rounds, lambda done, of: progress.update(task, completed=done, total=of)
        )
    _report("start", figures, json_file)


def _progress() -> Progress:
    return Progress(console=Console(stderr=True), disable=not sys.stderr.isatty())


def _report(title: str, figures: Mapping[str, Any], json_file: Path | None) -> None:
    table = Table(title=title, show_header=False)
    for name, value in figures.items():
        table.add_row(name, str(value))
    Console().print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    application()
