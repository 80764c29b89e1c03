"""Runs golden cases: those that were recorded by the real engine, the others by the walk alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never

from triage.adapters.recorded import Recording
from triage.app.golden_case import Case, Recorded, WalkOnly
from triage.app.golden_compare import Difference, Seen, compare, seen_in
from triage.app.golden_file import GivenVerdict
from triage.app.procedure import Loaded
from triage.app.redecide import Redecider
from triage.engine.engine import EngineOptions
from triage.errors import SourceFailure
from triage.model.canonical import sha256_hex
from triage.model.decision import AnsweredBy, Failure, NodeId, NodeResult, decision_document
from triage.model.query import Query
from triage.model.verdict import Truth, Verdict
from triage.ports import Clock
from triage.sop.procedure import Sop
from triage.sop.sites import Sites
from triage.traversal import Conclude, EvaluateLayer, advance, begin, conclude

DEADLINE_S = 600.0  # of one decision: a slow machine must not cut off what a recording answers

_GIVEN = Failure(reason="given", detail="the case says that nobody could answer")


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """A query that a recorded case has no answer to."""

    node: NodeId
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """`without_verdict` are nodes that were reached although the case says nothing of them: there
    the walk ended, and `seen` is None. `document` is the decision of a recorded case."""

    case: Case
    differences: tuple[Difference, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()
    without_verdict: tuple[NodeId, ...] = ()
    seen: Seen | None
    document: Mapping[str, Any] | None = None

    @property
    def status(self) -> Status:
        bad = self.differences or self.unrecorded or self.without_verdict
        return Status.FAILED if bad else Status.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRunner:
    """`redecider` is None when no case was recorded: then nothing needs a tool."""

    sop: Sop
    sites: Sites
    redecider: Redecider | None = field(repr=False, default=None)

    @classmethod
    def of(cls, loaded: Loaded, clock: Clock) -> GoldenRunner:
        options = EngineOptions(deadline_s=DEADLINE_S, fallback_deadline_s=DEADLINE_S)
        redecider = Redecider(loaded, clock, options=options)
        return cls(sop=loaded.sop, sites=loaded.sites, redecider=redecider)

    async def run(self, case: Case) -> CaseResult:
        """The case must have passed `check_case`. Safe to cancel."""
        match case.content:
            case Recorded() as recorded:
                return await self._decide(case, recorded)
            case WalkOnly() as given:
                return self._walk(case, given)
            case _:
                assert_never(case.content)

    async def _decide(self, case: Case, recorded: Recorded) -> CaseResult:
        assert self.redecider is not None, "a recorded case needs the tools"
        decided = await self.redecider.decide(recorded.alert, recording(recorded))
        seen = seen_in(decided.decision)
        return CaseResult(
            case=case,
            seen=seen,
            document=decision_document(decided.decision),
            differences=tuple(compare(case.expect, seen, recorded.alert.entity, self.sop)),
            unrecorded=tuple(
                Unrecorded(node=result.node, query=asked.query)
                for result in decided.decision.nodes
                for asked in result.asked
                if asked.failure is not None and asked.failure.reason == SourceFailure.UNRECORDED
            ),
        )

    def _walk(self, case: Case, given: WalkOnly) -> CaseResult:
        step: EvaluateLayer | Conclude | None = begin(self.sop, given.alarm, given.entity)
        assert step is not None, "an alarm that nobody routed was refused"
        while isinstance(step, EvaluateLayer):
            missing = tuple(node for node in step.nodes if node not in given.verdicts)
            if missing:
                return CaseResult(case=case, seen=None, without_verdict=missing)
            layer = step.walk.layer
            step = advance(
                step.walk,
                {node: self._result(node, layer, given.verdicts[node]) for node in step.nodes},
            )
        ended = conclude(step.walk, self.sites.profile(given.site).within)
        seen = Seen(
            outcome=ended.outcome,
            reason="",
            degraded=ended.degraded,
            results=dict(step.walk.results.items()),
            edges=step.walk.edges,
            root_causes=ended.root_causes,
            actions=ended.actions,
            dropped=ended.dropped,
        )
        differences = compare(case.expect, seen, given.entity, self.sop)
        return CaseResult(case=case, seen=seen, differences=tuple(differences))

    def _result(self, node: NodeId, layer: int, given: GivenVerdict) -> NodeResult:
        failed = given.verdict == "failed"
        return NodeResult(
            node=node,
            kind=self.sop.nodes[node].kind,
            layer=layer,
            verdict=None
            if failed
            else Verdict(value=Truth(given.verdict), subject=given.subject or ""),
            failure=_GIVEN if failed else None,
            answered_by=AnsweredBy.NOBODY if failed else AnsweredBy.TOOL,
        )


def recording(recorded: Recorded) -> Recording:
    """The case's answers as what a decision keeps of them."""
    by_digest = {sha256_hex(body): body for body in recorded.bodies.values()}
    asked = [
        *(
            {"query_sha256": query, "answer_sha256": sha256_hex(body), "failure": None}
            for query, body in recorded.bodies.items()
        ),
        *(
            {"query_sha256": query, "answer_sha256": "", "failure": _failure(failure)}
            for query, failure in recorded.failures.items()
        ),
    ]

    async def evidence(digest: str) -> bytes | None:
        return by_digest.get(digest)

    return Recording({"nodes": [{"asked": asked}]}, evidence)


def _failure(failure: Failure) -> Mapping[str, str]:
    return {"reason": failure.reason, "detail": failure.detail}
