"""`triage decisions`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.cli import options
from triage.cli.exit_codes import showing
from triage.cli.origin import Origin, takes_origin
from triage.cli.output import all_pages, cell, columns, out, print_json, progress, warn
from triage.cli.reading import Reader, accepted, reader, undecided
from triage.cli.tree import OUTCOME_STYLES, decision_tree
from triage.clock import SystemClock
from triage.model.decision import Outcome
from triage.ports import DecisionFilter

application = options.application("Read stored decisions.")

MAX_LIMIT = 100_000
WIDE = 140  # columns that a row of the table needs
SECONDS = len("2026-06-01T12:31:00")


@application.command("list")
@takes_origin
def list_decisions(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="At most so many.")
    ] = 20,
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Only those with this outcome.")
    ] = None,
    alarm: Annotated[str, typer.Option("--alarm", help="Only those of this alarm.")] = "",
    site: Annotated[str, typer.Option("--site", help="Only those at this site.")] = "",
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help=f"Decided then or later: {options.MOMENT}."),
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Decided before that.")
    ] = "",
    cursor: options.Cursor = "",
    as_json: options.Json = False,
    *,
    origin: Origin,
) -> None:
    """List decisions, newest first.

    They are read from the store of the configuration, beside a daemon that may be serving from
    it, or with --url from a daemon.

    Exit codes: 0; 2 a time or cursor that cannot be used; 69 the daemon or the store did not
    answer; 78 the configuration, store or token cannot be used.
    """
    now = SystemClock().now()
    wanted = DecisionFilter(
        outcome=outcome.value if outcome is not None else "",
        alarm=alarm,
        site=site,
        since=options.optional_moment(since, "--since", now),
        until=options.optional_moment(until, "--until", now),
    )
    heads, following = asyncio.run(_heads(origin, wanted, cursor, limit))
    if as_json:
        print_json({"decisions": heads, "cursor": following})
        return
    _print_heads(heads)
    if following:
        warn(f"there are more: --cursor {following}")


@application.command("show")
@takes_origin
def show_decision(
    alert_id: Annotated[
        str, typer.Argument(metavar="ALERT_ID", help="The whole id, or its first 6 or more.")
    ],
    as_json: options.Json = False,
    with_evidence: Annotated[
        bool, typer.Option("--evidence", help="Show what was asked, and the answers.")
    ] = False,
    whole_traces: Annotated[
        bool,
        typer.Option(
            "--trace", help="Show every turn of a fallback whole: thought, code, calls, outcome."
        ),
    ] = False,
    *,
    origin: Origin,
) -> None:
    """Show one decision as a tree.

    With --url the beginning of an id is looked for among the newest 1000 decisions.

    Exit codes: 0; 1 there is no such alert, or no decision yet; 2 an id that is too short or
    begins several; 69 the daemon or the store did not answer; 78 the configuration, store or
    token cannot be used.
    """
    document, evidence = asyncio.run(_decision(origin, alert_id, with_evidence))
    decided = "outcome" in document
    if as_json:
        print_json({**document, "evidence": evidence} if with_evidence else document)
    elif decided:
        _print_decision(document, evidence if with_evidence else None, whole_traces=whole_traces)
    if not decided:
        raise undecided(alert_id, document)


async def _heads(
    origin: Origin, wanted: DecisionFilter, cursor: str, limit: int
) -> tuple[list[Mapping[str, Any]], str]:
    async with reader(origin) as source:
        return await all_pages(
            "decisions",
            lambda after, at_most: source.page(wanted, cursor=after, limit=at_most),
            cursor=cursor,
            limit=limit,
        )


async def _decision(
    origin: Origin, given: str, with_evidence: bool
) -> tuple[Mapping[str, Any], dict[str, str]]:
    async with reader(origin) as source:
        _, document = await accepted(source, given)
        bodies = await _evidence(source, document) if with_evidence else {}
        return document, bodies


async def _evidence(source: Reader, document: Mapping[str, Any]) -> dict[str, str]:
    digests = {
        str(asked["answer_sha256"])
        for node in document.get("nodes", ())
        for asked in node["asked"]
        if asked["answer_sha256"]
    }
    bodies: dict[str, str] = {}
    with progress("reading answers", len(digests)) as bar:
        for digest in sorted(digests):
            body = await source.evidence(digest)
            if body is not None:
                bodies[digest] = body.decode("utf-8", "replace")
            bar.advance(bar.task_ids[0])
    return bodies


def _print_heads(heads: Sequence[Mapping[str, Any]]) -> None:
    console = out()
    if not heads:
        warn("no decisions")
    elif console.width < WIDE:
        for head in heads:
            _print_head(console, head)
    else:
        console.print(_heads_table(heads))


def _heads_table(heads: Sequence[Mapping[str, Any]]) -> Table:
    table = columns("alert id", "decided", "outcome", "alarm", "site", "entity", "cause", "actions")
    for head in heads:
        table.add_row(
            cell(head["alert_id"]),
            cell(_second(head)),
            _outcome(head),
            cell(head["alarm"]),
            cell(head["site"]),
            cell(head["entity"]),
            cell(_cause(head)),
            cell(_actions(head)),
        )
    table.columns[0].no_wrap = True
    return table


def _print_head(console: Console, head: Mapping[str, Any]) -> None:
    """Two lines: an id that is folded could not be copied."""
    first = cell(f"{head['alert_id']}  {_second(head)}  ").append_text(_outcome(head))
    console.print(first, soft_wrap=True)
    where = f" at {head['site']}" if head["site"] else ""
    where += f" on {head['entity']}" if head["entity"] else ""
    came_of_it = [text for text in (_cause(head), _actions(head)) if text]
    console.print(cell(f"  {head['alarm']}{where}: {' → '.join(came_of_it) or 'nothing'}", "dim"))


def _second(head: Mapping[str, Any]) -> str:
    return str(head["decided_at"])[:SECONDS]


def _outcome(head: Mapping[str, Any]) -> Text:
    return cell(head["outcome"], OUTCOME_STYLES.get(head["outcome"], ""))


def _cause(head: Mapping[str, Any]) -> str:
    return ", ".join(cause["node"] for cause in head["root_causes"]) or str(head["reason"])


def _actions(head: Mapping[str, Any]) -> str:
    return ", ".join(action["action"] for action in head["actions"])


def _print_decision(
    document: Mapping[str, Any], evidence: Mapping[str, str] | None, *, whole_traces: bool
) -> None:
    with showing("decision"):
        tree = decision_tree(document, evidence, whole_traces=whole_traces)
    out().print(tree)
