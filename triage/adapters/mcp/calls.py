"""Calls of permitted tools on the session that its owner has published."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import orjson
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
from pydantic import TypeAdapter

from triage.adapters.mcp.answers import body_of, failure_of
from triage.adapters.mcp.exchange import Exchange, current_exchange
from triage.adapters.mcp.schemas import argument_fault, check_result
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.ports import SourceTool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import Tool

    from triage.adapters.mcp.session import Live, Session
    from triage.model.query import Answer, Call

_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)


class Caller:
    def __init__(self, session: Session, *, allow_tools: frozenset[str], max_bytes: int) -> None:
        self.session = session
        self._allow_tools = allow_tools
        self._max_bytes = max_bytes

    async def tools(self) -> Sequence[SourceTool]:
        """Those that may be called, by name. Raises SourceFailed."""
        live = await self.session.live()
        return [
            SourceTool(
                name=name,
                description=tool.description or tool.title or "",
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
            )
            for name, tool in sorted(live.tools.items())
            if self._may_call(tool)
        ]

    async def call(self, query: Call, *, until: float) -> Answer:
        """`until` is when the caller stops waiting, on the event loop's clock.

        Raises ToolFailed and SourceFailed, with texts that may hold credentials still.
        """
        live = await self.session.live()
        tool = self._permitted(live, query.tool)
        given = _arguments(query)
        if problem := argument_fault(tool, given):
            raise _rejected(f"tool {tool.name!r}: {problem}")
        exchange = Exchange(until=until)
        token = current_exchange.set(exchange)
        try:
            return await self._answer(live, tool, given)
        except MCPError as error:
            failed = failure_of(error, exchange, max_bytes=self._max_bytes)
            raise _of_tool(tool, failed) from None
        except (ToolFailed, SourceFailed) as failed:
            raise _of_tool(tool, failed) from None
        except (RuntimeError, ValueError) as error:
            # How the library says that a result does not conform to the protocol.
            failure = SourceFailed(SourceFailure.PROTOCOL, str(error))
            raise _of_tool(tool, failure) from None
        finally:
            current_exchange.reset(token)
            if exchange.gone:
                live.lost.set()

    async def _answer(self, live: Live, tool: Tool, given: dict[str, Any]) -> Answer:
        # Not the library's `call_tool`, which checks the result on the event loop; and no limit of
        # its own, since whoever asks has one.
        request = CallToolRequest(params=CallToolRequestParams(name=tool.name, arguments=given))
        result = await live.client.session.send_request(request, _RESULT, math.inf)
        body = body_of(result, max_bytes=self._max_bytes)
        # Decoding what was encoded makes a live answer the recorded one, to the order of its keys.
        answer = orjson.loads(body)
        if not live.is_ours:
            await check_result(tool, result, answer, len(body))
        return answer

    def _permitted(self, live: Live, wanted: str) -> Tool:
        tool = live.tools.get(wanted)
        if tool is None:
            near = get_close_matches(wanted, live.tools, n=3, cutoff=0.5) or sorted(live.tools)[:3]
            there = f"the nearest are {', '.join(near)}" if near else "the server has none"
            raise _rejected(f"there is no tool {wanted!r}: {there}")
        if self._may_call(tool):
            return tool
        raise _rejected(
            f"tool {wanted!r} is not marked as read-only by its server: name it in allow_tools "
            "if it changes nothing"
        )

    def _may_call(self, tool: Tool) -> bool:
        hints = tool.annotations
        return tool.name in self._allow_tools or (
            hints is not None and hints.read_only_hint is True
        )


def _arguments(query: Call) -> dict[str, Any]:
    try:
        given = orjson.loads(query.arguments)
    except orjson.JSONDecodeError as error:
        raise _rejected(f"tool {query.tool!r}: its arguments are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise _rejected(f"tool {query.tool!r}: its arguments are no JSON object")
    return given


def _rejected(detail: str) -> ToolFailed:
    return ToolFailed(ToolFailure.QUERY_REJECTED, detail)


def _of_tool(tool: Tool, failed: ToolFailed | SourceFailed) -> ToolFailed | SourceFailed:
    detail = f"tool {tool.name!r}: {failed.detail}"
    if isinstance(failed, ToolFailed):
        return ToolFailed(failed.failure, detail)
    return SourceFailed(failed.failure, detail)
