"""What one attempt may still use up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TypeVar

from triage.errors import FallbackFailure
from triage.fallback.ending import NoVerdict
from triage.fallback.limits import AgentLimits
from triage.fallback.tokens import TokenEstimate
from triage.ports import ChatMessage, Completion

LEAST_REPLY_TOKENS = 128  # a reply that is allowed less cannot hold an answer

GRACE_S = 1.0
"""How much longer than it was told a model or a sandbox may take before it counts as hanging."""

T = TypeVar("T")


class Budget:
    """Starts with the attempt. `monotonic` gives seconds; the time is the shorter of the limits'
    and `timeout_s`.

    Tokens of a request are estimated before it is made; what is charged is the endpoint's own
    count.
    """

    def __init__(
        self, limits: AgentLimits, *, timeout_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._began = monotonic()
        self._ends = self._began + min(limits.timeout_s, timeout_s)
        self._estimate = TokenEstimate()
        self.turns = 0
        self.tokens = 0

    @property
    def elapsed_s(self) -> float:
        return self._monotonic() - self._began

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends - self._monotonic())

    @property
    def turns_left(self) -> int:
        return self._limits.turns - self.turns

    @property
    def window(self) -> int:
        """Tokens that the next prompt and its reply may have together."""
        return max(0, min(self._limits.context_tokens, self._limits.tokens - self.tokens))

    async def within(
        self, start: Callable[[], Awaitable[T]], limit_s: float = inf, hung: NoVerdict | None = None
    ) -> T:
        """What `start` begins, in the time that is left. `hung` is raised when it does not end in
        `limit_s` although it should have by itself."""
        left_s = self.left_s
        if left_s <= 0:
            raise self.time_over()
        at_most_s = limit_s + GRACE_S
        # Whether it fired is asked of the timer: a clock beside it may read a little earlier.
        timer = asyncio.timeout(min(left_s, at_most_s))
        try:
            async with timer:
                return await start()
        except TimeoutError:
            if not timer.expired():
                raise
            raise (hung if hung is not None and at_most_s < left_s else self.time_over()) from None

    def time_over(self) -> NoVerdict:
        return NoVerdict(FallbackFailure.TIMEOUT, f"the time was over after {self.elapsed_s:.3g} s")

    def estimate(self, messages: Sequence[ChatMessage]) -> int:
        return self._estimate.of(messages)

    def has_room(self, messages: Sequence[ChatMessage]) -> bool:
        """Whether a reply of full length fits behind them."""
        return self.estimate(messages) + self._limits.reply_tokens <= self.window

    def reply_tokens(self, messages: Sequence[ChatMessage]) -> int:
        """The most that a reply to them may have; 0 when no useful one fits."""
        most = min(self._limits.reply_tokens, self.window - self.estimate(messages))
        return most if most >= min(LEAST_REPLY_TOKENS, self._limits.reply_tokens) else 0

    def charge(self, messages: Sequence[ChatMessage], completion: Completion) -> None:
        """A turn, as the endpoint counted it."""
        prompt_tokens = max(0, completion.prompt_tokens)
        self.turns += 1
        self.tokens += prompt_tokens + max(0, completion.completion_tokens)
        self._estimate.learn(messages, prompt_tokens)
