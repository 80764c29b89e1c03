"""Makes a labelled case of a stored decision: one node of it, as a person says it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from triage.adapters.recorded import Lookup, queries_asked
from triage.maker.cases_check import failure_known, nodes_before
from triage.model.canonical import sha256_hex
from triage.model.case import LabelledCase, RecordedAnswer, case_id
from triage.model.decision import NodeId
from triage.model.site import ParamValue
from triage.model.verdict import WORDS, Clause, Truth, Verdict
from triage.sop.located import plain
from triage.sop.procedure import Sop
from triage.sop.sites import Sites

Document = Mapping[str, Any]


class Correction(NamedTuple):
    """What a person says that the node should have said. `subject` is None where nobody says.
    `params` are those that held then, where the person knows of others than today's."""

    node: NodeId
    expected: str
    subject: str | None = None
    params: Mapping[str, ParamValue] = {}
    by: str = ""
    note: str = ""
    split: str = ""


class Corrected(NamedTuple):
    """`remarks` are what the case could not keep, one line each, for the person."""

    case: LabelledCase
    remarks: tuple[str, ...]


class Refused(NamedTuple):
    """`why` completes the sentence that begins with the alert's id."""

    why: str


async def case_of_decision(
    document: Document,
    correction: Correction,
    *,
    labels: Mapping[str, str] | None,
    evidence: Lookup,
    sop: Sop,
    sites: Sites,
) -> Corrected | Refused:
    """`document` is a decision's, `labels` its alert's, None where they cannot be had. `evidence`
    finds a stored answer by its SHA-256. Raises what `evidence` raises, and KeyError for a document
    that is none."""
    if "outcome" not in document:
        return Refused(f"has no decision: it is {plain(str(document.get('status', 'unknown')))}")
    node = correction.node
    remarks = list(_changed(document, sop, sites))
    if labels is None:
        remarks.append("the alert's labels are not known over HTTP: the case has none")
    walked = {str(one["node"]): one for one in document["nodes"]}
    answers: tuple[RecordedAnswer, ...] = ()
    if node in walked:
        answers, lost = await _answers(walked[node], evidence)
        remarks += lost
    else:
        remarks.append(f"{node} was not evaluated for this alert: no answers were recorded")
    site = str(document["site"])
    params = {
        name: value
        for name, value in correction.params.items()
        if name not in sop.params or value != sites.profile(site).params[name]
    }
    fired_at = datetime.fromisoformat(document["fired_at"]).astimezone(UTC)
    entity = str(document["entity"])
    case = LabelledCase(
        case_id=case_id(node, site, fired_at, entity, params),
        node=node,
        warehouse=site,
        timestamp=fired_at,
        expected=correction.expected,
        entity=entity,
        labels=dict(labels or {}),
        params=params,
        parents=_parents(walked, nodes_before(sop, node)),
        subject=correction.subject,
        answers=answers,
        origin=f"decision {document['alert_id']}",
        by=correction.by,
        note=correction.note,
        split=correction.split,
    )
    return Corrected(case, tuple(remarks))


def _changed(document: Document, sop: Sop, sites: Sites) -> Sequence[str]:
    now = {"sop_sha256": sop.sha256, "sites_sha256": sites.sha256}
    changed = [key for key, sha256 in now.items() if document[key] != sha256]
    if not changed:
        return ()
    what = {"sop_sha256": "the SOP", "sites_sha256": "the sites file"}
    files = " and ".join(what[key] for key in changed)
    verb = "has" if len(changed) == 1 else "have"
    remark = f"{files} {verb} changed since the decision: the case takes today's params; where"
    return (f"{remark} others held then, add it with --param NAME=VALUE",)


async def _answers(
    node: Document, evidence: Lookup
) -> tuple[tuple[RecordedAnswer, ...], list[str]]:
    kept: list[RecordedAnswer] = []
    lost: list[str] = []
    for asked in queries_asked({"nodes": [node]}).values():
        query = asked["query"]
        shown = f"{query.get('kind')} of {query.get('source')}"
        if (failure := asked["failure"]) is not None:
            if failure_known(failure["reason"]):
                kept.append(RecordedAnswer(query, b"", failure["reason"]))
                lost.append(f"a query ({shown}) failed then as {failure['reason']}, and does again")
            else:
                lost.append(f"a query ({shown}) was not answered then: it is left out")
            continue
        digest = asked["answer_sha256"]
        body = await evidence(digest)
        if body is None:
            lost.append(f"the answer to a query ({shown}) is purged: the case is kept without it")
        elif sha256_hex(body) != digest:
            lost.append(f"the stored answer to a query ({shown}) is not that of then: left out")
        else:
            kept.append(RecordedAnswer(query, body))
    return tuple(kept), lost


def _parents(walked: Mapping[str, Document], before: frozenset[NodeId]) -> dict[str, Verdict]:
    return {
        name: Verdict(
            value=Truth(one["verdict"]),
            clauses=tuple(Clause(**clause) for clause in one["clauses"]),
            explanation=one["explanation"],
            subject=one["subject"],
        )
        for name, one in walked.items()
        if name in before and one["verdict"] in WORDS
    }
