"""Traces of a node: an agent works it on a few training cases, and what it saw is kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from triage.errors import ConfigError, ToolFailure
from triage.evaluation.agent_calls import AgentCalls
from triage.evaluation.question import question
from triage.maker.case_source import case_source
from triage.maker.faced import as_asked, is_lookup
from triage.maker.model import CaseTrace, SeenAnswer
from triage.maker.seen import seen_answer
from triage.maker.seen_text import LEFT_OUT
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.case import same_subject
from triage.model.decision import NodeId, NodeResult
from triage.model.query import query_document
from triage.model.verdict import WORDS
from triage.ports import FallbackRequest, Shelf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from triage.evaluation.guard import GuardedSource
    from triage.fallback.masking import Mask
    from triage.model.case import LabelledCase
    from triage.model.verdict import Verdict
    from triage.ports import Fallback, FallbackAnswer, Source
    from triage.sop.procedure import SiteProfile, Sop
    from triage.sop.sites import Sites

MOST_ANSWERS = 16
"""Queries of a trace that are told; of those that differ in a name or figure only, MOST_ALIKE."""
MOST_ALIKE = 2
ALERT_ID_CHARS = 32
_FIGURES = re.compile(r"\"[^\"]*\"|'[^']*'|\d+")

Reached = Callable[
    [Mapping[str, "Source"], Mapping[str, Collection[str]]],
    AbstractAsyncContextManager[Mapping[str, "GuardedSource"]],
]
"""Sources behind bounds and over MCP, open within it. The second maps each to the tools of its
face; one that it does not name has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query of an agent's code, as a document, and the answer's body; `failure` instead of it."""

    query: Mapping[str, Any]
    body: bytes
    failure: str = ""


class Collector:
    """Runs the fallback's agent on cases. `sources` are the live ones, over MCP, none of which
    need be there for cases with recorded answers; `faces` maps a live one to the tools of its face.
    `reached` opens what stands in for them. `timeout_s` is for one case.
    """

    def __init__(
        self,
        *,
        fallback: Fallback,
        sop: Sop,
        sites: Sites,
        sources: Mapping[str, GuardedSource],
        faces: Mapping[str, Collection[str]],
        reached: Reached,
        mask: Mask,
        timeout_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._fallback = fallback
        self._sop = sop
        self._sites = sites
        self._sources = sources
        self._faces = faces
        self._reached = reached
        self._mask = mask
        self._timeout_s = timeout_s
        self._monotonic = monotonic

    async def collect(
        self, node: NodeId, cases: Sequence[LabelledCase], *, most: int = 3
    ) -> list[CaseTrace]:
        """One trace a case of `chosen(cases)`, one after the other. `cases` are training ones of
        the node. An attempt that comes to no verdict is a trace as well. Raises ConfigError for a
        node that the SOP does not have. May be cancelled."""
        if node not in self._sop.nodes:
            raise ConfigError(
                f"{self._sop.file}: the SOP has no node {node!r} — name one of its nodes"
            )
        mine = [case for case in cases if case.node == node]
        units = {case.warehouse: self._profile(case).site.units for case in mine}
        return [await self._trace(case) for case in chosen(mine, units, most=most)]

    async def _trace(self, case: LabelledCase) -> CaseTrace:
        profile = self._profile(case)
        node = self._sop.nodes[case.node]
        async with self._for_case(case, node.sources) as sources:
            calls = AgentCalls(
                node.sources,
                sources,
                deadline=self._monotonic() + self._timeout_s,
                monotonic=self._monotonic,
            )
            answer = await self._fallback.answer(
                FallbackRequest(
                    alert=alert_of(case),
                    question=question(self._sop, node, profile, walked(self._sop, case.parents)),
                    site=profile.site,
                    reason=ToolFailure.MISSING.value,
                    detail="the tool is still to be made",
                    calls=calls,
                ),
                timeout_s=self._timeout_s,
            )
        own = {name for name, guarded in sources.items() if isinstance(guarded.source, Shelf)}
        return CaseTrace(
            origin=case.case_id,
            node=case.node,
            site=profile.site.name,
            units=dict(profile.site.units),
            entity=case.entity,
            timestamp=case.timestamp.astimezone(UTC).isoformat(),
            expected=case.expected,
            verdict=answer.verdict.value.word if answer.verdict is not None else answer.reason,
            right=is_right(answer.verdict, case),
            turns=answer.trace.turns if answer.trace is not None else (),
            answers=seen_queries(
                asked_by_code(calls, answer), own, mask=self._mask, timestamp=case.timestamp
            ),
            tokens=answer.trace.tokens if answer.trace is not None else 0,
        )

    def _profile(self, case: LabelledCase) -> SiteProfile:
        """The site's, with the case's overrides of params that the SOP has."""
        profile = self._sites.profile(case.warehouse)
        own = {name: value for name, value in case.params.items() if name in profile.params}
        return replace(profile, params={**profile.params, **own})

    @asynccontextmanager
    async def _for_case(
        self, case: LabelledCase, declared: Sequence[str]
    ) -> AsyncIterator[Mapping[str, GuardedSource]]:
        """The node's sources: as they were recorded for the case as far as they were."""
        if not case.answers:
            yield self._sources
            return
        made: dict[str, Source] = {}
        faces: dict[str, Collection[str]] = {}
        for name in declared:
            live = self._sources.get(name)
            source = case_source(name, case, live.source if live is not None else None)
            made[name] = source
            if name in self._faces:
                faces[name] = self._faces[name]
            elif source.face:
                faces[name] = source.face
        async with self._reached(made, faces) as sources:
            yield sources


# --- which cases ------------------------------------------------------------------------------


