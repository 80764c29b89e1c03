"""`triage run`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer

from triage.app.data_folder import data_folder
from triage.app.exits import Exit
from triage.app.oneoff import Payload, one_off, read_payload
from triage.app.settings import Settings
from triage.cli import options
from triage.cli.findings import print_findings
from triage.cli.output import err, out, print_json, progress, warn
from triage.cli.tree import decision_tree
from triage.clock import SystemClock
from triage.errors import Finding, PayloadError
from triage.library import quarantine
from triage.model.decision import decision_document
from triage.telemetry import logs

application = options.application()


class Format(StrEnum):
    NATIVE = "native"
    ALERTMANAGER = "alertmanager"
    GRAFANA = "grafana"
    PAGERDUTY = "pagerduty"
    CLOUDEVENTS = "cloudevents"
    SNS = "sns"


@application.command()
def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="The payload; `-` is standard input.")
    ] = "-",
    format_: Annotated[
        Format, typer.Option("--format", "-f", help="The payload's format.")
    ] = Format.NATIVE,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME", help=f"Decide as of: {options.MOMENT}.")
    ] = "",
    as_json: options.Json = False,
    with_queries: Annotated[
        bool, typer.Option("--queries", help="Show what was asked, and the answers.")
    ] = False,
    config: options.Config = options.CONFIG,
) -> None:
    """Decide one payload's alerts here and now, and show the walk.

    Sources are asked; nothing is stored or sent, and no daemon is needed. With --json the output
    is the list of the decisions.

    Exit codes: 0 every alert was decided; 1 an alert escalates or was refused; 2 a file or time
    that cannot be used; 78 the configuration, the procedure or a tool was refused.
    """
    settings = Settings.load(config, os.environ)
    clock = SystemClock()
    now = clock.now()
    fired_at = options.optional_moment(at, "--at", now)
    body = options.read_input(file, int(settings.http.max_body_bytes), "a payload")
    try:
        payload = read_payload(
            settings.intake, format=format_.value, body=body, now=now, at=fired_at
        )
    except PayloadError as error:
        warn(f"refused: {error}{_hint(body, format_)}")
        raise typer.Exit(Exit.FINDINGS) from None
    logs.configure(format="console", level="error", stream=sys.stderr)
    warnings, documents, evidence = asyncio.run(_decide(settings, clock, payload))
    print_findings(err(), warnings)
    _tell_what_is_no_alert(payload)
    if as_json:
        print_json(documents)
    else:
        _show(documents, evidence if with_queries else None)
    escalated = any(document["outcome"] == "escalate" for document in documents)
    if escalated or payload.rejected:
        raise typer.Exit(Exit.FINDINGS)


async def _decide(
    settings: Settings, clock: SystemClock, payload: Payload
) -> tuple[Sequence[Finding], list[dict[str, Any]], dict[str, str]]:
    quarantined = quarantine.read(data_folder(settings).quarantine)
    documents: list[dict[str, Any]] = []
    evidence: dict[str, str] = {}
    async with one_off(settings, clock, quarantined) as triage:
        with progress("deciding", len(payload.alerts)) as bar:
            for alert in payload.alerts:
                decided = await triage.decide(alert)
                document = decision_document(decided.decision)
                # As a store would give it back: NaN, for one, has no JSON form.
                documents.append(orjson.loads(orjson.dumps(document)))
                for digest, body in decided.evidence.items():
                    evidence[digest] = body.decode()
                bar.advance(bar.task_ids[0])
        return triage.warnings, documents, evidence


def _tell_what_is_no_alert(payload: Payload) -> None:
    for rejected in payload.rejected:
        warn(f"refused: {rejected.field}: {rejected.problem}")
    for event in payload.events:
        if event.event == "truncated":
            continue  # told with their number
        what = f" of {event.alarm}" if event.alarm else ""
        warn(f"no alert: {event.event}{what} would be recorded and not decided")
    if payload.truncated:
        warn(f"the sender left out {payload.truncated} alerts")


def _show(documents: Sequence[dict[str, Any]], evidence: dict[str, str] | None) -> None:
    console = out()
    for index, document in enumerate(documents):
        if index:
            console.print()
        console.print(decision_tree(document, evidence))


def _hint(body: bytes, given: Format) -> str:
    """Another format that this looks like."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(document, list):
        document = document[0] if document else None
    if not isinstance(document, dict):
        return ""
    looks = Format.NATIVE
    if "receiver" in document and "alerts" in document:
        looks = Format.GRAFANA if "orgId" in document else Format.ALERTMANAGER
    elif "event_action" in document:
        looks = Format.PAGERDUTY
    elif "specversion" in document:
        looks = Format.CLOUDEVENTS
    elif not document.keys().isdisjoint({"Records", "Type", "AlarmName"}):
        looks = Format.SNS
    elif "alarm" not in document:
        return ""
    return "" if looks is given else f" (it looks like --format {looks.value})"
