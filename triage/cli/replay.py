"""`triage replay`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.procedure import Loaded, load_procedure
from triage.app.replay import Replay
from triage.app.replayed import Replayed, Status, Tally
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.findings import print_findings
from triage.cli.local import local_reader
from triage.cli.output import err, warn
from triage.cli.replay_views import Counter, JsonView, TextView, View
from triage.clock import SystemClock
from triage.library import quarantine
from triage.model.decision import Outcome
from triage.ports import DecisionFilter
from triage.telemetry import logs

application = options.application()


@application.command()
def replay(
    sop: Annotated[
        Path | None, typer.Option("--sop", metavar="FILE", help="This SOP, not the configured one.")
    ] = None,
    sites: Annotated[
        Path | None, typer.Option("--sites", metavar="FILE", help="This sites file instead.")
    ] = None,
    library: Annotated[
        Path | None, typer.Option("--library", metavar="DIR", help="This library of tools instead.")
    ] = None,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help=f"Decided then or later: {options.MOMENT}."),
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Decided before that.")
    ] = "",
    alarm: Annotated[str, typer.Option("--alarm", help="Only those of this alarm.")] = "",
    site: Annotated[str, typer.Option("--site", help="Only those at this site.")] = "",
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Only those that had this outcome.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the newest so many.")
    ] = None,
    list_unrecorded: Annotated[
        bool, typer.Option("--unrecorded", help="Show those that are unrecorded one by one too.")
    ] = False,
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Make stored decisions again; show which would change and why.

    Every alert is walked through the SOP, sites file and tools given (those of the configuration
    by default) with the answers that were recorded when it was decided. No source is asked and
    nothing is stored; a daemon may be serving from the same store.

    A query that the recording lacks is never guessed: its node is unrecorded. A decision is
    unrecorded when that alone may change it. It is changed, its outcome not known, when something
    else does for sure. An alert that no alarm was routed for and now is, is unrecorded. What
    failed then fails in the same way again.

    With --json the output is {"decisions": […], "summary": {…}}, the decisions being those that
    are changed or unrecorded.

    Exit codes: 0 nothing changes; 1 some decision changes; 3 nothing changes, but some decisions
    are unrecorded; 2 an option that cannot be used; 69 the store did not answer; 78 the
    configuration, the procedure, the library or the store cannot be used.
    """
    settings = _with_files(
        Settings.load(config, os.environ, read_secrets=False), sop, sites, library
    )
    clock = SystemClock()
    now = clock.now()
    wanted = DecisionFilter(
        outcome=outcome.value if outcome is not None else "",
        alarm=alarm,
        site=site,
        since=options.optional_moment(since, "--since", now),
        until=options.optional_moment(until, "--until", now),
    )
    loaded = load_procedure(settings, quarantine.read(data_folder(settings).quarantine))
    print_findings(err(), loaded.warnings)
    logs.configure(format="console", level="error", stream=sys.stderr)
    view: View = JsonView(loaded) if as_json else TextView(list_unrecorded=list_unrecorded)
    tally = asyncio.run(_replay(config, loaded, clock, wanted, limit, view))
    if not tally.read:
        warn("no decisions")
    if tally.statuses[Status.CHANGED]:
        raise typer.Exit(Exit.FINDINGS)
    if tally.statuses[Status.UNRECORDED]:
        raise typer.Exit(Exit.UNRECORDED)


def _with_files(
    settings: Settings, sop: Path | None, sites: Path | None, library: Path | None
) -> Settings:
    given = {"file": sop, "sites": sites, "library": library}
    # From where the command was called; those in the settings are from the configuration's folder.
    files = {name: path.absolute() for name, path in given.items() if path is not None}
    return settings.model_copy(update={"sop": settings.sop.model_copy(update=files)})


async def _replay(
    config: Path,
    loaded: Loaded,
    clock: SystemClock,
    wanted: DecisionFilter,
    limit: int | None,
    view: View,
) -> Tally:
    tally = Tally()
    async with local_reader(config) as reader:
        replay = Replay(loaded, clock, decisions=reader.store.decisions, alerts=reader.store.alerts)
        with Counter(err(), tally) as counter:
            view.begin()
            async with aclosing(replay.run(wanted, limit=limit)) as replayed:
                await _show(replayed, tally, view, counter)
    view.end(tally)
    return tally


async def _show(
    replayed: AsyncIterator[Replayed], tally: Tally, view: View, counter: Counter
) -> None:
    async for one in replayed:
        tally.add(one)
        if one.status in {Status.CHANGED, Status.UNRECORDED}:
            with counter.aside():
                view.show(one)
        counter.counted()
