"""One attempt at one node: the loop itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from triage.errors import FallbackFailure, ModelFailed, ModelFailure, SandboxFailed
from triage.fallback.budget import Budget
from triage.fallback.conversation import Conversation
from triage.fallback.ending import OWN_LIMITS, Ending, NoVerdict, outage
from triage.fallback.host import HostTools, Rates, open_host_tools
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.fallback.observation import Observation, Observer
from triage.fallback.prelude import without_imports
from triage.fallback.prompt import Example, Prompt
from triage.fallback.repeats import Repeats
from triage.fallback.reply import Reply, read_reply
from triage.fallback.stubs import bound_names
from triage.fallback.submission import SUBMIT, Submissions
from triage.model.question import Question
from triage.model.trace import Turn
from triage.model.verdict import Truth, Verdict
from triage.ports import (
    ChatMessage,
    ChatModel,
    Completion,
    FallbackRequest,
    Sandbox,
    SandboxRun,
    SandboxSession,
)

CALLED = frozenset({SUBMIT, "submit_verdict", "run_tool", "ask"})
"""What code without a fence is known by, besides the host functions."""
NO_CODE_IN_A_ROW = 2
DETAIL_CHARS = 500
THOUGHT_BYTES = 2_000
"""Of what a reply said beside its code: to be shown, and said again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all attempts share."""

    model: ChatModel
    sandbox: Sandbox
    prompt: Prompt
    examples: Callable[[Question], Sequence[Example]]
    limits: AgentLimits
    rates: Rates
    mask: Mask
    max_answer_bytes: int
    prelude: str
    monotonic: Callable[[], float]


class Attempt:
    """`turns` is the record, masked."""

    def __init__(self, request: FallbackRequest, parts: Parts, budget: Budget) -> None:
        self.turns: list[Turn] = []
        self._request = request
        self._parts = parts
        self._limits = parts.limits
        self._budget = budget
        self._stack = AsyncExitStack()
        self._tools: HostTools | None = None
        self._session: SandboxSession | None = None
        self._submissions = Submissions(self._down)
        self._repeats = Repeats()
        self._no_code = 0

    async def run(self) -> Ending:
        """Once. Cancelled, it closes the session and passes the cancellation on."""
        async with self._stack:
            try:
                return Ending(await self._loop())
            except NoVerdict as end:
                return self._conclude(end)

    async def _loop(self) -> Verdict:
        """Raises NoVerdict."""
        parts = self._parts
        tools = await self._open_tools()
        opening = parts.prompt.opening(
            self._request, tools, parts.examples(self._request.question), mask=parts.mask
        )
        conversation = Conversation(opening, parts.prompt, as_json=parts.prompt.as_json)
        observer = Observer(
            parts.prompt,
            parts.mask,
            functions=tools.functions,
            names={*bound_names(tools.stubs), SUBMIT},
            limit=self._limits.observation_bytes,
        )
        while True:
            if self._budget.turns_left <= 0:
                raise NoVerdict(
                    FallbackFailure.TURNS,
                    f"no verdict in {self._limits.turns} replies of the model",
                )
            completion = await self._ask(conversation.messages(self._budget.has_room))
            reply = read_reply(
                completion,
                callables={*tools.functions, *CALLED},
                code_bytes=self._limits.code_bytes,
            )
            thought = observer.shown(reply.thought, THOUGHT_BYTES)
            self._note(thought=thought, code=parts.mask.clean(reply.code))
            if reply.problem is not None:
                told = self._take_no_code(reply, observer)
            else:
                self._no_code = 0
                outcome = await self._take_code(reply.code, tools, observer)
                if isinstance(outcome, Verdict):
                    return outcome
                told = outcome
            conversation.add(thought, reply.code, told)

    async def _open_tools(self) -> HostTools:
        parts = self._parts
        self._tools = await self._budget.within(
            lambda: open_host_tools(
                self._request.calls,
                self._request.question,
                limits=parts.limits,
                rates=parts.rates,
                monotonic=parts.monotonic,
                mask=parts.mask,
                max_answer_bytes=parts.max_answer_bytes,
                about=(self._request.alert.alarm, self._request.alert.entity),
            )
        )
        self._check_sources()
        return self._tools

    async def _ask(self, messages: Sequence[ChatMessage]) -> Completion:
        budget = self._budget
        max_tokens = budget.reply_tokens(messages)
        if max_tokens <= 0:
            raise NoVerdict(
                FallbackFailure.TOKENS,
                f"{budget.tokens} tokens are used, and a prompt of about"
                f" {budget.estimate(messages)} with its reply does not fit into the"
                f" {budget.window} that may follow",
            )
        began = self._parts.monotonic()
        limit_s = min(self._limits.request_timeout_s, budget.left_s)
        try:
            completion = await self._budget.within(
                lambda: self._parts.model.complete(
                    messages, max_tokens=max_tokens, timeout_s=limit_s
                ),
                limit_s,
                NoVerdict(FallbackFailure.MODEL, f"the model's endpoint hung for {limit_s:.3g} s"),
            )
        except ModelFailed as error:
            cut_short = limit_s < self._limits.request_timeout_s
            if cut_short and error.failure in {ModelFailure.TIMEOUT, ModelFailure.BUSY}:
                raise self._budget.time_over() from error
            raise NoVerdict(FallbackFailure.MODEL, str(error)) from error
        budget.charge(messages, completion)
        self.turns.append(
            Turn(
                thought="",
                code="",
                prompt_tokens=max(0, completion.prompt_tokens),
                completion_tokens=max(0, completion.completion_tokens),
                model_ms=(self._parts.monotonic() - began) * 1000,
            )
        )
        return completion

    def _take_no_code(self, reply: Reply, observer: Observer) -> Observation:
        self._no_code += 1
        told = observer.of_reply(reply, turns_left=self._budget.turns_left)
        self._note(observation=told.text)
        if self._no_code >= NO_CODE_IN_A_ROW:
            raise NoVerdict(
                FallbackFailure.NO_CODE,
                f"{self._no_code} replies in a row held nothing to run ({reply.problem})",
            )
        return told

    async def _take_code(
        self, code: str, tools: HostTools, observer: Observer
    ) -> Verdict | Observation:
        times = self._repeats.code(code)
        if times >= self._limits.repeats:
            raise NoVerdict(FallbackFailure.REPEATED, f"the same code came {times} times")
        try:
            run = await self._run(code, tools)
        finally:
            records = tools.take_records()
            self._note(calls=records)
        submissions = self._submissions
        verdict, down = submissions.taken, self._down()
        if verdict is not None:
            if verdict.value is Truth.NO_DATA and down:
                raise outage(down)
            return verdict
        if submissions.outage and down:
            raise outage(down)
        function, called = self._repeats.calls(records)
        told = observer.of_run(
            run,
            records,
            repeated_code=times > 1,
            repeated_call=function if called > 1 else "",
            refused=submissions.refused,
            kept=submissions.known_turn == len(self.turns),
            turns_left=self._budget.turns_left,
        )
        self._note(observation=told.text)
        if called >= self._limits.repeats:
            raise NoVerdict(
                FallbackFailure.REPEATED,
                f"{function} was called with the same result in {called} runs",
            )
        self._check_sources()
        return told

    async def _run(self, code: str, tools: HostTools) -> SandboxRun:
        began = self._parts.monotonic()
        failed = True
        self._submissions.begin_run()
        try:
            session = self._session or await self._open_session(tools)
            limit_s = min(self._limits.run_s, self._budget.left_s)
            run = await self._budget.within(
                lambda: session.run(without_imports(code), timeout_s=limit_s),
                limit_s,
                NoVerdict(FallbackFailure.SANDBOX, f"the sandbox hung for {limit_s:.3g} s"),
            )
            failed = run.error is not None
        except SandboxFailed as error:
            raise NoVerdict(FallbackFailure.SANDBOX, str(error)) from error
        finally:
            self._submissions.end_run(failed=failed, turn=len(self.turns))
            self._note(sandbox_ms=(self._parts.monotonic() - began) * 1000)
        return run

    async def _open_session(self, tools: HostTools) -> SandboxSession:
        """When there is something to run: no worker is held while the model makes its first
        reply, which is mostly its last."""
        session = self._parts.sandbox.session(
            prelude=self._parts.prelude,
            stubs=tools.stubs,
            functions={**tools.functions, SUBMIT: self._submissions.submit},
            inputs=self._parts.prompt.inputs(self._request),
        )
        self._session = await self._budget.within(lambda: self._stack.enter_async_context(session))
        return self._session

    def _conclude(self, end: NoVerdict) -> Ending:
        """With what is known, when a limit of the attempt's own ended it. A source that is down
        outweighs the limit: it is why nothing came of the turns."""
        known, down = self._submissions.known, self._down()
        if end.failure in OWN_LIMITS:
            if known is not None and not (known.value is Truth.NO_DATA and down):
                turn = str(self._submissions.known_turn)
                taken = self._parts.prompt.phrase("ended_with_known", detail=end.detail, turn=turn)
                before = self.turns[-1].observation
                self._note(observation=f"{before}\n{taken}" if before else taken)
                return Ending(known)
            if down:
                end = outage(down, f"; {end.failure.value}: {end.detail}")
        detail = " ".join(self._parts.mask.clean(end.detail).split())
        return Ending(None, end.failure.value, detail[:DETAIL_CHARS])

    def _check_sources(self) -> None:
        """With every source down there is nothing to find out, and an outage must not become a
        storm of model calls."""
        declared, down = set(self._request.question.sources), self._down()
        if declared and declared <= down:
            raise outage(down)

    def _down(self) -> set[str]:
        tools = self._tools
        return {*tools.failed_sources, *tools.unreachable} if tools is not None else set()

    def _note(self, **fields: Any) -> None:
        """Of the latest turn."""
        self.turns[-1] = self.turns[-1]._replace(**fields)
