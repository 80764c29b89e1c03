"""`triage gaps`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.exit_codes import CommandFailed, showing
from triage.cli.gap_views import gap_view, print_gaps
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import all_pages, out, print_json, warn
from triage.cli.reading import reader, whole_gap_id
from triage.cli.text import printable
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS

application = options.application("Look at what no tool could answer; close what is dealt with.")

MAX_LIMIT = 100_000
MAX_CASES = 1_000

GapId = Annotated[
    str, typer.Argument(metavar="GAP_ID", help="The whole id, or its first 6 or more.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="What was done about it.")]


@application.command("list")
@takes_origin
def list_gaps(
    closed: Annotated[
        bool, typer.Option("--closed", help="The closed ones instead of the open ones.")
    ] = False,
    node: Annotated[str, typer.Option("--node", help="Only those of this node.")] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")
    ] = 20,
    cursor: options.Cursor = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """List what no tool could answer, by kind: the node, why, and how often.

    The open ones, newest case first; with --closed those that were closed, the last closed first.
    They are read from the store of the configuration, beside a daemon that may be serving from
    it, or with --url from a daemon.

    Exit codes: 0; 2 a cursor that cannot be used; 69 the daemon or the store did not answer; 78
    the configuration, store or token cannot be used.
    """
    gaps, following = asyncio.run(_gaps(origin, closed, node, cursor, limit))
    if as_json:
        print_json({"gaps": gaps, "cursor": following})
        return
    with showing("gaps"):
        print_gaps(gaps, closed=closed)
    if following:
        warn(f"there are more: --cursor {following}")


@application.command("show")
@takes_origin
def show_gap(
    gap_id: GapId,
    cases: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_CASES, help="At most so many cases.")
    ] = 10,
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Show one kind of gap, with its newest cases.

    With --url the beginning of an id is looked for among the newest 1000 open and closed ones.

    Exit codes: 0; 1 there is no such gap; 2 an id that is too short or begins several; 69 the
    daemon or the store did not answer; 78 the configuration, store or token cannot be used.
    """
    document = asyncio.run(_gap(origin, gap_id, cases))
    if as_json:
        print_json(document)
        return
    with showing("gap"):
        out().print(gap_view(document))


@application.command("close")
@takes_origin
def close_gap(
    gap_id: GapId,
    by: options.By = "",
    note: Note = "",
    *,
    origin: Origin,
) -> None:
    """Close a gap: its cause is dealt with. A case that comes later opens it again.

    It is closed in the store of the configuration, beside a daemon that may be serving from it,
    or with --url by a daemon, where it takes a token that may change things.

    Exit codes: 0; 1 there is no such gap, or it is closed already; 2 an id that is too short or
    begins several, or a text that is too long; 69 the daemon or the store did not answer; 78 the
    configuration, store or token cannot be used.
    """
    person = options.bounded(options.person(by, "--by"), CLOSED_BY_CHARS, "--by")
    options.bounded(note, NOTE_CHARS, "--note")
    closed = asyncio.run(_close(origin, gap_id, person, note))
    typer.echo(f"{printable(closed)}: closed")


async def _gaps(
    origin: Origin, closed: bool, node: str, cursor: str, limit: int
) -> tuple[list[Mapping[str, Any]], str]:
    async with reader(origin) as source:
        return await all_pages(
            "gaps",
            lambda after, at_most: source.gap_page(
                closed=closed, node=node, cursor=after, limit=at_most
            ),
            cursor=cursor,
            limit=limit,
        )


async def _gap(origin: Origin, given: str, cases: int) -> Mapping[str, Any]:
    async with reader(origin) as source:
        gap_id = await whole_gap_id(source, given)
        document = await source.gap(gap_id, cases=cases)
    if document is None:
        raise CommandFailed(f"no gap {gap_id} was ever recorded here", Exit.FINDINGS)
    return document


async def _close(origin: Origin, given: str, by: str, note: str) -> str:
    async with reader(origin, changes=True) as source:
        gap_id = await whole_gap_id(source, given)
        await source.close_gap(gap_id, by=by, note=note)
    return gap_id
