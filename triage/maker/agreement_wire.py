"""What goes to the process that runs CPython, and what it sends back, as JSON types.

JSON by the standard library: its floats come back bit for bit, and NaN stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from triage.model.decision import NodeId
from triage.model.query import query_digest
from triage.model.site import Site
from triage.model.verdict import Clause, Truth, Verdict
from triage.trial.answers import DecisionAnswers
from triage.trial.model import Candidate, Setting, Told, Tried


class Said(NamedTuple):
    """What must be the same in both interpreters, and in words what it is. `bits` are JSON types:
    value, subject, clauses and digests of the queries; of a failure only the queries, since each
    interpreter has its own words for it."""

    bits: Any
    words: str


def said_of(tried: Tried) -> Said:
    asked = sorted(query_digest(told.query) for told in tried.asked)
    if not tried.ok:
        return Said([tried.value, asked], f"{tried.value}: {tried.failure}: {tried.detail}")
    clauses = [list(clause) for clause in tried.clauses]
    shown = "; ".join(
        f"{one.name}: {one.observed!r} {one.op} {one.threshold!r} -> {one.holds}"
        for one in tried.clauses
    )
    words = f"{tried.value} of {tried.subject or 'the entity'} ({shown}; {len(asked)} queries)"
    return Said([tried.value, tried.subject, clauses, asked], words)


def request_document(
    candidate: Candidate, cases: Iterable[tuple[Setting, Sequence[Told]]]
) -> dict[str, Any]:
    """Each case with the answers that were told in the other interpreter."""
    return {
        "candidate": candidate._asdict(),
        "cases": [
            {
                "setting": _setting_document(setting),
                "answers": {
                    query_digest(one.query): [one.body.decode(), one.failure, one.detail]
                    for one in told
                },
            }
            for setting, told in cases
        ],
    }


def candidate_of(document: Mapping[str, Any]) -> Candidate:
    return Candidate(
        node=NodeId(document["node"]),
        text=document["text"],
        sources=tuple(document["sources"]),
        dynamic=document["dynamic"],
        reads_parents=tuple(document["reads_parents"]),
    )


def setting_of(document: Mapping[str, Any]) -> Setting:
    return Setting(
        site=Site(**document["site"]),
        params=document["params"],
        timestamp=datetime.fromisoformat(document["timestamp"]),
        entity=document["entity"],
        labels=document["labels"],
        parents={name: _verdict(one) for name, one in document["parents"].items()},
    )


def answers_of(document: Mapping[str, Sequence[str]]) -> DecisionAnswers:
    """What was told in the other interpreter; a query that was not asked there is unrecorded."""
    return DecisionAnswers(
        {digest: body.encode() for digest, (body, failure, _) in document.items() if not failure},
        {digest: (failure, detail) for digest, (_, failure, detail) in document.items() if failure},
    )


def _setting_document(setting: Setting) -> dict[str, Any]:
    site = setting.site
    return {
        "site": {
            "name": site.name,
            "zone": site.zone,
            "units": dict(site.units),
            "facts": dict(site.facts),
        },
        "params": dict(setting.params),
        "timestamp": setting.timestamp.isoformat(),
        "entity": setting.entity,
        "labels": dict(setting.labels),
        "parents": {
            name: {**verdict._asdict(), "value": verdict.value.word}
            for name, verdict in setting.parents.items()
        },
    }


def _verdict(document: Mapping[str, Any]) -> Verdict:
    return Verdict(
        value=Truth(document["value"]),
        clauses=tuple(Clause(*clause) for clause in document["clauses"]),
        explanation=document["explanation"],
        subject=document["subject"],
    )
