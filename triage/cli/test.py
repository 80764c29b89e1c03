"""`triage test`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.golden_case import Case, Recorded, Unusable, case_files, check_case, read_cases
from triage.app.golden_coverage import Coverage, coverage
from triage.app.golden_record import Refusal, record_case
from triage.app.golden_run import CaseResult, GoldenRunner, Status
from triage.app.golden_text import with_expectation
from triage.app.procedure import load_procedure
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.cli.findings import print_findings, shown_path
from triage.cli.golden_views import (
    Result,
    counted,
    golden_document,
    in_words,
    print_coverage,
    print_result,
)
from triage.cli.output import err, out, print_json, progress, warn
from triage.cli.text import printable
from triage.clock import SystemClock
from triage.library import quarantine
from triage.library.files import write_atomic
from triage.model.alert import AlertId
from triage.sop.load import load_sop
from triage.sop.sites import load_sites
from triage.telemetry import logs

application = options.application()

HELP = """\
Run golden cases: alerts whose decisions must not change.

A case is a file in the folder `golden` beside the SOP, or where `golden` of [sop] says. One
that was recorded is decided again by the tools from the answers of its time; one that was
written by hand says what each node says, and only the walk is tested. No source is asked and
nothing is stored.

Exit codes: 0 every case passed (or was updated); 1 a case failed, or too little is covered;
2 there is no case, or a file holds none that can be run; 78 the configuration, the procedure
or a tool was refused.
"""

SUFFIX = ".yaml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
ID_SHOWN = 8  # characters of an id in a name that nobody chose

Cases = Annotated[
    Path | None,
    typer.Option("--cases", metavar="DIR|FILE", help="These cases, not the configured ones."),
]


@application.callback(invoke_without_command=True, help=HELP)
def run_cases(
    context: typer.Context,
    cases: Cases = None,
    text: Annotated[
        str, typer.Option("-k", metavar="TEXT", help="Only cases whose name holds this.")
    ] = "",
    list_missed: Annotated[
        bool, typer.Option("--coverage", help="List the nodes and edges that no case walked.")
    ] = False,
    min_nodes: Annotated[
        float,
        typer.Option(
            "--min-node-coverage", metavar="PERCENT", min=0, max=100, help="Fail below this."
        ),
    ] = 0.0,
    min_edges: Annotated[
        float,
        typer.Option(
            "--min-edge-coverage", metavar="PERCENT", min=0, max=100, help="Fail below this."
        ),
    ] = 0.0,
    update: Annotated[
        bool,
        typer.Option("--update", help="Make recorded cases that fail expect what they now get."),
    ] = False,
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Help is HELP: typer takes no docstring for a group that was made with a help of its own."""
    if context.invoked_subcommand is not None:
        _refuse_misplaced(context)
        return
    settings = Settings.load(config, os.environ, read_secrets=False)
    read = _read(cases or settings.sop.golden_folder, text)
    logs.configure(format="console", level="error", stream=sys.stderr)
    runner = _runner(settings, read)
    results = asyncio.run(_run(runner, read))
    updated = _update(results) if update else frozenset()
    walked = [one.seen for one in results if isinstance(one, CaseResult) and one.seen is not None]
    found = coverage(runner.sop, walked)
    problems = _too_little(found, min_nodes, min_edges)
    if as_json:
        print_json(golden_document(results, updated, found, problems))
    else:
        _tell(results, updated, found, problems, listed=list_missed)
    counts = counted(results, updated)
    if counts["unusable"]:
        raise typer.Exit(Exit.USAGE)
    if counts["failed"] or problems:
        raise typer.Exit(Exit.FINDINGS)


@application.command("add")
def add(
    alert_id: Annotated[
        str, typer.Argument(metavar="ALERT_ID", help="The whole id, or its first 6 or more.")
    ],
    name: Annotated[
        str, typer.Option("--name", help="The case's name; made of alarm and id by default.")
    ] = "",
    about: Annotated[str, typer.Option("--about", help="What the case is there for.")] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over a case of this name.")
    ] = False,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="DIR", help="Into this folder, not the configured one."),
    ] = None,
    config: options.Config = options.CONFIG,
) -> None:
    """Make a golden case of a stored decision.

    The alert, every query and its answer are written to a file, and the decision as what is
    expected: look it through, and keep it beside the SOP.

    Exit codes: 0; 1 there is no such decision, or it cannot be decided again; 2 a name that cannot
    be used or is taken; 69 the store did not answer, or the file cannot be written; 78 the
    configuration or the store cannot be used.
    """
    if name and not NAME.fullmatch(name):
        raise typer.BadParameter(
            "letters, digits, '_', '.' and '-' only, 128 at most", param_hint="--name"
        )
    settings = Settings.load(config, os.environ, read_secrets=False)
    folder = cases or settings.sop.golden_folder
    file, body = asyncio.run(_recorded(config, alert_id, folder, name, about))
    folder.mkdir(parents=True, exist_ok=True)
    if replace:
        write_atomic(file, body)
    else:
        try:
            with file.open("xb") as opened:
                opened.write(body)
        except FileExistsError:
            raise CommandFailed(
                f"{shown_path(str(file))} is there already: give another --name, or --replace it",
                Exit.USAGE,
            ) from None
    out().print(printable(f"{shown_path(str(file))}: recorded"), soft_wrap=True)


