"""`triage tools`."""

from __future__ import annotations

from typing import Annotated

import typer

from triage.app.exits import Exit
from triage.cli import options, shadow, tool_approval, tool_withdrawal, traces
from triage.cli.findings import (
    counted,
    findings_document,
    in_words,
    print_findings,
    shown_path,
)
from triage.cli.output import busy, err, out, print_json, warn
from triage.cli.quarantine import application as quarantine_application
from triage.cli.tool_bench import RELOAD, Node, bench
from triage.cli.tool_marks import marks
from triage.cli.tool_views import manifest_view, row_document, rows_table
from triage.clock import SystemClock
from triage.library import lifecycle
from triage.library.manifest import VersionStatus
from triage.library.overview import ToolRow
from triage.library.policy import SOURCE_LIMIT

application = options.application("Look at the tools, and change which version is active.")
application.add_typer(quarantine_application, name="quarantine")
tool_withdrawal.register(application)
shadow.register(application)
traces.register(application)


@application.command("list")
def list_tools(as_json: options.Json = False, config: options.Config = options.CONFIG) -> None:
    """List every node of the SOP with the state of its tool.

    A tool that something is held against is marked with `!` and what it is: a changed SOP text, and
    what a daemon has found, where the store is a file. `triage doctor` says more. Sources are not
    read: `triage tools verify` does that.

    Exit codes: 0; 78 the configuration or the SOP was refused.
    """
    library = bench(config)
    rows = library.rows()
    held = marks(library, config, rows)
    if as_json:
        tools = [{**row_document(row), "marks": held.by_node.get(row.node, [])} for row in rows]
        print_json({"tools": tools, "record": held.record, "note": held.note})
    else:
        out().print(rows_table(rows, held.kinds))
        if held.note:
            warn(held.note)


@application.command("show")
def show_tool(
    node: Node, as_json: options.Json = False, config: options.Config = options.CONFIG
) -> None:
    """Show every version of one node's tool, and its history.

    Exit codes: 0; 2 the SOP has no such node; 78 the configuration or the SOP was refused.
    """
    library = bench(config)
    row = library.row(node)
    if as_json:
        print_json(row_document(row, whole=True))
    else:
        out().print(manifest_view(row, shown_path(str(library.root / row.node))))


@application.command("verify")
def verify_tools(as_json: options.Json = False, config: options.Config = options.CONFIG) -> None:
    """Verify every version of every tool: manifest, file, hash and import policy.

    Exit codes: 0 no error; 1 an error was found; 78 the configuration or the SOP was refused.
    """
    library = bench(config)
    with busy(f"verifying the tools of {len(library.sop.nodes)} nodes"):
        findings = lifecycle.verify(library.root, library.sop)
    errors, warnings = counted(findings)
    if as_json:
        print_json(findings_document(findings))
    else:
        console = out()
        print_findings(console, findings)
        versions = sum(len(row.versions) for row in library.rows())
        console.print(f"{versions} versions verified: {in_words(errors, warnings)}")
    if errors:
        raise typer.Exit(Exit.FINDINGS)


@application.command("add")
def add_tool(
    node: Node,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The source; `-` is standard input.")],
    maker: Annotated[
        str, typer.Option("--maker", metavar="NAME", help="Who made it; your user name by default.")
    ] = "",
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="It asks in steps, with `await context.ask(…)`.")
    ] = False,
    reads_parent: Annotated[
        list[str] | None,
        typer.Option("--reads-parent", metavar="NODE", help="It reads this node's verdict."),
    ] = None,
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """Add a source as the node's next version: a candidate, which nothing runs yet.

    Exit codes: 0; 2 no such node or file; 78 it was refused, and nothing has changed.
    """
    library = bench(config)
    owner = library.node(node)
    version = lifecycle.add_version(
        library.root,
        library.sop,
        owner,
        options.read_input(file, SOURCE_LIMIT, "a tool's source"),
        maker=options.person(maker, "--maker"),
        at=SystemClock().now(),
        dynamic=dynamic,
        reads_parents=[library.node(parent) for parent in reads_parent or ()],
        note=note,
    )
    typer.echo(f"{owner}: version {version} is a candidate")
    warn(f"make it the active one: triage tools promote {owner} {version}")


@application.command("promote")
def promote_tool(
    node: Node,
    version: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", help="The newest candidate by default.", min=1),
    ] = None,
    by: options.By = "",
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """Make a version the active one: your approval of exactly this source.

    Hash and policy are verified again, and the version is run on the node's recorded cases in the
    sandbox and in CPython, in a process of its own: both must say the same. The version before it
    becomes deprecated. Where a version was made for a gap, that is closed.

    Exit codes: 0; 2 no such node, or no candidate; 78 it was refused, and nothing has changed.
    """
    library = bench(config)
    row = library.row(node)
    number = version if version is not None else _newest_candidate(row)
    person = options.person(by, "--by")
    two_persons = library.settings.make.two_persons
    entry = lifecycle.promotable(
        library.root, library.sop, row.node, number, by=person, two_persons=two_persons
    )
    tried = tool_approval.try_both(library, config, row.node, entry)
    warnings = lifecycle.promote(
        library.root,
        library.sop,
        row.node,
        number,
        by=person,
        at=SystemClock().now(),
        note=note,
        two_persons=two_persons,
        sha256=entry.sha256,
    )
    print_findings(err(), [*tried, *warnings])
    before = f" in place of {row.active}" if row.active is not None else ""
    typer.echo(f"{row.node}: version {number} is active{before}")
    warn(RELOAD)
    if entry.gap:
        # The store's libraries, and what a gap is answered with: other commands do without.
        from triage.cli.from_gap import close_gap

        warn(close_gap(config, row.node, entry, by=person))


@application.command("rollback")
def roll_back_tool(
    node: Node,
    by: options.By = "",
    note: options.Note = "",
    config: options.Config = options.CONFIG,
) -> None:
    """Make the version active again that was active before.

    Exit codes: 0; 2 no such node; 78 it was refused, and nothing has changed.
    """
    library = bench(config)
    owner = library.node(node)
    number = lifecycle.rollback(
        library.root,
        library.sop,
        owner,
        by=options.person(by, "--by"),
        at=SystemClock().now(),
        note=note,
    )
    typer.echo(f"{owner}: version {number} is active again")
    warn(RELOAD)


def _newest_candidate(row: ToolRow) -> int:
    candidates = [v.version for v in row.versions if v.status is VersionStatus.CANDIDATE]
    if candidates:
        return max(candidates)
    there = ", ".join(f"{v.version} ({v.status.value})" for v in row.versions) or "none"
    raise typer.BadParameter(
        f"{row.node} has no candidate: name a version; there are: {there}", param_hint="VERSION"
    )
