"""Every exchange with the model, and the room that its window leaves for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triage.errors import ModelFailed, ModelFailure
from triage.fallback.budget import GRACE_S
from triage.fallback.tokens import TokenEstimate
from triage.maker.model import CaseTrace, Said
from triage.ports import ChatMessage, ChatModel, Completion

COLLECT, MAKE, REFLECT, REPAIR = "collect", "make", "reflect", "repair"
REFLECT_TOKENS = 1_000
"""Of a diagnosis: a few sentences, and what a reasoning model thinks before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """`context_tokens` is the model's window, which a prompt and its reply share. A request with
    its retries takes `request_timeout_s` at most."""

    context_tokens: int = 32_000
    reply_tokens: int = 8_000
    request_timeout_s: float = 120.0


class Transcript:
    """Of one making. `said` is what was said so far, as sent and received; `monotonic` gives
    seconds."""

    def __init__(
        self, model: ChatModel, limits: ModelLimits, *, monotonic: Callable[[], float]
    ) -> None:
        self.said: list[Said] = []
        self._model = model
        self._limits = limits
        self._monotonic = monotonic
        self._estimate = TokenEstimate()

    @property
    def tokens(self) -> int:
        return sum(one.prompt_tokens + one.completion_tokens for one in self.said)

    def fits(self, messages: Sequence[ChatMessage]) -> bool:
        """Whether a reply of full length fits behind them."""
        wanted = self._estimate.of(messages) + self._limits.reply_tokens
        return wanted <= self._limits.context_tokens

    async def ask(self, step: str, number: int, messages: Sequence[ChatMessage]) -> Completion:
        """`number` is the round's. Raises ModelFailed, and then nothing is added. May be
        cancelled."""
        limits = self._limits
        most = min(REFLECT_TOKENS, limits.reply_tokens) if step == REFLECT else limits.reply_tokens
        began = self._monotonic()
        timer = asyncio.timeout(limits.request_timeout_s + GRACE_S)
        try:
            async with timer:
                completion = await self._model.complete(
                    messages, max_tokens=most, timeout_s=limits.request_timeout_s
                )
        except TimeoutError:
            if not timer.expired():
                raise
            raise ModelFailed(
                ModelFailure.TIMEOUT,
                f"the model's endpoint hung for {limits.request_timeout_s:.3g} s",
            ) from None
        counted = max(0, completion.prompt_tokens)
        self._estimate.learn(messages, counted)
        self.said.append(
            Said(
                step=step,
                round=number,
                messages=tuple((message.role, message.content) for message in messages),
                reply=completion.text,
                prompt_tokens=counted,
                completion_tokens=max(0, completion.completion_tokens),
                elapsed_ms=(self._monotonic() - began) * 1000,
            )
        )
        return completion

    def add_collected(self, traces: Sequence[CaseTrace]) -> None:
        """What the agent said in them. Its prompts are not kept: they are the fallback's."""
        self.said += [
            Said(
                step=COLLECT,
                round=0,
                messages=(),
                reply=f"{turn.thought}\n```python\n{turn.code}\n```" if turn.code else turn.thought,
                prompt_tokens=turn.prompt_tokens,
                completion_tokens=turn.completion_tokens,
                elapsed_ms=turn.model_ms,
            )
            for trace in traces
            for turn in trace.turns
        ]
