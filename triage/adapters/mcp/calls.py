"""Calls of permitted tools on the session that its owner has published."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import orjson
from mcp.shared.exceptions import MCPError

from triage.adapters.mcp.answers import answer_of, failure_of
from triage.adapters.mcp.arguments import fault
from triage.adapters.mcp.exchange import Exchange, current_exchange
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure

if TYPE_CHECKING:
    from mcp_types import Tool

    from triage.adapters.mcp.session import Live, Session
    from triage.model.query import Answer, Call


class Caller:
    def __init__(self, session: Session, *, allow_tools: frozenset[str], max_bytes: int) -> None:
        self.session = session
        self._allow_tools = allow_tools
        self._max_bytes = max_bytes

    async def call(self, query: Call) -> Answer:
        """Raises ToolFailed and SourceFailed, with texts that may hold credentials still."""
        live = await self.session.live()
        tool = self._permitted(live, query.tool)
        given: dict[str, Any] = orjson.loads(query.arguments)
        if problem := fault(tool, given):
            raise _rejected(f"tool {tool.name!r}: {problem}")
        exchange = Exchange()
        token = current_exchange.set(exchange)
        try:
            result = await live.client.session.call_tool(
                tool.name, given, allow_input_required=True
            )
            return answer_of(result, max_bytes=self._max_bytes)
        except MCPError as error:
            failed = failure_of(error, exchange, max_bytes=self._max_bytes)
            raise _of_tool(tool, failed) from None
        except ToolFailed as failed:
            raise _of_tool(tool, failed) from None
        except (RuntimeError, ValueError) as error:
            # How the library says that a result does not conform to the protocol or to the
            # tool's own output schema.
            failure = SourceFailed(SourceFailure.PROTOCOL, str(error))
            raise _of_tool(tool, failure) from None
        finally:
            current_exchange.reset(token)
            if exchange.gone:
                live.lost.set()

    def _permitted(self, live: Live, wanted: str) -> Tool:
        tool = live.tools.get(wanted)
        if tool is None:
            near = get_close_matches(wanted, live.tools, n=3, cutoff=0.5) or sorted(live.tools)[:3]
            there = f"the nearest are {', '.join(near)}" if near else "the server has none"
            raise _rejected(f"there is no tool {wanted!r}: {there}")
        hints = tool.annotations
        if wanted in self._allow_tools or (hints is not None and hints.read_only_hint is True):
            return tool
        raise _rejected(
            f"tool {wanted!r} is not marked as read-only by its server: name it in allow_tools "
            "if it changes nothing"
        )


def _rejected(detail: str) -> ToolFailed:
    return ToolFailed(ToolFailure.QUERY_REJECTED, detail)


def _of_tool(tool: Tool, failed: ToolFailed | SourceFailed) -> ToolFailed | SourceFailed:
    detail = f"tool {tool.name!r}: {failed.detail}"
    if isinstance(failed, ToolFailed):
        return ToolFailed(failed.failure, detail)
    return SourceFailed(failed.failure, detail)
