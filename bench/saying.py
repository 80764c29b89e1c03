"""How the commands of `python -m bench` say what they do and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from bench import record, watching
from bench.servers import MissingServer

Sealed = Annotated[bool, typer.Option("--sealed", help="The world that nothing was developed on.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]


@contextmanager
def counting(what: str) -> Iterator[watching.Progress]:
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


@contextmanager
def servers_needed() -> Iterator[None]:
    try:
        yield
    except MissingServer as error:
        say(str(error))
        raise typer.Exit(1) from None


def say(text: str) -> None:
    # Not wrapped: a command that is printed is there to be copied.
    Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


def show(title: str, figures: Mapping[str, Any], json_file: Path | None) -> None:
    table = Table(title=title, show_header=False)
    for name, value in figures.items():
        table.add_row(name, str(value))
    Console().print(table)
    write(figures, json_file)


def write(figures: Mapping[str, Any], json_file: Path | None) -> None:
    if json_file is not None:
        record.write(json_file, figures)
