"""`triage ledger`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import busy, cell, columns, out, print_json
from triage.cli.reading import reader
from triage.clock import SystemClock

application = options.application()


@application.command()
@takes_origin
def ledger(
    full: Annotated[
        bool, typer.Option("--full", help="Count every row anew, and name what is astray.")
    ] = False,
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Count what was accepted and what became of it.

    accepted = decided + pending + dead-lettered + discarded, or something was lost.

    Exit codes: 0 it balances; 1 it does not; 69 the daemon or the store did not answer; 78 the
    configuration, store or token cannot be used.
    """
    with busy("counting every row" if full else "reading the ledger"):
        document = asyncio.run(_ledger(origin, full=full))
    if as_json:
        print_json(document)
    else:
        table = columns("", "")
        table.show_header = False
        for name, value, style in _rows(document, SystemClock().now()):
            table.add_row(cell(name), cell(value, style))
        out().print(table)
    if not document.get("balances"):
        raise typer.Exit(Exit.FINDINGS)


async def _ledger(origin: Origin, *, full: bool) -> Mapping[str, Any]:
    async with reader(origin) as source:
        return await source.ledger(full=full)


def _rows(document: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str, str]]:
    for key in ("accepted", "decided", "pending", "dead_lettered", "discarded"):
        yield key.replace("_", "-"), str(document.get(key, "?")), ""
        if key == "pending":
            yield from _backlog(document, now)
    balances = bool(document.get("balances"))
    yield "balances", "yes" if balances else "no", "green" if balances else "bold red"
    oldest = document.get("oldest_pending_at")
    yield "oldest pending", _age(str(oldest), now) if oldest else "none", ""
    if document.get("purged"):
        yield "purged", f"{document['purged']} of these are no longer stored", ""
    yield "outbox pending", str(document.get("outbox_pending", "?")), ""
    yield "outbox given up", str(document.get("outbox_given_up", "?")), ""
    for stray in document.get("unaccounted", ()):
        yield "unaccounted", str(stray), "red"


def _backlog(document: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str, str]]:
    """The most severe first, as the document has them."""
    backlog = document.get("backlog")
    if not isinstance(backlog, Mapping):
        return
    for name, one in backlog.items():
        if isinstance(one, Mapping):
            oldest = _age(str(one.get("oldest_at", "?")), now)
            yield f"  {name}", f"{one.get('pending', '?')}, the oldest {oldest}", ""


def _age(at: str, now: datetime) -> str:
    try:
        seconds = (now - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return at
    return f"{max(0.0, seconds):.0f} s old, since {at}"