# --- running ----------------------------------------------------------------------------------


def _refuse_misplaced(context: typer.Context) -> None:
    """An option before the subcommand would be read and then count for nothing."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"put it after `{context.invoked_subcommand}`, if that has it",
                param_hint=parameter.opts[0],
            )


def _read(place: Path, text: str) -> list[Case | Unusable]:
    shown = shown_path(str(place))
    try:
        files = case_files(place)
    except OSError as error:
        raise CommandFailed(
            f"{shown}: {error.strerror}: write a case there, record one with `triage test add`, or"
            " name others with --cases",
            Exit.USAGE,
        ) from None
    folder = place if place.is_dir() else place.parent
    found = [
        case
        for file in files
        for case in read_cases(file, file.relative_to(folder).with_suffix("").as_posix())
    ]
    chosen = [case for case in found if text.lower() in case.name.lower()]
    if not chosen:
        which = f"no case whose name holds {text!r}" if found else "no case (.yaml, .yml or .json)"
        raise CommandFailed(f"{shown}: holds {which}", Exit.USAGE)
    return chosen


def _runner(settings: Settings, cases: Sequence[Case | Unusable]) -> GoldenRunner:
    """Tools are needed by recorded cases only: walks can be tested before there are any."""
    if any(isinstance(case, Case) and isinstance(case.content, Recorded) for case in cases):
        quarantined = quarantine.read(data_folder(settings).quarantine)
        loaded = load_procedure(settings, quarantined)
        print_findings(err(), loaded.warnings)
        return GoldenRunner.of(loaded, SystemClock())
    sop = load_sop(settings.sop.file)
    return GoldenRunner(sop=sop, sites=load_sites(settings.sop.sites, sop))


async def _run(runner: GoldenRunner, cases: Sequence[Case | Unusable]) -> list[Result]:
    results: list[Result] = []
    with progress("running cases", len(cases)) as bar:
        for case in cases:
            results.append(await _result(runner, case))
            bar.advance(bar.task_ids[0])
    return results


async def _result(runner: GoldenRunner, case: Case | Unusable) -> Result:
    if isinstance(case, Unusable):
        return case
    if findings := check_case(case, runner.sop, runner.sites):
        return Unusable(name=case.name, file=case.file, findings=tuple(findings))
    return await runner.run(case)


def _update(results: Sequence[Result]) -> frozenset[str]:
    """Names of the cases whose files were written."""
    updated = set()
    for result in results:
        if not isinstance(result, CaseResult) or result.status is Status.PASSED:
            continue
        file = result.case.file
        if result.document is None or result.unrecorded:
            what = "was written by hand" if result.document is None else "is unrecorded"
            warn(f"{shown_path(str(file))}: {what}: not updated")
            continue
        body = with_expectation(file.read_bytes(), result.case.located, result.document)
        if body is None:
            warn(f"{shown_path(str(file))}: its `expect` shares a line: put it on lines of its own")
            continue
        write_atomic(file, body)
        updated.add(result.case.name)
    return frozenset(updated)


def _too_little(found: Coverage, min_nodes: float, min_edges: float) -> list[str]:
    return [
        f"{percent:g} % of {what} are covered, and {least:g} % must be: --coverage lists the others"
        for what, percent, least in (
            ("nodes", found.node_percent, min_nodes),
            ("edges", found.edge_percent, min_edges),
        )
        if percent < least
    ]


def _tell(
    results: Sequence[Result],
    updated: frozenset[str],
    found: Coverage,
    problems: Sequence[str],
    *,
    listed: bool,
) -> None:
    console = out()
    for result in results:
        print_result(console, result, updated)
    console.print(in_words(counted(results, updated)))
    print_coverage(console, found, listed=listed)
    for problem in problems:
        warn(problem)


# --- recording --------------------------------------------------------------------------------


async def _recorded(
    config: Path, given: str, folder: Path, name: str, about: str
) -> tuple[Path, bytes]:
    # Here: it loads the store's libraries, which running cases does not need.
    from triage.cli.local import local_reader
    from triage.cli.reading import whole_id

    async with local_reader(config) as reader:
        alert_id = AlertId(await whole_id(reader, given))
        if not name:
            document = await reader.decision(alert_id)
            alarm = str((document or {}).get("alarm", ""))
            name = re.sub(r"[^A-Za-z0-9_]+", "-", alarm).strip("-")[:64] or "alert"
            name += f"-{alert_id[:ID_SHOWN]}"
        file = folder / f"{name}{SUFFIX}"
        body = await record_case(
            alert_id,
            about=about,
            file=file,
            decisions=reader.store.decisions,
            alerts=reader.store.alerts,
        )
    if isinstance(body, Refusal):
        raise CommandFailed(f"{printable(given)} {body.why}", Exit.FINDINGS)
    return file, body
