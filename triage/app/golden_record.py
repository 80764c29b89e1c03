"""Makes a golden case of a stored decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triage.adapters.recorded import queries_asked
from triage.app.golden_case import Case, Recorded, parse_cases
from triage.app.golden_text import case_text
from triage.model.alert import AlertId
from triage.model.decision import AnsweredBy, Failure, Outcome
from triage.ports import AlertView, DecisionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """`why` completes the sentence that begins with the alert's id."""

    why: str


async def record_case(
    alert_id: AlertId, *, about: str, file: Path, decisions: DecisionLog, alerts: AlertView
) -> bytes | Refusal:
    """The text of a case that `file` is to hold. Changes nothing. Raises StoreError."""
    document = await decisions.get(alert_id)
    stored = await alerts.stored(alert_id)
    if document is None or stored is None:
        return Refusal(why="was never accepted here")
    if (unfit := _unfit(document)) is not None:
        return unfit
    asked = queries_asked(document)
    answers: list[tuple[Mapping[str, Any], bytes | Failure]] = []
    for one in asked.values():
        if one["failure"] is not None:
            answers.append((one["query"], Failure(**one["failure"])))
            continue
        body = await decisions.evidence(one["answer_sha256"])
        if body is None:
            return Refusal(why="rests on answers that are purged: record a newer decision")
        answers.append((one["query"], body))
    # It was firing when it was walked, whatever was heard of it since.
    alert = replace(stored.alert, resolved_at=None, unmatched_resolve=False)
    text = case_text(about=about, alert=alert, document=document, answers=answers)
    expected = Recorded(
        alert=alert,
        bodies={q: a for q, (_, a) in zip(asked, answers, strict=True) if isinstance(a, bytes)},
        failures={q: a for q, (_, a) in zip(asked, answers, strict=True) if isinstance(a, Failure)},
    )
    (read,) = parse_cases(text, file, file.stem)
    if not isinstance(read, Case) or read.content != expected:
        return Refusal(why="holds text or figures that a case's file cannot hold as they are")
    return text


def _unfit(document: Mapping[str, Any]) -> Refusal | None:
    if "outcome" not in document:
        return Refusal(why=f"has no decision: it is {document.get('status', 'unknown')}")
    if document["outcome"] == Outcome.RESOLVED:
        return Refusal(why="was resolved before it was decided: there is nothing to decide again")
    for node in document["nodes"]:
        if node["answered_by"] == AnsweredBy.FALLBACK:
            return Refusal(
                why=f"rests on the fallback, which answered for {node['node']}: it cannot be asked"
                " again, so make a tool first"
            )
    return None
