"""Evaluates the layers of one attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triage.errors import FallbackFailure, SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.agent_calls import AgentCalls
from triage.evaluation.answers import AnswerBook, Ticket
from triage.evaluation.context import ToolContext
from triage.evaluation.guard import Answered, GuardedSource, Unanswered
from triage.evaluation.judge import (
    Marker,
    check_count,
    check_query,
    checked,
    collect_queries,
    judge,
    raised,
)
from triage.evaluation.question import question
from triage.library.catalogue import Library, Tool
from triage.model.alert import Alert
from triage.model.decision import AnsweredBy, Asked, Failure, NodeId, NodeResult
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.ports import Fallback, FallbackRequest, Lane
from triage.sop.procedure import Node, SiteProfile, Sop
from triage.telemetry.decision_metrics import NodeMetrics

CUT_OFF_S = 0.05  # seconds after the deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAccess:
    """What answers for nodes whose tools failed, and until when. `deadline` is monotonic."""

    fallback: Fallback
    sources: Mapping[str, GuardedSource]
    deadline: float


@dataclass(slots=True)
class _Plan:
    node: Node
    context: ToolContext
    tool: Tool | None = None
    tickets: tuple[Ticket, ...] = ()
    failed: ToolFailed | SourceFailed | None = None
    verdict: Verdict | None = None
    asked: list[Asked] = field(default_factory=list)
    evaluate_s: float = 0.0


class Attempt:
    """One attempt at one alert. Results depend on the answers only, never on their order.

    `sources_s` and `evaluate_s` add up the time spent waiting for answers and in tools.
    `agent_bodies` are the answers that agents got, by SHA-256: evidence like a tool's.
    """

    def __init__(
        self,
        *,
        alert: Alert,
        sop: Sop,
        library: Library,
        profile: SiteProfile,
        book: AnswerBook,
        monotonic: Callable[[], float],
        marker: Marker,
        metrics: NodeMetrics,
        lane: Lane,
        fallback: AgentAccess | None = None,
    ) -> None:
        self._alert = alert
        self._sop = sop
        self._library = library
        self._profile = profile
        self._book = book
        self._monotonic = monotonic
        self._marker = marker
        self._metrics = metrics
        self._lane = lane
        self._fallback = fallback
        self._plans: dict[NodeId, _Plan] = {}
        self._verdicts: dict[NodeId, Verdict] = {}
        self._walked: dict[NodeId, NodeResult] = {}
        self.agent_bodies: dict[str, bytes] = {}
        self.sources_s = 0.0
        self.evaluate_s = 0.0

    def prefetch(self, nodes: Iterable[NodeId]) -> None:
        """Collect what the nodes' tools ask, and start asking."""
        for node in nodes:
            if node not in self._plans:
                self._plans[node] = self._plan(node)

    async def evaluate(self, nodes: tuple[NodeId, ...], layer: int) -> dict[NodeId, NodeResult]:
        """Results of one layer, in the order of `nodes`."""
        began = self._monotonic()
        self.prefetch(nodes)
        plans = [self._plans[node] for node in nodes]
        asking = self._monotonic()
        waited = False
        for plan in plans:
            if plan.tickets and await self._book.settle(plan.tickets):
                waited = True
        self._book.round_trips += waited
        dynamic = [plan for plan in plans if plan.tool is not None and plan.tool.dynamic]
        if dynamic:
            await self._judge_in_steps(dynamic)
        answered = self._monotonic()
        self.sources_s += answered - asking
        for plan in plans:
            self._take_replies(plan)
            if plan.tool is not None and not plan.tool.dynamic and plan.failed is None:
                self._judge(plan, plan.tool)
        judged = self._monotonic()
        self.evaluate_s += (judged - answered) + (asking - began)
        results = {plan.node.node: self._result(plan, layer, judged - began) for plan in plans}
        if self._fallback is not None:
            await self._fall_back(self._fallback, plans, results, began)
        self._walked.update(results)
        for node, result in results.items():
            if result.verdict is not None:
                self._verdicts[node] = result.verdict
            cell = self._metrics.cell(node)
            cell.record(result.word, result.answered_by, result.elapsed_ms / 1000)
            if result.failure is not None:
                cell.failure(result.failure.reason)
            if result.tool_failure is not None:
                cell.failure(result.tool_failure.reason)
        return results

    def _plan(self, node_id: NodeId) -> _Plan:
        node = self._sop.nodes[node_id]
        plan = _Plan(node, ToolContext(self._alert, self._profile))
        found = self._library.get(node_id)
        if isinstance(found, ToolFailed):
            plan.failed = found
            return plan
        plan.tool = found
        try:
            queries = collect_queries(
                found,
                node.sources,
                self._profile.site.name,
                self._alert.fired_at,
                plan.context,
                self._marker,
            )
        except ToolFailed as error:
            plan.failed = error
        else:
            plan.tickets = tuple(map(self._book.want, queries))
        return plan

    def _take_replies(self, plan: _Plan) -> None:
        answers: dict[Query, Answer] = {}
        for ticket in plan.tickets:
            reply = ticket.reply
            assert reply is not None
            plan.asked.append(reply.asked)
            if isinstance(reply, Answered):
                answers[ticket.query] = reply.data
            elif plan.failed is None or not isinstance(plan.failed, SourceFailed):
                # A source that is down outweighs a rejected query: no fallback in an outage.
                plan.failed = _failed(reply)
        if plan.failed is None and plan.tool is not None and not plan.tool.dynamic:
            plan.context.open_for_judging(self._parents(plan.tool), answers)

    def _judge(self, plan: _Plan, tool: Tool) -> None:
        began = self._monotonic()
        try:
            plan.verdict = judge(
                tool, self._profile.site.name, self._alert.fired_at, plan.context, self._marker
            )
        except ToolFailed as error:
            plan.failed = error
        plan.evaluate_s = self._monotonic() - began

    async def _judge_in_steps(self, plans: list[_Plan]) -> None:
        async with asyncio.TaskGroup() as group:
            for plan in plans:
                if plan.failed is None and plan.tool is not None:
                    group.create_task(self._judge_dynamic(plan, plan.tool))

    async def _judge_dynamic(self, plan: _Plan, tool: Tool) -> None:
        first: list[ToolFailed | SourceFailed] = []

        async def ask(query: Query) -> Answer:
            # Kept here too: a tool that swallows the error must not turn an outage into a verdict.
            if not first:
                try:
                    check_count(len(plan.asked) + 1)
                    check_query(query, plan.node.sources)
                    self._marker.leave()
                    reply = await self._book.ask(query)
                    self._marker.enter(tool)
                    plan.asked.append(reply.asked)
                    if isinstance(reply, Answered):
                        return reply.data
                    raise _failed(reply)
                except (ToolFailed, SourceFailed) as error:
                    first.append(error)
            raise first[0]

        plan.context.open_for_judging(self._parents(tool), {}, ask)
        # The book cuts off what the tool asks, and then says which query it was. This is for a
        # tool that waits for something else, and must not come first.
        left = max(self._book.deadline - self._monotonic(), 0)
        timer = asyncio.timeout(left + CUT_OFF_S)
        self._marker.enter(tool)
        try:
            async with timer:
                verdict = await tool.evaluate(
                    self._profile.site.name, self._alert.fired_at, plan.context
                )
            plan.verdict = checked(verdict)
        except (ToolFailed, SourceFailed) as error:
            first.append(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the tool's failure, whatever it is
            if not timer.expired():
                first.append(raised(tool, error))
        finally:
            self._marker.leave()
        if timer.expired():
            # Looked at whatever came out: a tool may have caught its own cancellation.
            first.insert(
                0, SourceFailed(SourceFailure.DEADLINE, "cut off by the attempt's deadline")
            )
        if first:
            plan.verdict = None
            plan.failed = first[0]

    def _parents(self, tool: Tool) -> Mapping[str, Verdict]:
        if not tool.reads_parents:
            return _NO_PARENTS
        return {
            parent: self._verdicts[parent]
            for parent in tool.reads_parents
            if parent in self._verdicts
        }

    def _result(self, plan: _Plan, layer: int, elapsed_s: float) -> NodeResult:
        tool = plan.tool
        failed = plan.failed
        return NodeResult(
            node=plan.node.node,
            kind=plan.node.kind,
            layer=layer,
            verdict=plan.verdict,
            failure=Failure(reason=failed.reason, detail=failed.detail) if failed else None,
            answered_by=AnsweredBy.NOBODY if failed else AnsweredBy.TOOL,
            tool_version=tool.version if tool else 0,
            tool_sha256=tool.sha256 if tool else "",
            asked=tuple(plan.asked),
            elapsed_ms=elapsed_s * 1000,
            evaluate_ms=plan.evaluate_s * 1000,
        )

    async def _fall_back(
        self,
        fallback: AgentAccess,
        plans: list[_Plan],
        results: dict[NodeId, NodeResult],
        began: float,
    ) -> None:
        broken = [plan for plan in plans if isinstance(plan.failed, ToolFailed)]
        if not broken:
            return
        if not await self._lane.enter_slow():
            for plan in broken:
                result = results[plan.node.node]
                assert result.failure is not None
                fallback.fallback.turned_away(result.failure.reason)
                results[plan.node.node] = result._replace(
                    failure=Failure(
                        reason=FallbackFailure.SATURATED.value,
                        detail="every slot of the slow lane is taken",
                    ),
                    tool_failure=result.failure,
                )
            return
        # The slow lane's deadline is that of all that follows, not of the fallback alone.
        self._book.extend(deadline=fallback.deadline, left_s=fallback.deadline - self._monotonic())
        async with asyncio.TaskGroup() as group:
            for plan in broken:
                group.create_task(self._answer_by_fallback(fallback, plan, results, began))

    async def _answer_by_fallback(
        self,
        access: AgentAccess,
        plan: _Plan,
        results: dict[NodeId, NodeResult],
        began: float,
    ) -> None:
        result = results[plan.node.node]
        assert result.failure is not None
        calls = AgentCalls(
            plan.node.sources,
            access.sources,
            deadline=access.deadline,
            monotonic=self._monotonic,
        )
        answer = await access.fallback.answer(
            FallbackRequest(
                alert=self._alert,
                question=question(self._sop, plan.node, self._profile, self._walked),
                site=self._profile.site,
                reason=result.failure.reason,
                detail=result.failure.detail,
                calls=calls,
            ),
            timeout_s=max(0.0, access.deadline - self._monotonic()),
        )
        self.agent_bodies.update(calls.bodies)
        answered = result._replace(
            asked=(*result.asked, *calls.asked),
            tool_failure=result.failure,
            trace=answer.trace,
            elapsed_ms=(self._monotonic() - began) * 1000,
        )
        results[plan.node.node] = (
            answered._replace(failure=Failure(reason=answer.reason, detail=answer.detail))
            if answer.verdict is None
            else answered._replace(
                verdict=answer.verdict, failure=None, answered_by=AnsweredBy.FALLBACK
            )
        )


_NO_PARENTS: Mapping[str, Any] = {}


def _failed(reply: Unanswered) -> ToolFailed | SourceFailed:
    failure = reply.asked.failure
    assert failure is not None
    if reply.tool_at_fault:
        return ToolFailed(ToolFailure(failure.reason), failure.detail)
    return SourceFailed(SourceFailure(failure.reason), failure.detail)
