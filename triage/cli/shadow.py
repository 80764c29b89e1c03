"""`triage tools shadow`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.exit_codes import CommandFailed, showing
from triage.cli.findings import print_findings
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import all_pages, err, out, print_json, warn
from triage.cli.reading import ShadowReader, reader
from triage.cli.shadow_views import report_view
from triage.cli.text import printable
from triage.cli.tool_bench import RELOAD, Node, bench
from triage.clock import SystemClock
from triage.library import lifecycle

MAX_DIFFERENCES = 100_000
Document = Mapping[str, Any]


class Result(StrEnum):
    """Of comparisons that are kept in full."""

    differs = "differs"
    unrecorded = "unrecorded"
    failed = "failed"


def register(application: typer.Typer) -> None:
    application.command("shadow")(shadow_tool)


@takes_origin
def shadow_tool(
    node: Node,
    start: Annotated[
        int | None,
        typer.Option("--start", metavar="VERSION", min=1, help="Put this version in shadow."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Take the version out of shadow.")] = False,
    differences: Annotated[
        int,
        typer.Option(
            "--differences", "-n", min=0, max=MAX_DIFFERENCES, help="Show so many, the newest."
        ),
    ] = 5,
    everything: Annotated[bool, typer.Option("--all", help="Show all of them.")] = False,
    result: Annotated[
        Result, typer.Option("--result", help="Which comparisons to show.")
    ] = Result.differs,
    of: Annotated[
        int | None,
        typer.Option("--of", metavar="VERSION", min=1, help="Of this version, not the newest."),
    ] = None,
    by: options.By = "",
    note: options.Note = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Show how a version in shadow compares with the active one; begin or end that.

    A version in shadow is run beside the active one on what that one saw, in the sandbox, and
    decides nothing. Agreement is of verdict and subject; its interval is the 95 % confidence
    interval. Differences are shown with both verdicts, and the answers that they rest on.

    The counts are read from the store of the configuration, beside a daemon that may be serving
    from it, or with --url from a daemon.

    Exit codes: 0; 1 no shadow of the node was ever compared; 2 no such node, or --start with
    --stop; 69 the daemon or the store did not answer; 78 the configuration, store or token cannot
    be used, or the library refused it and nothing has changed.
    """
    if start is not None and stop:
        raise typer.BadParameter("give one of --start and --stop", param_hint="--stop")
    if start is not None or stop:
        _change(node, start, by=by, note=note, config=origin.config, as_json=as_json)
        return
    limit = MAX_DIFFERENCES if everything else differences
    document = asyncio.run(_report(origin, node, of, result, limit))
    if as_json:
        print_json(document)
        return
    with showing("shadow"):
        out().print(report_view(document))
    if document["cursor"] and everything:
        warn(f"these are the newest {MAX_DIFFERENCES}: there are more over HTTP")


def _change(
    node: str, start: int | None, *, by: str, note: str, config: Path, as_json: bool
) -> None:
    library = bench(config)
    owner = library.node(node)
    who, at = options.person(by, "--by"), SystemClock().now()
    if start is not None:
        warnings = lifecycle.shadow_start(
            library.root, library.sop, owner, start, by=who, at=at, note=note
        )
        print_findings(err(), warnings)
        number, said = start, "is in shadow"
    else:
        number = lifecycle.shadow_stop(library.root, library.sop, owner, by=who, at=at, note=note)
        said = "is no longer in shadow"
    if as_json:
        print_json({"node": owner, "version": number, "in_shadow": start is not None})
    else:
        typer.echo(f"{owner}: version {number} {said}")
    warn(RELOAD)


async def _report(
    origin: Origin, node: str, of: int | None, result: Result, limit: int
) -> dict[str, Any]:
    async with reader(origin) as source:
        shadows = await source.shadows(node)
        wanted = [one for one in shadows if of in (None, one.get("shadow_version"))]
        if not wanted:
            raise CommandFailed(_nothing(node, of, shadows), Exit.FINDINGS)
        found, cursor = await _comparisons(source, node, wanted[0], result, limit)
    return {
        "node": node,
        "shadow": wanted[0],
        "others": [one for one in shadows if one is not wanted[0]],
        "result": result.value,
        "comparisons": found,
        "cursor": cursor,
    }


async def _comparisons(
    source: ShadowReader, node: str, pair: Document, result: Result, limit: int
) -> tuple[list[Document], str]:
    if limit == 0:
        return [], ""
    return await all_pages(
        "comparisons",
        lambda after, at_most: source.comparison_page(
            node,
            shadow=pair["shadow_version"],
            active=pair["active_version"],
            result=result.value,
            cursor=after,
            limit=at_most,
        ),
        cursor="",
        limit=limit,
    )


def _nothing(node: str, of: int | None, shadows: list[Document]) -> str:
    if of is not None and shadows:
        there = ", ".join(sorted({f"v{one.get('shadow_version')}" for one in shadows}))
        return f"v{of} of {printable(node)} was not compared: there are {there}"
    return (
        f"no shadow of {printable(node)} was ever compared here: put a version in shadow with"
        f" --start VERSION, reload, and wait for alerts that reach the node"
    )
