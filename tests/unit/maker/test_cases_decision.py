"""A case made of a decision's document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.maker.cases_world import AT, NODE, SQL, shop, shop_sites
from triage.maker.cases_decision import (
    Corrected,
    Correction,
    Refused,
    case_of_decision,
)
from triage.maker.cases_file import case_line
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.case import RecordedAnswer
from triage.model.verdict import Truth

SOP = shop()
SITES = shop_sites(SOP)
QUERY = {"kind": "call", "source": "equipment", "tool": "state", "arguments": {"a": 1}}
BODY = b'{"json":{"up":false}}'


def asked(query: Mapping[str, Any], body: bytes = b"", failure: str = "") -> dict[str, Any]:
    return {
        "query": query,
        "query_sha256": sha256_hex(canonical_json(query)),
        "answer_sha256": sha256_hex(body) if body else "",
        "failure": {"reason": failure, "detail": "so"} if failure else None,
    }


def node(name: str, verdict: str = "true", *all_asked: Any, **more: Any) -> dict[str, Any]:
    said = {"verdict": verdict, "subject": "", "explanation": "so it is", "clauses": []}
    return {"node": name, **said, "asked": list(all_asked), **more}


def document(*nodes: Any, **changed: Any) -> dict[str, Any]:
    return {
        "alert_id": "a1",
        "outcome": "actions",
        "site": "north",
        "entity": "mail",
        "fired_at": "2026-06-01T12:31:00+00:00",
        "sop_sha256": SOP.sha256,
        "sites_sha256": SITES.sha256,
        "nodes": list(nodes),
        **changed,
    }


async def made(
    of: Mapping[str, Any],
    *,
    stored: Mapping[str, bytes] | None = None,
    labels: Mapping[str, str] | None = None,
    **said: Any,
) -> Corrected:
    bodies = {sha256_hex(BODY): BODY} if stored is None else stored

    async def evidence(digest: str) -> bytes | None:
        return bodies.get(digest)

    correction = Correction(node=NODE, **{"expected": "false", **said})
    found = await case_of_decision(
        of, correction, labels=labels or {}, evidence=evidence, sop=SOP, sites=SITES
    )
    assert isinstance(found, Corrected), found
    return found


async def test_what_has_no_decision_is_refused() -> None:
    async def evidence(_: str) -> bytes | None:
        raise AssertionError

    found = await case_of_decision(
        {"status": "pending"},
        Correction(NODE, "true"),
        labels={},
        evidence=evidence,
        sop=SOP,
        sites=SITES,
    )
    assert found == Refused("has no decision: it is pending")


async def test_answers_parents_and_context_are_kept() -> None:
    whole = document(
        node("obs_deep", "no_data"),
        node("obs_slow", "failed"),
        node(NODE, "true", asked(QUERY, BODY)),
        node("close", "true"),
    )
    found = await made(whole, labels={"team": "post"}, by="ann", note="n", subject="w1")
    case = found.case
    assert found.remarks == ()
    assert (case.timestamp, case.warehouse, case.entity) == (AT, "north", "mail")
    assert (case.expected, case.subject, case.by, case.note) == ("false", "w1", "ann", "n")
    assert case.labels == {"team": "post"}
    assert case.answers == (RecordedAnswer(QUERY, BODY),)
    assert {name: one.value for name, one in case.parents.items()} == {"obs_deep": Truth.NO_DATA}
    assert case.origin == "decision a1"
    assert BODY in case_line(case)


async def test_what_a_case_cannot_keep_is_said() -> None:
    stored = {sha256_hex(b"{}"): b'{"json":1}'}
    whole = document(
        node(
            NODE,
            "failed",
            asked(QUERY, BODY),
            asked({**QUERY, "tool": "b"}, b"{}"),
            asked({**QUERY, "tool": "c"}, failure="source_timeout"),
            asked({**QUERY, "tool": "d"}, failure="fallback_source"),
        ),
        sop_sha256="other",
        sites_sha256="other",
    )
    found = await made(whole, stored=stored)
    failed = {**QUERY, "tool": "c"}
    assert found.case.answers == (RecordedAnswer(failed, b"", "source_timeout"),)
    assert [remark.split(":")[0] for remark in found.remarks] == [
        "the SOP and the sites file have changed since the decision",
        "the answer to a query (call of equipment) is purged",
        "the stored answer to a query (call of equipment) is not that of then",
        "a query (call of equipment) failed then as source_timeout, and does again",
        "a query (call of equipment) was not answered then",
    ]


async def test_a_node_that_was_not_reached_has_parents_and_no_answers() -> None:
    found = await made(document(node("obs_deep", "false")))
    assert found.case.answers == ()
    assert [*found.case.parents] == ["obs_deep"]
    assert found.remarks == (f"{NODE} was not evaluated for this alert: no answers were recorded",)


async def test_what_the_tool_was_told_counts_not_what_a_fallback_asked_later() -> None:
    later = b'{"json":{"up":true}}'
    calls = [{"answer_sha256": sha256_hex(later)}]
    whole = document(
        node(
            NODE,
            "true",
            asked(QUERY, BODY),
            asked(QUERY, later),
            asked(SQL, later),
            fallback={"turns": [{"calls": calls}]},
        )
    )
    stored = {sha256_hex(body): body for body in (BODY, later)}
    found = await made(whole, stored=stored)
    assert [one.body for one in found.case.answers] == [BODY, later]


async def test_params_that_are_the_sites_own_are_not_overrides() -> None:
    params = {"depth": 20, "slow_s": 3.5}
    found = await made(document(node(NODE, "true", asked(QUERY, BODY))), params=params)
    assert found.case.params == {"slow_s": 3.5}
    plain = await made(document(node(NODE, "true", asked(QUERY, BODY))))
    assert found.case.case_id != plain.case.case_id
