"""`triage make`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from triage.app.exits import Exit
from triage.app.make import Outcome, Wanted, cases_of, make_tool
from triage.app.make_parts import Workbench, workbench
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.cli.findings import shown_path
from triage.cli.make_views import following, outcome_view
from triage.cli.nodes import node_named
from triage.cli.origin import Origin
from triage.cli.output import err, out, print_json, warn
from triage.cli.text import printable
from triage.clock import SystemClock
from triage.errors import SandboxFailed
from triage.maker.cases_split import Split
from triage.maker.documents import made_document
from triage.maker.from_gap import GapMaterial
from triage.maker.gates import Allowed
from triage.model.decision import NodeId
from triage.telemetry import logs

application = options.application()

MAX_ROUNDS = 20
MAX_REASON = 200  # characters


@application.command()
def make(
    node: Annotated[
        str,
        typer.Argument(metavar="[NODE]", help="The node to make a tool for.", show_default=False),
    ] = "",
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=0,
            max=MAX_ROUNDS,
            help="Repairs after the first candidate, at most; by default as [make] says.",
        ),
    ] = None,
    no_traces: Annotated[
        bool, typer.Option("--no-traces", help="Collect no traces, and show none.")
    ] = False,
    no_repair: Annotated[
        bool, typer.Option("--no-repair", help="One candidate, which is not repaired.")
    ] = False,
    from_gap: Annotated[
        str,
        typer.Option(
            "--from-gap", metavar="GAP_ID", help="For this gap, with what was recorded of it."
        ),
    ] = "",
    more_queries: Annotated[
        str,
        typer.Option(
            "--more-queries", metavar="WHY", help="It may ask more than the active version."
        ),
    ] = "",
    calendar: Annotated[
        str,
        typer.Option("--calendar", metavar="WHY", help="Its verdict may follow the date."),
    ] = "",
    site_names: Annotated[
        str,
        typer.Option("--site-names", metavar="WHY", help="Its verdict may follow a site's name."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make and test it; write nothing.")
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="NAME", help="Who answers for the version; the model by default."
        ),
    ] = "",
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Make a tool for a node from its text and labelled cases.

    The model's code runs in the sandbox only. It is tested on the node's training cases, repaired,
    tested on the held-out cases, and put to the gates; when all let it pass it becomes a version
    that nothing runs yet.

    Exit codes: 0 registered (with --dry-run: it would be); 1 a gate refused it, no candidate came,
    or there is no such gap; 2 no such node; 69 the model, a source or the sandbox is not to be had;
    78 the configuration, the procedure, the cases or the library cannot be used.
    """
    settings = Settings.load(config, os.environ)
    bench = workbench(settings)
    logs.configure(format="console", level="error", stream=sys.stderr)
    allowed = Allowed(
        more_queries=_reason(more_queries, "--more-queries"),
        calendar=_reason(calendar, "--calendar"),
        sites=_reason(site_names, "--site-names"),
    )
    gap = _gap(config, bench, from_gap) if from_gap else None
    name = _node(bench, node, gap)
    wanted = Wanted(
        node=name,
        rounds=settings.make.rounds if rounds is None else rounds,
        traces=not no_traces,
        repair=not no_repair,
        dry_run=dry_run,
        allowed=allowed,
        maker=_maker(settings, by),
        gap=gap.gap_id if gap is not None else "",
        given=gap.traces if gap is not None else (),
    )
    split = cases_of(bench, wanted.node)
    with _steps() as told:
        outcome = _made(bench, wanted, split, told)
    _tell(outcome, dry_run=dry_run, as_json=as_json)


def _made(bench: Workbench, wanted: Wanted, split: Split, told: Callable[[str], None]) -> Outcome:
    try:
        return asyncio.run(make_tool(bench, wanted, split, SystemClock(), told=told))
    except SandboxFailed as error:
        raise CommandFailed(f"the sandbox cannot be had: {error}", Exit.UNAVAILABLE) from None


def _tell(outcome: Outcome, *, dry_run: bool, as_json: bool) -> None:
    made = outcome.made
    if as_json:
        print_json(made_document(made, outcome.ambiguous))
    else:
        console = out()
        console.print(outcome_view(outcome), soft_wrap=True)
        if made.version is not None:
            console.print(f"\n{made.node}: version {made.version} is a candidate")
        for line in following(outcome, dry_run=dry_run):
            warn(line)
    passed = made.passed and bool(made.gates)
    if made.version is not None or (dry_run and passed):
        return
    raise typer.Exit(Exit.UNAVAILABLE if made.unavailable else Exit.FINDINGS)


def _gap(config: Path, bench: Workbench, given: str) -> GapMaterial:
    """What is known of it. Raises CommandFailed when there is no such gap."""
    # Here: it loads the store's libraries, which a making without a gap does not need.
    from triage.cli.from_gap import read_material

    material = asyncio.run(
        read_material(
            Origin(config=config), given, settings=bench.settings, sop=bench.sop, sites=bench.sites
        )
    )
    for remark in material.remarks:
        warn(f"gap {material.gap_id}: {remark}")
    if not material.is_open:
        warn(f"gap {material.gap_id} is closed already")
    return material


def _node(bench: Workbench, name: str, gap: GapMaterial | None) -> NodeId:
    """Raises BadParameter for a node that the SOP does not have, or that the gap is not of."""
    if gap is not None and name and name != gap.node:
        raise typer.BadParameter(
            f"gap {gap.gap_id} is one of {gap.node}: leave the node out, or name that one",
            param_hint="NODE",
        )
    name = name or (gap.node if gap is not None else "")
    if not name:
        file = shown_path(bench.sop.file)
        problem = f"{file} has several nodes: name one: see `triage tools list`"
        raise typer.BadParameter(problem, param_hint="NODE")
    return node_named(bench.sop, name)


def _maker(settings: Settings, by: str) -> str:
    """Where two persons are wanted, whoever runs this is one of them."""
    if by or settings.make.two_persons:
        return options.person(by, "--by")
    return ""


def _reason(text: str, option: str) -> str:
    return " ".join(options.bounded(text, MAX_REASON, option).split())


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Where it is, behind a spinner on standard error, on a terminal only."""
    console = err()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text("reading")) as status:
        yield lambda step: status.update(Text(printable(step)))
