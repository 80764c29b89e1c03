"""`triage cases`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Annotated

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.case_bench import Bench, bench
from triage.cli.case_correction import VerdictWord, corrected, correction
from triage.cli.case_views import (
    added_document,
    cases_table,
    check_document,
    coverage_lines,
    list_document,
)
from triage.cli.exit_codes import CommandFailed
from triage.cli.findings import counted, in_words, print_findings, shown_path
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import busy, err, out, print_json, warn
from triage.errors import Finding, InvalidFiles
from triage.maker.cases_file import Appended, append_cases, cases_path
from triage.maker.cases_reading import MAX_FILE, CasesRead, parse_cases
from triage.maker.coverage import Coverage, coverage
from triage.model.case import LabelledCase
from triage.model.decision import NodeId

application = options.application("Add, list and check the labelled cases of nodes.")

Node = Annotated[str, typer.Argument(metavar="[NODE]", help="The node.", show_default=False)]


@application.command("add")
@takes_origin
def add_cases(
    node: Node = "",
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]", help="A case a line; `-` is standard input.", show_default=False
        ),
    ] = "",
    from_decision: Annotated[
        str,
        typer.Option(
            "--from-decision",
            metavar="ALERT_ID",
            help="Make a case of this alert's decision. The whole id, or its first 6 or more.",
        ),
    ] = "",
    of_node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="Of which node of the decision.")
    ] = "",
    verdict: Annotated[
        VerdictWord | None, typer.Option("--verdict", help="What the node should have said.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option("--subject", help="The asset it should have named; '' for the alert's own."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="What a param was then, if not this."),
    ] = None,
    by: options.By = "",
    note: Annotated[str, typer.Option("--note", help="Why, for whoever reads the case.")] = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Add cases to a node: those of a file, or one made of a decision that you correct.

    `triage cases add NODE FILE` reads a case a line, as docs/cases.md describes them, and adds all
    or none. `triage cases add --from-decision ALERT_ID --node NODE --verdict WORD` keeps what the
    node was asked and answered then, what the nodes before it said, and your verdict. What is
    there already, with the same label, is not added again.

    Exit codes: 0; 1 a case was refused and none was added, or there is no such decision; 2 an
    option, node or file that cannot be used; 69 the daemon or the store did not answer; 78 the
    configuration, procedure, store or library cannot be used.
    """
    place = bench(origin.config)
    remarks: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    cases: Sequence[LabelledCase]
    if from_decision:
        if file or (node and of_node):
            raise typer.BadParameter("--from-decision takes one node, by --node, and no file")
        if not (of_node or node):
            raise typer.BadParameter("say of which node", param_hint="--node")
        owner = place.node(of_node or node, "--node")
        said = correction(owner, verdict, subject, param or (), by, note, place.sop)
        made = asyncio.run(corrected(place, origin, from_decision, said))
        cases, remarks = [made.case], made.remarks
    else:
        _refuse_stray(
            {"--node": of_node, "--verdict": verdict, "--subject": subject, "--param": param}
            | {"--by": by, "--note": note, "--url": origin.url}
            | {"--token-env": origin.token_env, "--token-file": origin.token_file}
        )
        if not (node and file):
            raise typer.BadParameter("give NODE and FILE; or --from-decision, --node and --verdict")
        owner = place.node(node)
        read = _given(place, owner, file)
        cases, findings = read.cases, read.findings
    added = _append(place, owner, cases)
    if as_json:
        shown = str(cases_path(place.root, owner))
        print_json(added_document(owner, shown, added, remarks, findings))
        return
    print_findings(err(), findings)
    for remark in remarks:
        warn(remark)
    _tell_added(owner, added)


@application.command("list")
def list_cases(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node whose cases they are.")],
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """List a node's cases by time, with the part (training or held-out) each is in.

    Lines with a fault are left out, and counted on standard error.

    Exit codes: 0; 2 the SOP has no such node; 78 the configuration or the procedure was refused.
    """
    place = bench(config)
    owner = place.node(node)
    read = place.read(owner)
    split = place.split(read.cases)
    if as_json:
        print_json(list_document(owner, read, split))
    elif read.cases:
        out().print(cases_table(read, split))
    else:
        warn(f"no cases in {shown_path(read.file)}: triage cases add {owner} FILE")
    if read.errors:
        warn(f"{in_words(*counted(read.findings))}: triage cases check {owner}")


@application.command("check")
def check_cases(
    node: Node = "",
    as_json: options.Json = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Find what is wrong with cases, of one node or of all, and say what they do not cover.

    What is not covered is no fault: it is what the next case should be about.

    Exit codes: 0 no error; 1 an error was found; 2 the SOP has no such node; 78 the configuration
    or the procedure was refused.
    """
    place = bench(config)
    nodes = [place.node(node)] if node else list(place.sop.nodes)
    findings: list[Finding] = []
    covered: list[Coverage] = []
    without: list[NodeId] = []
    with busy(f"reading the cases of {len(nodes)} nodes"):
        for one in nodes:
            read = place.read(one)
            findings += read.findings
            if read.cases or read.findings:
                covered.append(coverage(one, place.split(read.cases), place.sop, place.sites))
            else:
                without.append(one)
    errors, warnings = counted(findings)
    if as_json:
        print_json(check_document(findings, covered, without))
    else:
        console = out()
        print_findings(console, findings)
        for line in coverage_lines(covered, without):
            console.print(line, soft_wrap=True)
        console.print(in_words(errors, warnings))
    if errors:
        raise typer.Exit(Exit.FINDINGS)


# --- adding -----------------------------------------------------------------------------------


def _refuse_stray(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None and value not in ("", []):
            raise typer.BadParameter("goes with --from-decision", param_hint=option)


def _given(place: Bench, node: NodeId, file: str) -> CasesRead:
    body = options.read_input(file, MAX_FILE, "cases, one a line,")
    shown = "standard input" if file == "-" else file
    read = parse_cases(BytesIO(body), shown, node, place.sop, place.sites)
    if read.errors:
        raise _refused(read.findings)
    if not read.cases:
        raise CommandFailed(f"{shown}: holds no case", Exit.USAGE)
    return read


def _append(place: Bench, node: NodeId, cases: Sequence[LabelledCase]) -> Appended:
    try:
        return append_cases(place.root, node, cases, place.sop, place.sites)
    except InvalidFiles as error:
        raise _refused(error.findings) from None


def _refused(findings: Sequence[Finding]) -> CommandFailed:
    print_findings(err(), findings)
    return CommandFailed(f"nothing was added: {in_words(*counted(findings))}", Exit.FINDINGS)


def _tell_added(node: NodeId, added: Appended) -> None:
    counts = ((added.added, "added"), (added.already, "there already"))
    for ids, what in counts:
        if ids:
            shown = ids[0] if len(ids) == 1 else f"{len(ids)} cases"
            typer.echo(f"{node}: {shown} {what}")
