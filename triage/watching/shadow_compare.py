"""One shadow beside one verdict: what it is asked with, and how what it says compares. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from triage.errors import SourceFailure
from triage.library.shadow import ShadowTool
from triage.model.alert import Alert
from triage.model.canonical import sha256_hex
from triage.model.decision import AnsweredBy, Decision, NodeResult, Outcome
from triage.model.query import Query, query_digest
from triage.model.verdict import Clause, Verdict
from triage.ports import Compared, Comparison, Pair
from triage.sop.procedure import SiteProfile, Sop
from triage.trial.answers import DecisionAnswers
from triage.trial.model import Candidate, Setting, Tried
from triage.watching.committed import Committed

_NOT_COMPARED = frozenset({Outcome.RESOLVED, Outcome.COALESCED})
"""Nothing came of their verdicts, or there are none."""

_SOURCES = frozenset(failure.value for failure in SourceFailure)


class Due(NamedTuple):
    """A verdict of an active tool, and the shadow to be held against it."""

    result: NodeResult
    verdict: Verdict
    shadow: ShadowTool

    @property
    def pair(self) -> Pair:
        return Pair(
            node=self.result.node,
            shadow_version=self.shadow.version,
            shadow_sha256=self.shadow.sha256,
            active_version=self.result.tool_version,
            active_sha256=self.result.tool_sha256,
        )


def due(decision: Decision, shadows: Mapping[Any, ShadowTool]) -> list[Due]:
    """What of a decision is to be compared: results of tools, not of who stood in for one. A
    version is not compared with itself, as an attempt that pinned it while it was active has it."""
    if decision.outcome in _NOT_COMPARED:
        return []
    return [
        Due(result, result.verdict, shadow)
        for result in decision.nodes
        if (shadow := shadows.get(result.node)) is not None
        and result.answered_by is AnsweredBy.TOOL
        and result.verdict is not None
        and result.tool_sha256 != shadow.sha256
    ]


def candidate_of(shadow: ShadowTool, sop: Sop) -> Candidate:
    return Candidate(
        node=shadow.node,
        text=shadow.text,
        sources=sop.nodes[shadow.node].sources,
        dynamic=shadow.dynamic,
        reads_parents=shadow.reads_parents,
    )


def setting_of(
    alert: Alert, decision: Decision, result: NodeResult, profile: SiteProfile
) -> Setting:
    """As the node's tool was asked: with the verdicts of the layers before it."""
    return Setting(
        site=profile.site,
        params=profile.params,
        timestamp=alert.fired_at,
        entity=alert.entity,
        labels=alert.labels,
        parents={
            before.node: before.verdict
            for before in decision.nodes
            if before.verdict is not None and before.layer < result.layer
        },
    )


def answers_of(committed: Committed) -> DecisionAnswers:
    """All that was answered for the decision, whichever node asked. Where an agent asked again what
    a tool had asked, the tool's answer counts."""
    bodies: dict[Query, bytes] = {}
    failures: dict[Query, tuple[str, str]] = {}
    nodes = committed.decision.nodes
    for result in sorted(nodes, key=lambda result: result.answered_by is AnsweredBy.FALLBACK):
        for asked in result.asked:
            body = committed.evidence.get(asked.answer_sha256)
            if body is not None:
                bodies.setdefault(asked.query, body)
            elif asked.failure is not None:
                failures.setdefault(asked.query, (asked.failure.reason, asked.failure.detail))
    return DecisionAnswers(
        {query_digest(query): body for query, body in bodies.items()},
        {query_digest(query): failure for query, failure in failures.items()},
    )


def compare(one: Due, tried: Tried, *, decision: Decision, at: datetime) -> Comparison:
    """Value and subject decide. What failed because of a source, not of itself, is no more than
    unrecorded: the active one got its answers. Of what agrees no verdict is told."""
    verdict = one.verdict
    other_clauses = False
    if tried.ok:
        agrees = (tried.value, tried.subject) == (verdict.value.word, verdict.subject)
        result = Compared.AGREES if agrees else Compared.DIFFERS
        other_clauses = agrees and not same_clauses(tried.clauses, verdict.clauses)
    else:
        result = Compared.UNRECORDED if tried.failure in _SOURCES else Compared.FAILED
    found = Comparison(
        pair=one.pair,
        result=result,
        alert_id=decision.alert_id,
        at=at,
        site=decision.site,
        other_clauses=other_clauses,
    )
    if result is Compared.AGREES:
        return found
    active_saw = [asked.answer_sha256 for asked in one.result.asked if asked.answer_sha256]
    shadow_saw = [sha256_hex(told.body) for told in tried.asked if told.body]
    return found._replace(
        active=verdict_document(
            verdict.value.word, verdict.subject, verdict.explanation, verdict.clauses, active_saw
        ),
        shadow=_tried_document(tried, shadow_saw),
        evidence=tuple(dict.fromkeys([*active_saw, *shadow_saw])),
    )


def same_clauses(some: Iterable[Clause], others: Iterable[Clause]) -> bool:
    """Equal one by one, NaN to NaN."""
    return list(map(_comparable, some)) == list(map(_comparable, others))


def verdict_document(
    value: str, subject: str, explanation: str, clauses: Iterable[Clause], answers: Iterable[str]
) -> dict[str, Any]:
    return {
        "value": value,
        "subject": subject,
        "explanation": explanation,
        "clauses": [clause._asdict() for clause in clauses],
        "answers": list(answers),
    }


def _tried_document(tried: Tried, answers: Iterable[str]) -> dict[str, Any]:
    if not tried.ok:
        return {"failure": tried.failure, "detail": tried.detail, "answers": list(answers)}
    return verdict_document(tried.value, tried.subject, tried.explanation, tried.clauses, answers)


def _comparable(clause: Clause) -> tuple[Any, ...]:
    return tuple("NaN" if type(v) is float and math.isnan(v) else v for v in clause)
