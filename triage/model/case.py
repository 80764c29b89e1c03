"""A labelled case: where a node was asked, and what a person says it must answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeId
from triage.model.query import Query, query_document
from triage.model.site import ParamValue
from triage.model.verdict import Verdict

ID_CHARS = 12


class RecordedAnswer(NamedTuple):
    """What a source said to one query. `query` is the query's document, `body` the encoded answer
    (`model.query.encode_answer`), empty when the source failed; then `failure` is the reason."""

    query: Mapping[str, Any]
    body: bytes
    failure: str = ""

    @property
    def digest(self) -> str:
        """As `query_digest` of the query."""
        return sha256_hex(canonical_json(dict(self.query)))


class LabelledCase(NamedTuple):
    """`timestamp` is aware UTC. `params` override the site's, `parents` are the verdicts of the
    nodes before. `expected` is "true", "false" or "no_data"; `subject` None where nobody said which
    asset it is about. `answers` are recorded ones: with none, the sources are asked.

    `origin` says where it came from ("decision <alert id>", "file"), `by` who labelled it. `split`
    is "train" or "heldout" where a person said which, else empty: then it goes by time.
    """

    case_id: str
    node: NodeId
    warehouse: str
    timestamp: datetime
    expected: str
    entity: str = ""
    labels: Mapping[str, str] = {}
    params: Mapping[str, ParamValue] = {}
    parents: Mapping[str, Verdict] = {}
    subject: str | None = None
    answers: tuple[RecordedAnswer, ...] = ()
    origin: str = ""
    by: str = ""
    note: str = ""
    split: str = ""


def case_id(
    node: str, warehouse: str, timestamp: datetime, entity: str, params: Mapping[str, Any]
) -> str:
    """Of what is asked, not of what is expected: a second label of the same question is a
    contradiction to be told of, not a second case."""
    asked = [node, warehouse, timestamp.astimezone(UTC).isoformat(), entity, dict(params)]
    return sha256_hex(canonical_json(asked))[:ID_CHARS]


def same_subject(case: LabelledCase, subject: str) -> bool:
    """Whether a verdict on `subject` is on the one that is expected; a case that names none judges
    none. An empty subject stands for the alert's entity, on both sides."""
    return case.subject is None or (subject or case.entity) == (case.subject or case.entity)


def recorded(query: Query, body: bytes) -> RecordedAnswer:
    return RecordedAnswer(query_document(query), body)


def cases_said(count: int) -> str:
    """For people: "1 case", "2 cases"."""
    return "1 case" if count == 1 else f"{count} cases"
