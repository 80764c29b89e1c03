"""`triage check`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.procedure import Procedure, check_procedure
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.findings import counted, findings_document, in_words, print_findings, shown_path
from triage.cli.output import busy, cell, columns, out, print_json
from triage.cli.source_report import Probed, ServerReport, SourceReport
from triage.cli.text import printable
from triage.errors import Finding, InvalidFiles
from triage.library import quarantine

application = options.application()

NOTHING = Procedure(sop=None, sites=None, library=None, findings=())
NOBODY = Probed(sources=(), servers=())


@application.command()
def check(
    config: options.Config = options.CONFIG,
    as_json: options.Json = False,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Ask every source, the store, queue and streams, and the fallback's endpoint too.",
        ),
    ] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, max=600, help="Seconds each of them may take.")
    ] = 5.0,
    no_secrets: Annotated[
        bool,
        typer.Option(
            "--no-secrets",
            help="Variables and files that hold secrets need not be there: for a machine that is "
            "not the one the configuration is for.",
        ),
    ] = False,
) -> None:
    """Find what is wrong with configuration, SOP, sites and tools.

    Every finding is one line: file, line, what it is about, the problem, and what to do. Nothing
    is changed, and without --connect nothing is connected to. With it, a server that could lose
    what it holds when it crashes is a warning; a queue or consumer that is not there yet is made.

    Exit codes: 0 no error (there may be warnings); 1 an error was found, or a server could not be
    asked; 78 the configuration file cannot be read at all.
    """
    if connect and no_secrets:
        raise typer.BadParameter("--connect needs the secrets that --no-secrets leaves unread")
    try:
        settings = Settings.load(config, os.environ, read_secrets=not no_secrets)
    except InvalidFiles as error:
        if _is_unreadable(error, config):
            raise
        _tell(NOTHING, error.findings, NOBODY, as_json=as_json)
        raise typer.Exit(Exit.FINDINGS) from None
    with busy("checking the procedure and its tools"):
        procedure = check_procedure(settings, quarantine.read(data_folder(settings).quarantine))
    asked = NOBODY
    if connect:
        from triage.cli.probing import probe

        with busy("asking sources and servers who they are"):
            asked = probe(settings, timeout_s=timeout_s)
    findings = [
        *procedure.findings,
        *_source_findings(asked.sources, config),
        *_server_findings(asked.servers, config),
    ]
    _tell(procedure, findings, asked, as_json=as_json)
    if counted(findings)[0]:
        raise typer.Exit(Exit.FINDINGS)


def _is_unreadable(error: InvalidFiles, config: Path) -> bool:
    """Whether there is no TOML to find faults in, rather than faults in it."""
    return all(not f.where and f.file == str(config) for f in error.findings)


def _source_findings(sources: Sequence[SourceReport], config: Path) -> list[Finding]:
    return [
        Finding(
            file=str(config),
            where=f"sources.{report.name}",
            problem=report.problem,
            fix="is it running, and are its address and credentials right?",
        )
        for report in sources
        if report.problem
    ]


def _server_findings(servers: Sequence[ServerReport], config: Path) -> Iterator[Finding]:
    for report in servers:
        if report.problem:
            yield Finding(
                file=str(config),
                where=report.where,
                problem=report.problem,
                fix=report.fix,
            )
        for weakness in report.weaknesses:
            yield Finding(file=str(config), where=report.where, problem=weakness, warning=True)


def _tell(
    procedure: Procedure,
    findings: Sequence[Finding],
    asked: Probed,
    *,
    as_json: bool,
) -> None:
    errors, warnings = counted(findings)
    if as_json:
        print_json(_document(procedure, findings, asked))
        return
    console = out()
    print_findings(console, findings)
    if asked.sources:
        table = columns("source", "type", "server", "ms")
        for report in asked.sources:
            server = cell("cannot be asked", "red") if report.problem else cell(report.version)
            table.add_row(
                cell(report.name), cell(report.type), server, cell(f"{report.elapsed_ms:.1f}")
            )
        console.print(table)
    if asked.servers:
        table = columns("server", "address", "state", "ms")
        for one in asked.servers:
            state = cell("cannot be used", "red") if one.problem else cell(one.state)
            table.add_row(cell(one.where), cell(one.label), state, cell(f"{one.elapsed_ms:.1f}"))
        console.print(table)
    if procedure.sop is not None:
        console.print(Text(summary(procedure)), soft_wrap=True)
    style = "red" if errors else "yellow" if warnings else "green"
    console.print(Text(in_words(errors, warnings), style=style))


def summary(procedure: Procedure) -> str:
    """`sop.yaml: dock version 7: 44 decision nodes, 19 actions, 14 alarms; tools: 44 active`;
    empty without an SOP."""
    sop, library = procedure.sop, procedure.library
    if sop is None:
        return ""
    parts = [
        f"{printable(shown_path(sop.file))}: {printable(sop.name)} version {sop.version}",
        f"{len(sop.nodes)} decision nodes, {len(sop.actions)} actions, {len(sop.alarms)} alarms",
    ]
    if library is not None:
        tools = [f"{len(library.tools)} active"]
        if stale := sum(tool.stale for tool in library.tools.values()):
            tools.append(f"{stale} stale")
        if library.broken:
            tools.append(f"{len(library.broken)} broken")
        parts[-1] += f"; tools: {', '.join(tools)}"
    return ": ".join(parts)


def _document(procedure: Procedure, findings: Sequence[Finding], asked: Probed) -> dict[str, Any]:
    sop, library = procedure.sop, procedure.library
    return {
        **findings_document(findings),
        "sop": None
        if sop is None
        else {
            "file": sop.file,
            "name": sop.name,
            "version": sop.version,
            "sha256": sop.sha256,
            "nodes": len(sop.nodes),
            "actions": len(sop.actions),
            "alarms": len(sop.alarms),
        },
        "tools": None
        if library is None
        else {
            "sha256": library.sha256,
            "active": len(library.tools),
            "stale": sum(tool.stale for tool in library.tools.values()),
            "broken": {node: failed.reason for node, failed in library.broken.items()},
        },
        "sources": [
            {
                "name": report.name,
                "type": report.type,
                "version": report.version,
                "problem": report.problem,
                "elapsed_ms": round(report.elapsed_ms, 3),
            }
            for report in asked.sources
        ],
        "servers": [
            {
                "where": server.where,
                "address": server.label,
                "state": server.state,
                "problem": server.problem,
                "weaknesses": list(server.weaknesses),
                "elapsed_ms": round(server.elapsed_ms, 3),
            }
            for server in asked.servers
        ],
    }
