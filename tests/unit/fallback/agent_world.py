"""A scripted model, a scripted sandbox and scripted sources for the loop between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn, cast

from prometheus_client import CollectorRegistry

from tests.unit.evaluation.virtual_time import LoopClock
from tests.unit.fallback.phrases import PlainPhrases
from triage.errors import ModelFailed, ModelFailure, SandboxFailed, SourceFailed, ToolFailed
from triage.fallback.agent import CodeAct
from triage.fallback.host import HostTools, Rates
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.fallback.prompt import Prompt
from triage.model.alert import Alert, AlertId, Severity
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeId, NodeKind
from triage.model.query import Call
from triage.model.question import Question
from triage.model.site import Site
from triage.ports import (
    CallAnswer,
    ChatMessage,
    Completion,
    FallbackAnswer,
    FallbackRequest,
    HostFunction,
    SandboxError,
    SandboxRun,
    SandboxSession,
    SourceTool,
)
from triage.telemetry.fallback_metrics import FallbackMetrics

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "hunter2-hunter2"  # noqa: S105 - to be masked
BYTES_A_TOKEN = 4

Functions = Mapping[str, HostFunction]
Step = Callable[[Functions], Awaitable[SandboxRun]]
Reply = str | Completion | Exception | Callable[[float], Awaitable[Completion]]


def block(code: str = "x = 1", thought: str = "So:") -> str:
    return f"{thought}\n```python\n{code}\n```"


async def never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("it came after all")


async def hangs(_: float) -> Completion:
    """An endpoint that never answers, behind an adapter that does not notice."""
    return await never()


async def times_out(timeout_s: float) -> Completion:
    """An endpoint that never answers, behind an adapter that keeps its word."""
    try:
        async with asyncio.timeout(timeout_s):
            return await never()
    except TimeoutError:
        raise ModelFailed(ModelFailure.TIMEOUT, "no answer") from None


async def passes(seconds: float) -> None:
    """Virtual time."""
    try:
        async with asyncio.timeout(seconds):
            await never()
    except TimeoutError:
        return


class Request(NamedTuple):
    messages: tuple[ChatMessage, ...]
    max_tokens: int
    timeout_s: float


class ScriptedModel:
    """Gives its replies in order, the last one again and again. A text is counted four bytes a
    token."""

    def __init__(self, *replies: Reply, takes_s: float = 0.0) -> None:
        self.replies = replies
        self.asked: list[Request] = []
        self.trouble = ""
        self.under_way = 0
        self._takes_s = takes_s

    @property
    def name(self) -> str:
        return "scripted-1"

    async def complete(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_s: float
    ) -> Completion:
        self.asked.append(Request(tuple(messages), max_tokens, timeout_s))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        self.under_way += 1
        try:
            if self._takes_s:
                await passes(self._takes_s)
            if isinstance(reply, Exception):
                raise reply
            if isinstance(reply, str):
                prompt = sum(tokens_of(message.content) for message in messages)
                return Completion(reply, "stop", prompt, min(tokens_of(reply), max_tokens))
            return reply if isinstance(reply, Completion) else await reply(timeout_s)
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        """Nothing to close."""


def tokens_of(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_A_TOKEN)


class _Session:
    def __init__(self, sandbox: ScriptedSandbox, functions: Functions) -> None:
        self._sandbox = sandbox
        self._functions = functions

    async def run(self, code: str, *, timeout_s: float) -> SandboxRun:
        sandbox = self._sandbox
        sandbox.ran.append(code)
        sandbox.timeouts.append(timeout_s)
        step = sandbox.steps[min(len(sandbox.ran), len(sandbox.steps)) - 1]
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, SandboxRun) else await step(self._functions)


class ScriptedSandbox:
    """Each run is the next step, the last one again and again, whatever its code says."""

    def __init__(self, *steps: Step | SandboxRun | SandboxFailed) -> None:
        self.steps = steps
        self.ran: list[str] = []
        self.timeouts: list[float] = []
        self.inputs: Mapping[str, Any] = {}
        self.offered: set[str] = set()
        self.opened = 0
        self.closed = 0
        self.trouble = ""
        self.entering: Callable[[], Awaitable[None]] | None = None

    def session(
        self,
        *,
        prelude: str,
        stubs: str,
        functions: Functions,
        inputs: Mapping[str, Any],
    ) -> AbstractAsyncContextManager[SandboxSession]:
        self.inputs = inputs
        self.offered = set(functions)

        @asynccontextmanager
        async def session() -> AsyncIterator[SandboxSession]:
            if self.entering is not None:
                await self.entering()
            self.opened += 1
            try:
                yield _Session(self, functions)
            finally:
                self.closed += 1

        return session()

    async def close(self) -> None:
        """Nothing to close."""


PRINTED = SandboxRun("42\n")


def raised(text: str = "line 1: ValueError: no") -> SandboxRun:
    return SandboxRun("", SandboxError("raised", text))


def submits(verdict: str = "true", *, then: SandboxRun | None = None, **said: Any) -> Step:
    async def step(functions: Functions) -> SandboxRun:
        await functions["submit"](**{"verdict": verdict, "explanation": "so", **said})
        return then or SandboxRun()

    return step


def calls(function: str = "metrics_samples", *, then: Step | None = None, **arguments: Any) -> Step:
    async def step(functions: Functions) -> SandboxRun:
        answer = await functions[function](**(arguments or {"selector": "x"}))
        return await then(functions) if then is not None else SandboxRun(str(answer))

    return step


class ScriptedSources:
    """Implements `ports.SourceCalls`: each source has one tool, `samples`, which answers with the
    next of its answers, the last again and again."""

    def __init__(self, **answers: Sequence[Any]) -> None:
        self.answers = answers or {"metrics": [{"series": []}]}
        self.asked: list[Call] = []
        self.listing: Callable[[], Awaitable[None]] | None = None
        self.unlisted: dict[str, SourceFailed] = {}

    async def tools(self, source: str) -> Sequence[SourceTool]:
        if self.listing is not None:
            await self.listing()
        if source in self.unlisted:
            raise self.unlisted[source]
        schema = {"type": "object", "properties": {"selector": {"type": "string"}}}
        return [SourceTool(name="samples", description="Samples.", input_schema=schema)]

    async def call(self, query: Call) -> CallAnswer:
        self.asked.append(query)
        answers = self.answers[query.source]
        before = sum(1 for one in self.asked if one.source == query.source)
        answer = answers[min(before, len(answers)) - 1]
        if isinstance(answer, SourceFailed | ToolFailed):
            raise answer
        if callable(answer):
            answer = await answer()
        body = canonical_json(answer)
        return CallAnswer(answer, sha256_hex(body), len(body))


class PlainPrompt(PlainPhrases):
    """The prompt without its files: one line of question."""

    version = "7"
    sha256 = "ab" * 32

    as_json = False

    def __init__(self, opening: str = "Is it so?") -> None:
        super().__init__()
        self._opening = opening

    def opening(
        self, request: FallbackRequest, tools: HostTools, examples: Sequence[Any], *, mask: Mask
    ) -> list[ChatMessage]:
        names = ", ".join(tools.functions)
        return [
            ChatMessage("system", f"You can call {names}."),
            ChatMessage("user", f"{self._opening} {len(examples)} examples"),
        ]

    def inputs(self, request: FallbackRequest) -> dict[str, Any]:
        return {"site": request.site.name}


class World:
    """One agent and its surroundings, on the running loop's time."""

    def __init__(
        self,
        model: ScriptedModel,
        sandbox: ScriptedSandbox | None = None,
        sources: ScriptedSources | None = None,
        *,
        opening: str = "Is it so?",
        prompt: Prompt | None = None,
        monotonic: Callable[[], float] | None = None,
        **limits: Any,
    ) -> None:
        self.model = model
        self.sandbox = sandbox or ScriptedSandbox(PRINTED)
        self.sources = sources or ScriptedSources()
        self.registry = CollectorRegistry()
        self.clock = LoopClock()
        monotonic = monotonic or self.clock.monotonic
        self.prompt = prompt or cast("Prompt", PlainPrompt(opening))
        self.limits = AgentLimits(**limits)
        self.agent = CodeAct(
            model=model,
            sandbox=self.sandbox,
            prompt=self.prompt,
            examples=lambda _: (),
            limits=self.limits,
            rates=Rates(1000.0, monotonic=monotonic),
            mask=Mask((), (SECRET,)),
            max_answer_bytes=1 << 20,
            metrics=FallbackMetrics.register(self.registry),
            monotonic=monotonic,
        )

    async def answer(self, *, timeout_s: float = 60.0) -> FallbackAnswer:
        return await self.agent.answer(request(self.sources), timeout_s=timeout_s)

    def counted(self, result: str) -> float:
        labels = {"reason": "tool_missing", "result": result}
        return self.registry.get_sample_value("triage_fallbacks_total", labels) or 0.0


def request(sources: ScriptedSources) -> FallbackRequest:
    return FallbackRequest(
        alert=Alert(
            alert_id=AlertId("a" * 32),
            integration="test",
            tenant="",
            fingerprint="f",
            alarm="high",
            site="north",
            entity="cell-7",
            severity=Severity.ERROR,
            fired_at=AT,
            accepted_at=AT,
            labels={},
            annotations={},
        ),
        question=Question(
            sop="house",
            sop_version=1,
            node=NodeId("is_hot"),
            kind=NodeKind.OBSERVATION,
            text="Is it hot?",
            text_sha256="cd" * 32,
            sources=tuple(sources.answers),
            before=(),
            after=(),
            parameters={},
        ),
        site=Site(name="north", zone="UTC", units={}, facts={}),
        reason="tool_missing",
        detail="no tool",
        calls=sources,
    )
