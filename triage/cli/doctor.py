"""`triage doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby

import typer
from rich.text import Text

from triage.app.doctor import Complaint, file_complaints, in_order, record_complaints
from triage.app.exits import Exit
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import all_pages, busy, cell, out, print_json, warn
from triage.cli.reading import reader
from triage.cli.tool_bench import bench
from triage.errors import TriageError
from triage.library.overview import ToolRow

application = options.application()

MOST = 10_000


@application.command()
@takes_origin
def doctor(
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Find what is wrong with the tools that are at work.

    By node. What the files show: a tool that is missing, changed, quarantined, made from another
    text, or without cases; a sentence that candidates read otherwise than the labels. And what a
    daemon has recorded: sources whose fields, values or answers changed, tools that began to fail,
    open gaps, shadows that wait for a promotion. Each with what, since when, and what to do next.

    The record is read from the store of the configuration, beside a daemon that may be serving
    from it, or with --url from a daemon. Where neither can be had, that is said, and only the files
    are looked at.

    Exit codes: 0 nothing is wrong; 1 something is; 69 the daemon of --url did not answer; 78 the
    configuration, the SOP or the token cannot be used.
    """
    library = bench(origin.config)
    with busy(f"looking at the tools of {len(library.sop.nodes)} nodes"):
        rows = library.rows()
        found = file_complaints(library.root, library.sop, rows)
    recorded, note = _recorded(origin, rows)
    complaints = in_order([*found, *recorded], library.sop)
    if as_json:
        print_json(
            {
                "ok": not complaints,
                "findings": [one.document for one in complaints],
                "record": not note,
                "note": note,
            }
        )
    else:
        _print(complaints)
        if note:
            warn(note)
    if complaints:
        raise typer.Exit(Exit.FINDINGS)


def _recorded(origin: Origin, rows: Sequence[ToolRow]) -> tuple[list[Complaint], str]:
    """And why there are none, where the record could not be read."""
    try:
        return asyncio.run(_read(origin, rows)), ""
    except (TriageError, CommandFailed, OSError) as error:
        if origin.url or origin.token_env or origin.token_file:
            raise
        return [], f"only the files were looked at: {error}"


async def _read(origin: Origin, rows: Sequence[ToolRow]) -> list[Complaint]:
    async with reader(origin) as source:
        findings, _ = await all_pages(
            "findings",
            lambda after, at_most: source.finding_page(node="", cursor=after, limit=at_most),
            cursor="",
            limit=MOST,
        )
        gaps, _ = await all_pages(
            "gaps",
            lambda after, at_most: source.gap_page(
                closed=False, node="", cursor=after, limit=at_most
            ),
            cursor="",
            limit=MOST,
        )
        shadows = await source.shadows("")
    return record_complaints(findings, gaps, shadows, rows)


def _print(complaints: Sequence[Complaint]) -> None:
    console = out()
    for node, some in groupby(complaints, key=lambda one: one.node):
        console.print(cell(node or "the library", "bold"))
        for one in some:
            line = cell(f"  {one.kind}", "yellow")
            about = f" {one.about}" if one.about and one.about not in one.what else ""
            line.append_text(cell(f"{about}: {one.what}"))
            if one.since:
                line.append_text(cell(f" (since {one.since[:19]})", "dim"))
            console.print(line, soft_wrap=True)
            console.print(cell(f"    {one.next}", "dim"), soft_wrap=True)
    count = len(complaints)
    said = f"{count} finding{'' if count == 1 else 's'}" if count else "nothing is wrong"
    console.print(Text(said, style="yellow" if count else "green"))
