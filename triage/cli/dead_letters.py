"""`triage dead-letters`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.dead_letter_views import (
    ABSENT,
    print_dead_letter,
    print_dead_letters,
    redriven_line,
)
from triage.cli.exit_codes import CommandFailed, showing
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import all_pages, out, print_json, warn
from triage.cli.reading import DeadLetterReader, reader, whole_dead_letter_id
from triage.cli.text import printable
from triage.errors import PayloadError
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS

application = options.application("Look at what was given up; try it again, or take it out.")

PAGE = 200  # as many as the store gives at once: each is read with its payload
MAX_LIMIT = 100_000

DeadLetterId = Annotated[
    str, typer.Argument(metavar="ID", help="The whole id, or its first 6 or more.")
]
DeadLetterIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="The whole ids, or their first 6 or more."),
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="REASON", help="Only those given up for this reason.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why it is not needed.")]


@application.command("list")
@takes_origin
def list_dead_letters(
    reason: Reason = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")
    ] = 20,
    cursor: options.Cursor = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """List what was given up, newest first: alerts whose attempts were used up, and messages of
    streams that cannot be alerts.

    They are read from the store of the configuration, beside a daemon that may be serving from
    it, or with --url from a daemon.

    Exit codes: 0; 2 a cursor that cannot be used; 69 the daemon or the store did not answer; 78
    the configuration, store or token cannot be used.
    """
    letters, following = asyncio.run(_letters(origin, reason, cursor, limit))
    if as_json:
        print_json({"dead_letters": letters, "cursor": following})
        return
    with showing("dead letters"):
        print_dead_letters(letters)
    if following:
        warn(f"there are more: --cursor {following}")


@application.command("show")
@takes_origin
def show_dead_letter(
    dead_letter_id: DeadLetterId,
    as_json: options.Json = False,
    payload: Annotated[
        bool, typer.Option("--payload", help="Write the payload, byte for byte, and nothing else.")
    ] = False,
    *,
    origin: Origin,
) -> None:
    """Show one dead letter: why it was given up, and what the sender sent.

    With --url the beginning of an id is looked for among the newest 200.

    Exit codes: 0; 1 there is no such dead letter; 2 an id that is too short or begins several; 69
    the daemon or the store did not answer; 78 the configuration, store or token cannot be used.
    """
    if as_json and payload:
        raise typer.BadParameter("give one of --json and --payload")
    document = asyncio.run(_letter(origin, dead_letter_id))
    if as_json:
        print_json(document)
        return
    # Here: it brings the payload formats.
    from triage.app.dead_letters import payload_of

    with showing("dead letter"):
        body = payload_of(document)
        if not payload:
            print_dead_letter(document, body)
            return
    sys.stdout.flush()
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


@application.command("redrive")
@takes_origin
def redrive(
    dead_letter_ids: DeadLetterIds = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All of them, or with --reason all of that reason.")
    ] = False,
    reason: Reason = "",
    by: options.By = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Try dead letters again: an alert has all its attempts anew, a message of a stream is read
    with the field maps of now. What cannot be an alert still is told and stays.

    It is done in the store of the configuration, beside a daemon that may be serving from it, or
    with --url by a daemon, where it takes a token that may change things. Nothing is asked first.

    Exit codes: 0; 1 one of them is not there, or cannot be an alert still; 2 an id that is too
    short or begins several, or a text that is too long; 69 the daemon or the store did not answer,
    or has too much pending; 78 the configuration, store or token cannot be used.
    """
    given = dead_letter_ids or []
    if everything == bool(given):
        raise typer.BadParameter("say which: ids, or --all")
    if reason and not everything:
        raise typer.BadParameter("--reason goes with --all")
    person = options.bounded(options.person(by, "--by"), CLOSED_BY_CHARS, "--by")
    results: list[Mapping[str, Any]] = []
    try:
        asyncio.run(_redrive(origin, given, reason, person, results, told=not as_json))
    finally:
        # Also when it ends early: what was done is done.
        if as_json:
            print_json({"dead_letters": results})
    if everything and not results and not as_json:
        warn("no dead letters")
    if any(result["status"] != "redriven" or result.get("stays") for result in results):
        raise typer.Exit(Exit.FINDINGS)


