"""`triage retest`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.procedure import load_procedure
from triage.app.retest import NodeRetest, Shelf, documents, retest_nodes
from triage.app.settings import Settings
from triage.app.trial_parts import live_answers
from triage.cli import options
from triage.cli.findings import finding_document, print_findings
from triage.cli.nodes import node_named
from triage.cli.output import cell, err, out, print_json, progress, warn
from triage.clock import SystemClock
from triage.errors import Finding
from triage.library import quarantine

application = options.application()


@application.command()
def retest(
    node: Annotated[
        str, typer.Argument(metavar="[NODE]", help="Only this node's tool.", show_default=False)
    ] = "",
    live: Annotated[
        bool | None,
        typer.Option(
            "--live/--no-live",
            help="Ask the sources as of each case's time too; as [watch] says by default.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Try the active tools on their cases again.

    With the answers that were recorded, and with live ones as of each case's time.

    A verdict that is no longer the label's is a finding, naming the case and both. So is what a
    source answers otherwise than it did to the same query: another field or type, another scale,
    nulls; and a source that does not answer. Nothing is changed or recorded.

    Exit codes: 0 all as it was, or there are no cases; 1 something was found, or cases cannot be
    read; 2 no such node; 78 configuration, SOP, library or sources were refused.
    """
    settings = Settings.load(config, os.environ)
    asks = settings.watch.live if live is None else live
    retests, faults = asyncio.run(_retest(settings, node, asks))
    if as_json:
        print_json({**documents(retests), "faults": [finding_document(one) for one in faults]})
    else:
        _print(retests)
        print_findings(err(), faults)
        if not retests:
            warn("no node has both an active tool and cases: see `triage cases add --help`")
    if faults or any(one.findings for one in retests):
        raise typer.Exit(Exit.FINDINGS)


async def _retest(
    settings: Settings, given: str, live: bool
) -> tuple[list[NodeRetest], list[Finding]]:
    clock = SystemClock()
    quarantined = quarantine.read(data_folder(settings).quarantine)
    loaded = await asyncio.to_thread(load_procedure, settings, quarantined)
    nodes = [node_named(loaded.sop, given)] if given else list(loaded.sop.nodes)
    faults: list[Finding] = []
    async with live_answers(settings.sources, clock) if live else nullcontext() as answers:
        with progress("re-testing", len(nodes)) as bar:
            retests = await retest_nodes(
                Shelf.of(settings, loaded),
                nodes,
                live=answers,
                monotonic=clock.monotonic,
                told=faults.append,
                progress=lambda: bar.advance(bar.task_ids[0]),
            )
    return retests, faults


def _print(retests: Sequence[NodeRetest]) -> None:
    console = out()
    for one in retests:
        counts = ", ".join(
            f"{mode}: {', '.join(f'{count} {result}' for result, count in sorted(results.items()))}"
            for mode, results in one.document["results"].items()
        )
        line = cell(f"{one.node} v{one.version}", "bold")
        line.append_text(cell(f"  {one.cases} cases; {counts}"))
        console.print(line, soft_wrap=True)
        for found in one.findings:
            told = cell(f"  {found.kind.value}", "yellow")
            told.append_text(cell(f" {found.subject}: {found.detail}"))
            console.print(told, soft_wrap=True)
