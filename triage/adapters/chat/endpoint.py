"""A model behind any endpoint that speaks the OpenAI API: retries, a breaker, a cap of its own."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from triage.adapters.chat.address import address
from triage.adapters.chat.answers import read_completion
from triage.adapters.chat.body import Bodies, size
from triage.adapters.chat.breaker import Breaker
from triage.adapters.chat.refusals import refused
from triage.adapters.chat.scrub import Scrub
from triage.adapters.chat.setback import Setback
from triage.adapters.chat.wire import Wire
from triage.errors import ModelFailed, ModelFailure
from triage.ports import ChatMessage, Completion

MAX_REPLY_BYTES = 1 << 20
ATTEMPTS = 3
BYTES_A_TOKEN = 16
ENVELOPE_BYTES = 32_768
"""What a reply of so many tokens can take as JSON. An endpoint that heeds no limit is hung up on
there, which ends its spending as well."""
FIRST_PAUSE_S = 0.25  # doubled at each further attempt


def _now() -> datetime:
    return datetime.now(UTC)


class ChatEndpoint:
    """`model` as the endpoint at `url` names it; `url` is the base of the API, to which
    /chat/completions is put. `api_key` goes as a bearer token; user information in the URL goes
    as basic authentication instead. `ca_file` is a PEM bundle to trust instead of the system's.
    With a `reply_schema` replies are JSON of that JSON Schema, where the endpoint offers that.
    Redirects are not followed, and proxies named in the environment are not used.

    `request_timeout_s` bounds one request, besides what a call has left. At most `max_requests`
    are under way at once. After `breaker_failures` calls that failed in a row the endpoint is left
    alone for `breaker_reset_s`. What fails: no connection, no answer in time (however short that
    was), an answer that makes no sense, 5xx, 429, redirects, and those 4xx that only a person can
    mend. Other 4xx are one request's own fault; a cap that is reached is nobody's.

    `monotonic` gives seconds, `now` aware UTC, `jitter` a number in [0, 1).
    Raises ConfigError for a URL or key that cannot be used.
    """

    def __init__(
        self,
        model: str,
        url: str,
        *,
        api_key: str = "",
        ca_file: str = "",
        temperature: float = 0.0,
        reply_schema: Mapping[str, Any] | None = None,
        request_timeout_s: float = math.inf,
        max_requests: int = 4,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        breaker_failures: int = 5,
        breaker_reset_s: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        where = address(url, api_key)
        self._model = model
        self._where = where.shown
        self._scrub = Scrub(where.secrets)
        self._wire = Wire(where, ca_file=ca_file, max_kept=max_requests)
        self._bodies = Bodies(model, temperature, reply_schema)
        self._breaker = Breaker(
            failures=breaker_failures, reset_s=breaker_reset_s, monotonic=monotonic
        )
        self._max_requests = max_requests
        self._max_reply_bytes = max_reply_bytes
        self._slots = asyncio.Semaphore(max_requests)
        self._request_timeout_s = request_timeout_s
        self._monotonic = monotonic
        self._now = now
        self._sleep = sleep
        self._jitter = jitter

    def __repr__(self) -> str:
        return f"ChatEndpoint({self._model!r} at {self._where})"

    @property
    def name(self) -> str:
        return self._model

    @property
    def trouble(self) -> str:
        """Empty again as soon as a call may probe the endpoint, so that one does."""
        refusal = self._breaker.refusal
        return f"the model's endpoint {self._where} {refusal}" if refusal else ""

    async def open(self) -> None:
        """Finds out early what `complete` would find out: raises ConfigError for a `ca_file` that
        cannot be used. Connects to nothing."""
        self._wire.open()

    async def complete(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_s: float
    ) -> Completion:
        """Asks again, up to ATTEMPTS times in all, where that is safe and the time left allows it.
        Raises ModelFailed. Cancelled, the endpoint may have done the work or not."""
        deadline = self._monotonic() + timeout_s
        self._heed_breaker()
        async with self._slot(timeout_s):
            self._heed_breaker()  # it may have opened while this call waited
            with self._breaker.call():
                outcome = await self._ask(messages, max_tokens, deadline)
                if isinstance(outcome, Completion):
                    self._breaker.succeeded()
                    return outcome
                failed = self._failed(outcome)
                if outcome.counts:
                    self._breaker.failed(failed.detail)
                elif outcome.failure is ModelFailure.REJECTED:
                    self._breaker.succeeded()
                raise failed

    async def close(self) -> None:
        """Requests under way end with ModelFailed, and so does any that comes later: a call that
        pauses before it asks again ends when its pause does."""
        await self._wire.close()

    async def _ask(
        self, messages: Sequence[ChatMessage], max_tokens: int, deadline: float
    ) -> Completion | Setback:
        prompt_bytes = size(messages)
        body = self._bodies.encode(messages, max_tokens)
        max_bytes = min(self._max_reply_bytes, ENVELOPE_BYTES + BYTES_A_TOKEN * max_tokens)
        outcome: Completion | Setback = Setback(
            failure=ModelFailure.TIMEOUT, problem="was not asked: no time was left", counts=False
        )
        attempt = 1
        while (left := deadline - self._monotonic()) > 0:
            outcome = await self._once(
                body, prompt_bytes, min(left, self._request_timeout_s), max_bytes
            )
            if isinstance(outcome, Completion):
                break
            if outcome.unsupported:
                self._bodies.do_without(outcome.unsupported)
                adapted = self._bodies.encode(messages, max_tokens)
                if adapted != body:
                    body = adapted
                    continue
            pause_s = self._pause_s(outcome, attempt)
            if not outcome.repeat or attempt == ATTEMPTS or pause_s >= deadline - self._monotonic():
                break
            attempt += 1
            await self._sleep(pause_s)
        return outcome

    async def _once(
        self, body: bytes, prompt_bytes: int, timeout_s: float, max_bytes: int
    ) -> Completion | Setback:
        reply = await self._wire.post(body, timeout_s, max_bytes)
        if isinstance(reply, Setback):
            return reply
        if reply.succeeded:
            return read_completion(reply.body, prompt_bytes=prompt_bytes)
        return refused(reply, self._now)

    def _pause_s(self, setback: Setback, attempt: int) -> float:
        """Jittered, so that those who were turned away together do not come back together."""
        step_s = FIRST_PAUSE_S * (1 << (attempt - 1))
        if setback.wait_s is not None:
            return setback.wait_s + step_s * self._jitter()
        return step_s * (0.5 + self._jitter() / 2)

    @asynccontextmanager
    async def _slot(self, timeout_s: float) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise ModelFailed(
                ModelFailure.BUSY,
                f"the {self._max_requests} requests to {self._where} that may be under way at once"
                f" were, for {timeout_s:.3g} s; raise max_requests if the endpoint can do more",
            ) from None
        try:
            yield
        finally:
            self._slots.release()

    def _heed_breaker(self) -> None:
        if trouble := self.trouble:
            raise ModelFailed(ModelFailure.BREAKER_OPEN, trouble)

    def _failed(self, setback: Setback) -> ModelFailed:
        said = self._scrub.line(setback.said)
        parts = (
            setback.problem,
            f": {said}" if said else "",
            "; " * bool(setback.fix),
            setback.fix,
        )
        return ModelFailed(setback.failure, f"{self._where} {''.join(parts)}")