@application.command("discard")
@takes_origin
def discard(
    dead_letter_ids: DeadLetterIds = None,
    note: Note = "",
    by: options.By = "",
    *,
    origin: Origin,
) -> None:
    """Take dead letters out for good: the ledger counts them as discarded.

    It is done in the store of the configuration, beside a daemon that may be serving from it, or
    with --url by a daemon, where it takes a token that may change things.

    Exit codes: 0; 1 one of them is not there; 2 an id that is too short or begins several, or a
    text that is too long; 69 the daemon or the store did not answer; 78 the configuration, store
    or token cannot be used.
    """
    if not dead_letter_ids:
        raise typer.BadParameter("say which: give their ids")
    person = options.bounded(options.person(by, "--by"), CLOSED_BY_CHARS, "--by")
    options.bounded(note, NOTE_CHARS, "--note")
    absent = asyncio.run(_discard(origin, dead_letter_ids, person, note))
    if absent:
        raise typer.Exit(Exit.FINDINGS)


async def _letters(
    origin: Origin, reason: str, cursor: str, limit: int
) -> tuple[list[Mapping[str, Any]], str]:
    async with reader(origin) as source:
        return await all_pages(
            "dead letters",
            lambda after, at_most: source.dead_letter_page(
                reason=reason, cursor=after, limit=at_most
            ),
            cursor=cursor,
            limit=limit,
            at_once=PAGE,
        )


async def _letter(origin: Origin, given: str) -> Mapping[str, Any]:
    async with reader(origin) as source:
        dead_letter_id = await whole_dead_letter_id(source, given)
        document = await source.dead_letter(dead_letter_id)
    if document is None:
        raise CommandFailed(f"{dead_letter_id}: {ABSENT}", Exit.FINDINGS)
    return document


async def _redrive(
    origin: Origin,
    given: Sequence[str],
    reason: str,
    by: str,
    results: list[Mapping[str, Any]],
    *,
    told: bool,
) -> None:
    """`results` are added to as they come."""
    console = out()
    async with reader(origin, changes=True) as source:
        # All ids first: one that is mistyped must not end a command that has half done its work.
        ids = [await whole_dead_letter_id(source, one) for one in given]
        async for dead_letter_id in _each(ids) if ids else _all(source, reason):
            result = await _redriven(source, dead_letter_id, by)
            results.append(result)
            if told:
                with showing("result"):
                    console.print(redriven_line(result), soft_wrap=True)


async def _redriven(source: DeadLetterReader, dead_letter_id: str, by: str) -> Mapping[str, Any]:
    named = {"dead_letter_id": dead_letter_id}
    try:
        document = await source.redrive(dead_letter_id, by=by)
    except PayloadError as error:
        return {**named, "status": "refused", "field": error.field, "problem": error.problem}
    if document is None:
        return {**named, "status": "absent"}
    return {**document, **named, "status": "redriven"}


async def _each(ids: Sequence[str]) -> AsyncIterator[str]:
    for one in ids:
        yield one


async def _all(source: DeadLetterReader, reason: str) -> AsyncIterator[str]:
    """From the newest to the oldest: what comes to lie there meanwhile is newer, and is not met."""
    cursor = ""
    while True:
        page, cursor = await source.dead_letter_page(reason=reason, cursor=cursor, limit=PAGE)
        with showing("dead letters"):
            ids = [str(letter["dead_letter_id"]) for letter in page]
        for one in ids:
            yield one
        if not cursor:
            return


async def _discard(origin: Origin, given: Sequence[str], by: str, note: str) -> int:
    """How many were not there."""
    absent = 0
    async with reader(origin, changes=True) as source:
        ids = [await whole_dead_letter_id(source, one) for one in given]
        for dead_letter_id in ids:
            done = await source.discard(dead_letter_id, by=by, note=note)
            typer.echo(f"{printable(dead_letter_id)}: {'discarded' if done else ABSENT}")
            absent += not done
    return absent
