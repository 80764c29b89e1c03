"""A case made of a stored decision that a person corrects."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import orjson
import typer

from triage.app.exits import Exit
from triage.cli import options
from triage.cli.case_bench import Bench
from triage.cli.exit_codes import CommandFailed
from triage.cli.origin import Origin
from triage.cli.reading import accepted, reader
from triage.cli.text import printable
from triage.maker.cases_decision import Corrected, Correction, Refused, case_of_decision
from triage.model.decision import NodeId
from triage.model.site import ParamValue
from triage.sop.fields import MAX_NAME, MAX_TEXT
from triage.sop.nearest import Nearest
from triage.sop.procedure import Sop
from triage.sop.references import value_problem


class VerdictWord(StrEnum):
    TRUE = "true"
    FALSE = "false"
    NO_DATA = "no_data"


def correction(
    node: NodeId,
    verdict: VerdictWord | None,
    subject: str | None,
    params: Sequence[str],
    by: str,
    note: str,
    sop: Sop,
) -> Correction:
    """What a person said on the command line. Raises BadParameter."""
    if verdict is None:
        raise typer.BadParameter("say what the node should have said", param_hint="--verdict")
    person = options.bounded(options.person(by, "--by"), MAX_NAME, "--by")
    options.bounded(subject or "", MAX_NAME, "--subject")
    options.bounded(note, MAX_TEXT, "--note")
    return Correction(
        node=node,
        expected=verdict.value,
        subject=subject,
        params=dict(_param(sop, text) for text in params),
        by=person,
        note=note,
    )


def _param(sop: Sop, text: str) -> tuple[str, ParamValue]:
    name, equals, given = text.partition("=")
    param = sop.params.get(name)
    if param is None or not equals:
        advice = Nearest()(name, sop.params) or "write NAME=VALUE"
        problem = f"{printable(text)!r} names no param of the SOP: {advice}"
        raise typer.BadParameter(problem, param_hint="--param")
    value: ParamValue = given
    if not isinstance(param.value, str):
        try:
            read = orjson.loads(given)
        except orjson.JSONDecodeError:
            read = given
        value = read if isinstance(read, bool | int | float) else given
    if problem := value_problem(param, value):
        raise typer.BadParameter(f"{name}: {problem}", param_hint="--param")
    return name, value


async def corrected(bench: Bench, origin: Origin, given: str, said: Correction) -> Corrected:
    """`given` is an alert's id, or how it begins. Raises CommandFailed or BadParameter, and what
    `reading.reader` does."""
    async with reader(origin) as source:
        alert_id, document = await accepted(source, given)
        made = await case_of_decision(
            document,
            said,
            labels=await source.labels(alert_id),
            evidence=source.evidence,
            sop=bench.sop,
            sites=bench.sites,
        )
    if isinstance(made, Refused):
        raise CommandFailed(f"{printable(given)} {made.why}", Exit.FINDINGS)
    return made
