"""A node's sources as an agent asks them: over MCP, recorded like a tool's own queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.guard import Answered, GuardedSource, OverMcp
from triage.model.decision import Asked
from triage.ports import CallAnswer, SourceTool

if TYPE_CHECKING:
    from triage.model.query import Call


class AgentCalls:
    """Implements `ports.SourceCalls` for one node of one attempt.

    `deadline` is monotonic. `asked` and `bodies` are what the record of the node takes over: the
    queries in the order they ended, and answers by SHA-256.
    """

    def __init__(
        self,
        declared: Sequence[str],
        sources: Mapping[str, GuardedSource],
        *,
        deadline: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._declared = tuple(declared)
        self._sources = sources
        self._deadline = deadline
        self._monotonic = monotonic
        self.asked: list[Asked] = []
        self.bodies: dict[str, bytes] = {}

    async def tools(self, source: str) -> Sequence[SourceTool]:
        """Raises SourceFailed, and ToolFailed for a source that the node does not declare."""
        left_s = self._deadline - self._monotonic()
        if left_s <= 0:
            raise SourceFailed(SourceFailure.DEADLINE, "the attempt's time is over")
        return await self._reach(source).shelf.tools(timeout_s=left_s)

    async def call(self, query: Call) -> CallAnswer:
        """Raises SourceFailed and ToolFailed, as a source does."""
        reply = await self._reach(query.source).guarded.fetch(query, self._deadline)
        self.asked.append(reply.asked)
        if isinstance(reply, Answered):
            self.bodies[reply.asked.answer_sha256] = reply.body
            return CallAnswer(reply.data, reply.asked.answer_sha256, reply.asked.answer_bytes)
        failure = reply.asked.failure
        assert failure is not None
        if reply.tool_at_fault:
            raise ToolFailed(ToolFailure(failure.reason), failure.detail)
        raise SourceFailed(SourceFailure(failure.reason), failure.detail)

    def _reach(self, source: str) -> OverMcp:
        if source not in self._declared:
            raise ToolFailed(
                ToolFailure.UNDECLARED_SOURCE,
                f"the node does not declare source {source!r}: it declares"
                f" {', '.join(self._declared) or 'none'}",
            )
        guarded = self._sources.get(source)
        if guarded is None or guarded.over_mcp is None:
            raise SourceFailed(
                SourceFailure.CONNECT, f"source {source!r} cannot be reached over MCP"
            )
        return guarded.over_mcp
