"""What answers for a node whose tool failed: a model, a sandbox, and sources over MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from triage.model.alert import Alert
from triage.model.query import Call
from triage.model.question import Question
from triage.model.site import Site
from triage.model.trace import Trace
from triage.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTool:
    """A tool of an MCP server that may be called: marked read-only by its server, or allowed by
    the configuration. Schemas are JSON Schemas as the server gave them, data from outside."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None


@runtime_checkable
class Shelf(Protocol):
    """What a source of MCP tools also is."""

    async def tools(self, *, timeout_s: float) -> Sequence[SourceTool]:
        """Those that may be called, by name. Raises SourceFailed."""


class SourceCalls(Protocol):
    """The node's declared sources as an agent reaches them: over MCP, each with bounds of its
    own. What is asked here is recorded as evidence of the node."""

    async def tools(self, source: str) -> Sequence[SourceTool]:
        """Raises SourceFailed, and ToolFailed for a source that the node does not declare."""

    async def call(self, query: Call) -> CallAnswer:
        """Raises SourceFailed and ToolFailed, as a source does."""


class CallAnswer(NamedTuple):
    """`data` is JSON. The digest and size are of its canonical bytes."""

    data: Any
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackRequest:
    """`reason` and `detail` are the tool's failure. Texts of the alert are data from outside."""

    alert: Alert
    question: Question
    site: Site
    reason: str
    detail: str
    calls: SourceCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackAnswer:
    """`verdict` is None when there is none; then `reason` is a FallbackFailure and `detail` one
    line for people. `trace` is what was done, None when nothing was."""

    verdict: Verdict | None
    reason: str = ""
    detail: str = ""
    trace: Trace | None = None


class Fallback(Protocol):
    """Answers for one node whose tool failed. Ends within `timeout_s`; never raises for what
    the model, the sandbox or a source did. May be cancelled."""

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer: ...

    def turned_away(self, reason: str) -> None:
        """A node was not put to it, because the slow lane was full: to be counted. `reason` is
        the tool's failure."""


class Lane(Protocol):
    """The slot an attempt holds."""

    async def enter_slow(self) -> bool:
        """Give up the fast slot for a slow one. False when the slow lane is full: the fast slot
        is kept and the node fails as `fallback_saturated`. True again if already slow."""


class ChatMessage(NamedTuple):
    """`role` is system, user or assistant."""

    role: str
    content: str


class Completion(NamedTuple):
    """`finish` is "stop", "length" when it was cut off, "refused" when the endpoint's filter
    stopped it, else the endpoint's own word. Tokens are the endpoint's count, estimated when it
    gave none."""

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int


class ChatModel(Protocol):
    """A language model. Bounded in how many completions are under way at once; may be cancelled."""

    @property
    def name(self) -> str: ...

    @property
    def trouble(self) -> str:
        """Why it is left alone just now (its breaker is open), for people; empty when it is not."""

    async def complete(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_s: float
    ) -> Completion:
        """Ends within `timeout_s`, retries included. Raises ModelFailed."""

    async def close(self) -> None: ...


class SandboxError(NamedTuple):
    """`kind` is "syntax", "type" (the type checker's), "raised" (the code's own exception),
    "limit" (time, memory, recursion, calls, output or size of the result) or "crash" (the worker
    died). `text` is for the model: line numbers are those of the code it wrote."""

    kind: str
    text: str


class SandboxRun(NamedTuple):
    """`printed` is what the code printed, up to the limit."""

    printed: str = ""
    error: SandboxError | None = None


HostFunction = Callable[..., Awaitable[Any]]
"""Called with keyword arguments of JSON types, gives JSON types, and raises nothing: what it
returns is what the code in the sandbox sees."""


class SandboxSession(Protocol):
    """Names that code defines stay for the next run. After a "limit" or a "crash" it is spoiled,
    and the next run begins anew, with the prelude and without those names."""

    async def run(self, code: str, *, timeout_s: float) -> SandboxRun:
        """Ends within `timeout_s`, whatever a host function does. Raises SandboxFailed."""


class Sandbox(Protocol):
    """Runs code that nobody approved, away from files, processes and the network."""

    @property
    def trouble(self) -> str:
        """Why it cannot run anything, for people; empty when it can."""

    def session(
        self,
        *,
        prelude: str,
        stubs: str,
        functions: Mapping[str, HostFunction],
        inputs: Mapping[str, Any],
    ) -> AbstractAsyncContextManager[SandboxSession]:
        """`prelude` is our own code, run before the first of a session, its names visible to all
        later code. `stubs` declare `functions`, `inputs` and the prelude's names to the type
        checker, which sees no text of the prelude. `inputs` are JSON types, bound as globals.
        Entering raises SandboxFailed when no worker is to be had.
        """

    async def close(self) -> None: ...