def chosen(
    cases: Sequence[LabelledCase], units: Mapping[str, Mapping[str, str]], *, most: int = 3
) -> list[LabelledCase]:
    """At most `most`, balanced over verdicts: of each as many as of any other while there are.

    Among those of one verdict a site with other units goes first, then a site that has none yet,
    then the latest case: sources know most of what was lately. `units` maps a site to the unit of
    each metric. The same cases in any order give the same choice.
    """
    waiting: dict[str, list[LabelledCase]] = {word: [] for word in WORDS}
    for case in sorted(cases, key=lambda one: one.case_id):
        waiting.setdefault(case.expected, []).append(case)
    taken: list[LabelledCase] = []
    words: Counter[str] = Counter()
    while len(taken) < most and any(waiting.values()):
        word = min((word for word, left in waiting.items() if left), key=lambda one: words[one])
        sites = Counter(case.warehouse for case in taken)
        spelled = Counter(_units(units, case) for case in taken)
        best = min(
            waiting[word],
            key=lambda case: (
                spelled[_units(units, case)],
                sites[case.warehouse],
                -case.timestamp.timestamp(),
                case.case_id,
            ),
        )
        waiting[word].remove(best)
        taken.append(best)
        words[word] += 1
    return taken


def _units(units: Mapping[str, Mapping[str, str]], case: LabelledCase) -> frozenset[Any]:
    return frozenset(units.get(case.warehouse, {}).items())


# --- as an alert ------------------------------------------------------------------------------


def alert_of(case: LabelledCase) -> Alert:
    """What would have led to the case. It was never accepted anywhere: its id is the case's own."""
    key = sha256_hex(canonical_json(["case", case.node, case.case_id]))
    return Alert(
        alert_id=AlertId(key[:ALERT_ID_CHARS]),
        integration="case",
        tenant="",
        fingerprint=case.case_id,
        alarm=case.labels.get("alertname", ""),
        site=case.warehouse,
        entity=case.entity,
        severity=Severity.UNKNOWN,
        fired_at=case.timestamp,
        accepted_at=case.timestamp,
        labels=dict(case.labels),
        annotations={},
    )


def walked(sop: Sop, parents: Mapping[str, Verdict]) -> dict[NodeId, NodeResult]:
    """The nodes before, as an attempt would have them. One that the SOP does not have is left
    out: the case is older than the SOP."""
    return {
        NodeId(name): NodeResult(
            node=NodeId(name), kind=sop.nodes[NodeId(name)].kind, layer=0, verdict=verdict
        )
        for name, verdict in parents.items()
        if NodeId(name) in sop.nodes
    }


def is_right(verdict: Verdict | None, case: LabelledCase) -> bool:
    """Word and, where the case names one, subject."""
    if verdict is None or verdict.value.word != case.expected:
        return False
    return same_subject(case, verdict.subject)


# --- what was asked ---------------------------------------------------------------------------


def asked_by_code(calls: AgentCalls, answer: FallbackAnswer) -> Iterator[Asked]:
    """What the agent's code asked, each query once, in the order answered. What was looked up for
    its prompt is not among it."""
    told = answers_told(answer.trace.turns if answer.trace is not None else ())
    for one in calls.asked:
        document = query_document(one.query)
        if one.answer_sha256 in told:
            yield Asked(query=document, body=calls.bodies[one.answer_sha256])
        elif one.failure is not None and not is_lookup(document):
            failure = f"{one.failure.reason}: {one.failure.detail}"
            yield Asked(query=document, body=b"", failure=failure)


def answers_told(turns: Sequence[Any]) -> set[str]:
    """SHA-256 of the answers that the code of these turns was given."""
    return {call.answer_sha256 for turn in turns for call in turn.calls if call.answer_sha256}


def seen_queries(
    asked: Iterator[Asked] | Sequence[Asked],
    own: Collection[str],
    *,
    mask: Mask,
    timestamp: datetime,
) -> tuple[SeenAnswer, ...]:
    """Distinct queries, at most MOST_ANSWERS, answered ones first; how many are left out is said
    by a last one. `own` are sources that are MCP servers themselves: of any other, calls are told
    as the queries that they came to, and looking up what there is is not told."""
    distinct: dict[bytes, Asked] = {}
    for one in asked:
        query, body = one.query, one.body
        if query.get("source") not in own:
            if is_lookup(query):
                continue
            query, body = as_asked(query, body)
        key = canonical_json(dict(query))
        if key not in distinct or (distinct[key].failure and not one.failure):
            distinct[key] = Asked(query=query, body=body, failure=one.failure)
    kept: list[Asked] = []
    alike: Counter[str] = Counter()
    for one in sorted(distinct.values(), key=lambda asked: bool(asked.failure)):
        form = _form(one.query)
        if alike[form] < MOST_ALIKE and len(kept) < MOST_ANSWERS:
            kept.append(one)
        alike[form] += 1
    seen = [
        seen_answer(one.query, one.body, one.failure, mask=mask, timestamp=timestamp)
        for one in kept
    ]
    if left := len(distinct) - len(kept):
        seen.append(SeenAnswer({"kind": LEFT_OUT, "count": left}, "", 0))
    return tuple(seen)


def _form(query: Mapping[str, Any]) -> str:
    """What is asked, without whom it is asked about: a loop over assets asks one thing."""
    texts = [str(query.get(key, "")) for key in ("kind", "source", "tool", "function")]
    arguments = query.get("arguments")
    texts += sorted(arguments) if isinstance(arguments, Mapping) else ()
    asked = str(query.get("selector") or query.get("sql") or "")
    return "\0".join((*texts, _FIGURES.sub("?", asked)))
