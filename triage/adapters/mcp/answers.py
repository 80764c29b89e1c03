"""From what an MCP server returned to an answer, or to who is at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
    TextContent,
)

from triage.adapters.mcp.exchange import ANSWER_TOO_LARGE
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.canonical import canonical_json

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from mcp_types import InputRequiredResult

    from triage.adapters.mcp.exchange import Exchange

_QUERY_CODES = frozenset((INVALID_PARAMS, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED))
_FIRST_ERROR = 400  # of the HTTP statuses
_FAILURES = {
    CONNECTION_CLOSED: SourceFailure.CONNECT,
    REQUEST_TIMEOUT: SourceFailure.TIMEOUT,
    PARSE_ERROR: SourceFailure.PROTOCOL,
    INVALID_REQUEST: SourceFailure.PROTOCOL,
}


def body_of(result: CallToolResult | InputRequiredResult, *, max_bytes: int) -> bytes:
    """The JSON value a tool call gave, as canonical bytes.

    Structured content when there is some; else one text block, as JSON when it is JSON and as a
    string otherwise; else a list of such, one a block; None when there is nothing.
    Raises ToolFailed.
    """
    if not isinstance(result, CallToolResult):
        raise _rejected("it asks its caller for input, which a query cannot give")
    if result.is_error:
        text = " ".join(b.text for b in result.content if isinstance(b, TextContent))
        raise _rejected(f"it reported an error: {text or 'without a text'}")
    value = result.structured_content
    if value is None:
        value = _texts(result)
    try:
        body = canonical_json(value)
    except TypeError as error:
        raise _rejected(f"its result has no canonical JSON: {error}") from None
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    return body


def too_large(max_bytes: int) -> ToolFailed:
    return ToolFailed(
        ToolFailure.ANSWER_TOO_LARGE, f"more than {max_bytes} bytes: ask for less at once"
    )


def failure_of(error: MCPError, exchange: Exchange, *, max_bytes: int) -> ToolFailed | SourceFailed:
    """Who is at fault for a JSON-RPC error, given what was seen of its exchange."""
    if exchange.failed is not None:
        return exchange.failed
    if exchange.too_large or error.code == ANSWER_TOO_LARGE:
        return too_large(max_bytes)
    if exchange.problem:
        return SourceFailed(SourceFailure.CONNECT, exchange.problem)
    if error.code in _QUERY_CODES:
        return _rejected(f"the server refused it: {error.message}")
    failure = _FAILURES.get(error.code, SourceFailure.SERVER_ERROR)
    status = f"HTTP {exchange.status}: " if exchange.status >= _FIRST_ERROR else ""
    return SourceFailed(failure, f"{status}{error.message}")


def _texts(result: CallToolResult) -> Any:
    texts = []
    for block in result.content:
        if not isinstance(block, TextContent):
            raise _rejected(f"it returned {block.type} content: only text and JSON can be judged")
        texts.append(_parsed(block.text))
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else texts


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _rejected(detail: str) -> ToolFailed:
    return ToolFailed(ToolFailure.QUERY_REJECTED, detail)
