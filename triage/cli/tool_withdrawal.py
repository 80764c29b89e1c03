"""`triage tools deprecate` and `triage tools retire`."""

from __future__ import annotations

from typing import Annotated

import typer

from triage.cli import options
from triage.cli.findings import print_findings
from triage.cli.output import err, warn
from triage.cli.tool_bench import RELOAD, Node, bench
from triage.clock import SystemClock
from triage.library import lifecycle

Version = Annotated[int, typer.Argument(metavar="VERSION", help="Which one.", min=1)]


def register(application: typer.Typer) -> None:
    application.command("deprecate")(deprecate_tool)
    application.command("retire")(retire_tool)


def deprecate_tool(
    node: Node,
    version: Version,
    by: options.By = "",
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """Say that a version is not to be used again: no rollback returns to it.

    Only a promotion brings it back. The active version is refused: promote another first.

    Exit codes: 0; 2 no such node; 78 it was refused, and nothing has changed.
    """
    library = bench(config)
    owner = library.node(node)
    warnings = lifecycle.deprecate(
        library.root,
        library.sop,
        owner,
        version,
        by=options.person(by, "--by"),
        at=SystemClock().now(),
        note=note,
    )
    print_findings(err(), warnings)
    typer.echo(f"{owner}: version {version} is deprecated")


def retire_tool(
    node: Node,
    version: Version,
    leave_without_tool: Annotated[
        bool,
        typer.Option(
            "--leave-without-tool",
            help="Also the active version: the node then has none, and the fallback answers.",
        ),
    ] = False,
    by: options.By = "",
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """End a version for good. Its file stays; nothing brings it back.

    Exit codes: 0; 2 no such node; 78 it was refused, and nothing has changed.
    """
    library = bench(config)
    row = library.row(node)
    warnings = lifecycle.retire(
        library.root,
        library.sop,
        row.node,
        version,
        by=options.person(by, "--by"),
        at=SystemClock().now(),
        note=note,
        leave_without_tool=leave_without_tool,
    )
    print_findings(err(), warnings)
    typer.echo(f"{row.node}: version {version} is retired")
    if row.active == version:
        warn(f"{row.node} has no tool now: the fallback answers for it, where one is configured")
        warn(RELOAD)
