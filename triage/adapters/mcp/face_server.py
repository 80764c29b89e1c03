"""An MCP server over a source of ours, for a client in this process."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, ListToolsResult, TextContent

from triage import __version__
from triage.adapters.mcp.exchange import ANSWER_TOO_LARGE, Exchange, current_exchange
from triage.adapters.mcp.face_catalogue import metrics_document, tables_document
from triage.adapters.mcp.face_tools import FACE_TOOLS
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.query import Aggregate, Answer, Query, Reading, Rows, Samples, Series, spelled

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from triage.adapters.mcp.face_catalogue import Catalogues
    from triage.ports import Source

DEFAULT_LIMIT = 50
"""Of names in one answer, as the tools' schemas have it."""


def face_server(
    source: Source, offered: Collection[str], catalogues: Catalogues | None
) -> Server[Any]:
    """`offered` names tools of FACE_TOOLS. `catalogues` are the source's, needed for the tools
    `metrics` and `tables`.

    What the source refuses is a tool's error whose text is the reason. An outage, or an answer
    that is too large, is a JSON-RPC error and also left in the caller's Exchange, from where it
    comes out as it was. It is called through a `Caller` only, which has held the arguments against
    the schema and says how long it waits.
    """
    tools = [tool for tool in FACE_TOOLS if tool.name in offered]

    async def list_tools(
        _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(
        _context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        # This client calls its server directly, in the context of whoever asks.
        exchange = current_exchange.get()
        assert exchange is not None
        try:
            given = params.arguments or {}
            if catalogues is not None and params.name in CATALOGUE_TOOLS:
                catalogue = await catalogues.current(lambda: _left_s(exchange))
                contains, limit = given.get("contains", ""), given.get("limit", DEFAULT_LIMIT)
                document = CATALOGUE_TOOLS[params.name](catalogue, contains, int(limit))
            else:
                query = _query(source.name, params.name, given)
                document = _document(query, await source.ask(query, timeout_s=_left_s(exchange)))
        except ToolFailed as failed:
            told = ToolFailed(failed.failure, _plain(source.name, failed.detail))
            if failed.failure is ToolFailure.QUERY_REJECTED:
                return CallToolResult(content=[TextContent(text=told.detail)], is_error=True)
            exchange.failed = told
            raise MCPError(ANSWER_TOO_LARGE, told.detail) from None
        except SourceFailed as failed:
            exchange.failed = SourceFailed(failed.failure, _plain(source.name, failed.detail))
            raise MCPError(INTERNAL_ERROR, exchange.failed.detail) from None
        # Nobody here reads the text that servers send beside structured content.
        return CallToolResult(content=[], structured_content=document)

    return Server(
        source.name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool
    )


CATALOGUE_TOOLS = {"metrics": metrics_document, "tables": tables_document}


def _left_s(exchange: Exchange) -> float:
    return max(0.0, exchange.until - asyncio.get_running_loop().time())


def _plain(name: str, detail: str) -> str:
    """Without the source's name, which the asking side puts there."""
    return detail.removeprefix(f"source {name!r}: ")


def _query(source: str, tool: str, given: dict[str, Any]) -> Query:
    """Raises ToolFailed."""
    match tool:
        case "samples":
            return Samples(source, given["selector"], *_window(given))
        case "aggregate":
            return Aggregate(
                source,
                given["selector"],
                *_window(given),
                given["function"],
                float(given.get("quantile", 0)),
            )
        case _:
            return Rows(source, given["sql"], tuple(sorted(given.get("params", {}).items())))


def _window(given: dict[str, Any]) -> tuple[datetime, datetime]:
    start, end = _moment("start", given["start"]), _moment("end", given["end"])
    if start >= end:
        raise _rejected(
            f"the window is empty: start {given['start']} must be before end {given['end']}"
        )
    return start, end


def _moment(which: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise _rejected(f"{which} {text!r} has no offset: add +00:00 when it is in UTC")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _rejected(
            f"{which} {text!r} is no ISO 8601 time: write it like 2026-01-05T12:00:00+00:00"
        ) from None


def _document(query: Query, answer: Answer) -> dict[str, Any]:
    """The answer under the name of what it holds: structured content of older protocols is an
    object. Raises SourceFailed for what is no answer to such a query."""
    match query:
        case Samples():
            return {
                "series": [
                    {
                        "labels": dict(one.labels),
                        "times": one.times,
                        "values": spelled(one.values),
                    }
                    for one in _all(answer, Series)
                ]
            }
        case Aggregate():
            return {
                "readings": [
                    {"labels": dict(one.labels), "value": spelled((one.value,))[0]}
                    for one in _all(answer, Reading)
                ]
            }
        case _:
            return {"rows": _all(answer, dict)}


def _all(answer: Answer, kind: type) -> Any:
    if isinstance(answer, tuple) and all(isinstance(one, kind) for one in answer):
        return answer
    raise SourceFailed(
        SourceFailure.PROTOCOL, f"it gave no tuple of {kind.__name__}, which the query asks for"
    )


def _rejected(detail: str) -> ToolFailed:
    return ToolFailed(ToolFailure.QUERY_REJECTED, detail)
