"""The loop: model, one block of code, sandbox, observation, and again, until there is a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triage.errors import FallbackFailure
from triage.fallback.attempt import Attempt, Parts
from triage.fallback.budget import Budget
from triage.fallback.ending import Ending
from triage.fallback.host import Rates
from triage.fallback.limits import AgentLimits
from triage.fallback.masking import Mask
from triage.fallback.prelude import prelude
from triage.fallback.prompt import Example, Prompt
from triage.model.question import Question
from triage.model.trace import VERDICT, Trace, Turn
from triage.ports import ChatModel, FallbackAnswer, FallbackRequest, Sandbox
from triage.telemetry.fallback_metrics import FallbackMetrics


class CodeAct:
    """Implements `ports.Fallback`. Many attempts may be under way at once; they share the model,
    the sandbox and the rates, each with bounds of its own.

    `examples` gives worked ones for a node. `max_answer_bytes` bounds one answer of a source.
    """

    def __init__(
        self,
        *,
        model: ChatModel,
        sandbox: Sandbox,
        prompt: Prompt,
        examples: Callable[[Question], Sequence[Example]],
        limits: AgentLimits,
        rates: Rates,
        mask: Mask,
        max_answer_bytes: int,
        metrics: FallbackMetrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._model = model
        self._sandbox = sandbox
        self._prompt = prompt
        self._examples = examples
        self._limits = limits
        self._rates = rates
        self._mask = mask
        self._max_answer_bytes = max_answer_bytes
        self._metrics = metrics
        self._monotonic = monotonic
        self._shared: Parts | None = None

    async def answer(self, request: FallbackRequest, *, timeout_s: float) -> FallbackAnswer:
        """Ends within `timeout_s`. A budget that runs out ends with what is known. Cancelled, it
        leaves nothing running and passes the cancellation on."""
        if trouble := self._sandbox.trouble:
            return self._declined(request, FallbackFailure.OFF, trouble)
        if trouble := self._model.trouble:
            return self._declined(request, FallbackFailure.MODEL, trouble)
        budget = Budget(self._limits, timeout_s=timeout_s, monotonic=self._monotonic)
        attempt = Attempt(request, self._parts(), budget)
        ending = await attempt.run()
        return self._record(request, ending, tuple(attempt.turns), budget)

    def turned_away(self, reason: str) -> None:
        self._metrics.counted(reason=reason, result=FallbackFailure.SATURATED.value)

    def _parts(self) -> Parts:
        """Made at the first attempt: constructors read no files."""
        if self._shared is None:
            self._shared = Parts(
                model=self._model,
                sandbox=self._sandbox,
                prompt=self._prompt,
                examples=self._examples,
                limits=self._limits,
                rates=self._rates,
                mask=self._mask,
                max_answer_bytes=self._max_answer_bytes,
                prelude=prelude(),
                monotonic=self._monotonic,
            )
        return self._shared

    def _declined(
        self, request: FallbackRequest, failure: FallbackFailure, detail: str
    ) -> FallbackAnswer:
        self._metrics.counted(reason=request.reason, result=failure.value)
        return FallbackAnswer(verdict=None, reason=failure.value, detail=detail)

    def _record(
        self, request: FallbackRequest, ending: Ending, turns: tuple[Turn, ...], budget: Budget
    ) -> FallbackAnswer:
        verdict = ending.verdict
        self._metrics.ended(
            reason=request.reason,
            result=verdict.value.word if verdict is not None else ending.reason,
            turns=len(turns),
            prompt_tokens=sum(turn.prompt_tokens for turn in turns),
            completion_tokens=sum(turn.completion_tokens for turn in turns),
            seconds=budget.elapsed_s,
        )
        trace = Trace(
            model=self._model.name,
            prompt_version=self._prompt.version,
            prompt_sha256=self._prompt.sha256,
            reason=request.reason,
            ended=VERDICT if verdict is not None else ending.reason,
            turns=turns,
            elapsed_ms=budget.elapsed_s * 1000,
        )
        return FallbackAnswer(
            verdict=verdict, reason=ending.reason, detail=ending.detail, trace=trace
        )
