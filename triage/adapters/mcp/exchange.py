"""What one ask may receive, and what was seen of it below the protocol.

The MCP library answers every fault of the transport with a JSON-RPC error that has lost the
cause, and reads answers whole. So each ask carries an Exchange in its context: the library runs
a request's HTTP exchange in the context of whoever sent it, and there the transport below finds
the limit and leaves its findings.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triage.errors import SourceFailed, ToolFailed

ANSWER_TOO_LARGE = -32099
"""Our own JSON-RPC code, from the range left to implementations; never on the wire."""


@dataclass(slots=True)
class Exchange:
    """`status` is the HTTP status, 0 before one came. `problem` says why there is no usable
    response; `gone` that the session has to be opened anew.

    `until` is when the ask ends, on the event loop's clock, and `failed` what a server of ours, in
    this process, failed with: JSON-RPC has one code for all of it."""

    until: float = math.inf
    status: int = 0
    problem: str = ""
    gone: bool = False
    too_large: bool = False
    failed: ToolFailed | SourceFailed | None = None


current_exchange: ContextVar[Exchange | None] = ContextVar("mcp_exchange", default=None)
"""None for the long-lived streams, which have no end and so no size."""


def wire_limit(max_bytes: int) -> int:
    """Bytes on the wire for an answer of `max_bytes`: servers send structured content a second
    time as text, where every quote is escaped, in an envelope."""
    return 4 * max_bytes + 64 * 1024
