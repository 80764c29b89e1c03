"""A sub-agent that is given the node's compiled tool to call, in place of the node's sources.

It is the agent of the fallback with the same prompt and budgets; only what it may call differs.
That is how agents are commonly built: the model says that the tool is to be called, and passes on
what it answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.fallback.answering import NODE_TOOL
from triage.app.procedure import Loaded
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.answers import AnswerBook
from triage.evaluation.guard import GuardedSource
from triage.evaluation.judge import NoMark
from triage.evaluation.layer import Attempt
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeResult
from triage.model.query import Call
from triage.model.verdict import Verdict
from triage.ports import CallAnswer, Fallback, FallbackAnswer, FallbackRequest, SourceTool
from triage.telemetry.decision_metrics import NodeMetrics

SOURCE, _, TOOL = NODE_TOOL.partition("_")
TOOLS = (
    SourceTool(
        name=TOOL,
        description="The compiled tool of this question. Takes no arguments and answers with"
        " verdict, explanation, clauses and subject, as `submit` takes them.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    ),
)


class Delegated:
    """Implements `ports.Fallback`. `loaded` has the tools; `agent` is who calls them."""

    def __init__(
        self,
        agent: Fallback,
        loaded: Loaded,
        sources: Mapping[str, GuardedSource],
        *,
        metrics: NodeMetrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._agent = agent
        self._loaded = loaded
        self._sources = sources
        self._metrics = metrics
        self._monotonic = monotonic

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        deadline = self._monotonic() + timeout_s

        async def judge() -> NodeResult:
            return await self._judge(request, deadline)

        asked = replace(
            request,
            question=replace(request.question, sources=(SOURCE,)),
            calls=_NodeTool(judge),
        )
        return await self._agent.answer(asked, timeout_s=timeout_s)

    def turned_away(self, reason: str) -> None:
        self._agent.turned_away(reason)

    async def _judge(self, request: FallbackRequest, deadline: float) -> NodeResult:
        node = request.question.node
        left_s = max(0.0, deadline - self._monotonic())
        book = AnswerBook(self._sources, deadline=deadline, left_s=left_s)
        try:
            attempt = Attempt(
                alert=request.alert,
                sop=self._loaded.sop,
                library=self._loaded.library,
                profile=self._loaded.sites.profile(request.alert.site),
                book=book,
                monotonic=self._monotonic,
                marker=NoMark(),
                metrics=self._metrics,
                lane=_NoLane(),
            )
            return (await attempt.evaluate((node,), 0))[node]
        finally:
            await book.close()


class _NodeTool:
    """Implements `ports.SourceCalls` with the node's tool as the one thing to call."""

    def __init__(self, judge: Callable[[], Awaitable[NodeResult]]) -> None:
        self._judge = judge

    async def tools(self, source: str) -> Sequence[SourceTool]:  # noqa: ARG002 - of the port
        return TOOLS

    async def call(self, query: Call) -> CallAnswer:  # noqa: ARG002 - it takes no arguments
        result = await self._judge()
        if result.verdict is None:
            failure = result.failure
            assert failure is not None
            if failure.reason in set(SourceFailure):
                raise SourceFailed(SourceFailure(failure.reason), failure.detail)
            raise ToolFailed(ToolFailure(failure.reason), failure.detail)
        body = canonical_json(_told(result.verdict))
        return CallAnswer(_told(result.verdict), sha256_hex(body), len(body))


class _NoLane:
    async def enter_slow(self) -> bool:
        return False


def _told(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.value.word,
        "explanation": verdict.explanation,
        "clauses": [clause._asdict() for clause in verdict.clauses],
        "subject": verdict.subject,
    }
