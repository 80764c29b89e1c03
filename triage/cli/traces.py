"""`triage tools trace`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.exit_codes import CommandFailed
from triage.cli.findings import shown_path
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import print_json, warn
from triage.cli.reading import accepted, reader, undecided
from triage.cli.text import printable
from triage.cli.tool_bench import Node, bench
from triage.sop.sites import load_sites

if TYPE_CHECKING:
    from triage.maker.model import CaseTrace
    from triage.model.decision import NodeId
from triage.model.verdict import WORDS


def register(application: typer.Typer) -> None:
    application.command("trace")(add_trace)


@takes_origin
def add_trace(
    node: Node,
    from_decision: Annotated[
        str,
        typer.Option(
            "--from-decision", metavar="ALERT_ID", help="The whole id, or its first 6 or more."
        ),
    ] = "",
    expected: Annotated[
        str,
        typer.Option(
            "--expected",
            metavar="|".join(WORDS),
            help="What it should have come to, where somebody looked.",
        ),
    ] = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """Keep what the fallback did for one alert as a trace, for whoever makes the node's tool.

    One that came to what is --expected is a worked example of the fallback as well; of others
    nobody takes code. The decision is read from the store of the configuration, or with --url from
    a daemon.

    Exit codes: 0; 1 there is no such decision, or no fallback worked on the node; 2 no such node,
    or an id that is too short or begins several; 69 the daemon or the store did not answer; 78 the
    configuration, store, token or library cannot be used.
    """
    # They bring the fallback's libraries, which the other commands of `triage tools` need not.
    from triage.cli.from_gap import own_servers, with_secrets
    from triage.fallback.masking import Mask
    from triage.maker.trace_json import trace_json
    from triage.maker.traces import is_example, save_trace, traces_of_decision, verified

    library = bench(origin.config)
    owner = library.node(node)
    if not from_decision:
        raise typer.BadParameter("say which alert's", param_hint="--from-decision")
    if expected and expected not in WORDS:
        raise typer.BadParameter(f"give one of {', '.join(WORDS)}", param_hint="--expected")
    settings = library.settings
    sites = load_sites(settings.sop.sites, library.sop)
    document, evidence = asyncio.run(_read(origin, from_decision, owner))
    site = sites.profile(str(document.get("site", ""))).site
    try:
        found = traces_of_decision(
            document,
            evidence,
            mask=Mask(settings.fallback.mask, with_secrets(origin.config).secrets()),
            units=site.units,
            own=own_servers(settings),
        )
    except ValueError as error:
        raise CommandFailed(
            f"{printable(from_decision)}: {error} — it was written by another version",
            Exit.UNAVAILABLE,
        ) from None
    trace = _of_node(found, owner, from_decision)
    if expected:
        trace = verified(trace, expected)
    path = save_trace(library.root, library.sop.nodes[owner], trace)
    if as_json:
        print_json({"file": str(path), **trace_json(library.sop.nodes[owner], trace)})
        return
    kind = "a worked example" if is_example(trace) else "a trace, no example"
    typer.echo(f"{shown_path(str(path))}: {kind}: {trace.verdict}, {len(trace.answers)} queries")
    if not expected:
        warn("say what it should have come to with --expected, and it may serve as an example")


async def _read(
    origin: Origin, given: str, node: NodeId
) -> tuple[Mapping[str, Any], dict[str, bytes]]:
    """The decision, and the bodies of what the node asked. Raises CommandFailed."""
    from triage.maker.traces import digests_of

    async with reader(origin) as source:
        _, document = await accepted(source, given)
        if "outcome" not in document:
            raise undecided(given, document)
        bodies: dict[str, bytes] = {}
        for digest in digests_of(document, node):
            if (body := await source.evidence(digest)) is not None:
                bodies[digest] = body
        return document, bodies


def _of_node(found: list[CaseTrace], node: NodeId, given: str) -> CaseTrace:
    for trace in found:
        if trace.node == node:
            return trace
    others = ", ".join(trace.node for trace in found)
    advice = f"it worked on {others}" if others else "no fallback had a part in it"
    raise CommandFailed(
        f"{printable(given)}: no fallback worked on {node} there: {printable(advice)}",
        Exit.FINDINGS,
    )
