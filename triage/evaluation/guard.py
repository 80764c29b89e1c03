"""One source behind its bounds: concurrency, one retry, a breaker, metrics, evidence.

Nothing here raises for what a source did: a task that raises would cancel its siblings, so every
end of a call is an `Answered` or an `Unanswered`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.model.canonical import sha256_hex
from triage.model.decision import Asked, Failure
from triage.model.query import Query, encode_answer
from triage.ports import Shelf, Source
from triage.telemetry.edge_metrics import SourceCell


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLimits:
    """`timeout_s` bounds one call, its retry included. After `breaker_failures` calls in a row
    the source is left alone for `breaker_reset_s`, then one call probes it."""

    timeout_s: float = 2.0
    max_concurrency: int = 32
    max_answer_bytes: int = 1 << 20
    breaker_failures: int = 5
    breaker_reset_s: float = 5.0


class Answered(NamedTuple):
    asked: Asked
    data: Any
    body: bytes


class Unanswered(NamedTuple):
    """`tool_at_fault` tells a rejected query from a source that is down."""

    asked: Asked
    tool_at_fault: bool


Reply = Answered | Unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class OverMcp:
    """A source as agents reach it: `guarded` answers Calls of the tools on `shelf`, under bounds
    of its own, so that agents cannot take the slots of tools."""

    guarded: GuardedSource
    shelf: Shelf


class GuardedSource:
    """`monotonic` gives seconds; it is the clock of deadlines and of the breaker. `over_mcp` is
    None where no agent is configured."""

    def __init__(
        self,
        source: Source,
        limits: SourceLimits,
        metrics: SourceCell,
        monotonic: Callable[[], float],
    ) -> None:
        self.source = source
        self.limits = limits
        self.over_mcp: OverMcp | None = None
        self._metrics = metrics
        self._monotonic = monotonic
        # Not a Semaphore: its fast path costs as much as everything else in a call here.
        self._free = limits.max_concurrency
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failures_in_a_row = 0
        self._open_until = 0.0
        self._probing = False

    @property
    def breaker_is_open(self) -> bool:
        return self._failures_in_a_row >= self.limits.breaker_failures

    def fetch(self, query: Query, deadline: float) -> Coroutine[Any, Any, Reply]:
        """Ask once, once more if the source failed and time is left. `deadline` is monotonic.

        Cancellation is passed on; whoever cancels says what the query ended as. Returns the
        coroutine instead of being one: a wrapper around each call would cost a tenth of it.
        """
        if self.breaker_is_open:
            return self._fetch_while_open(query, deadline)
        return self._fetch(query, deadline)

    async def _fetch_while_open(self, query: Query, deadline: float) -> Reply:
        """Refuse, unless the time has come for one call to probe the source."""
        if self.breaker_is_open:
            if self._probing or self._monotonic() < self._open_until:
                return self._refused(query)
            self._probing = True
            try:
                return await self._fetch(query, deadline)
            finally:
                self._probing = False
        return await self._fetch(query, deadline)

    async def _fetch(self, query: Query, deadline: float) -> Reply:
        began = self._monotonic()
        budget_s = deadline - began
        if budget_s <= 0:
            return out_of_time(query)
        budget_s = min(budget_s, self.limits.timeout_s)
        until = began + budget_s
        if self._free > 0:
            self._free -= 1
        elif await self._wait_for_slot(budget_s):
            budget_s = until - self._monotonic()
        else:
            return self._ended(
                query, SourceFailure.TIMEOUT, "every slot of the source was busy", began
            )
        try:
            try:
                answer = await self.source.ask(query, timeout_s=budget_s)
            except SourceFailed as first:
                left = until - self._monotonic()
                if left <= 0 or first.failure is SourceFailure.UNRECORDED:
                    raise
                self._metrics.retried()
                answer = await self.source.ask(query, timeout_s=left)
            try:
                body = encode_answer(answer)
            except TypeError as error:
                raise SourceFailed(
                    SourceFailure.PROTOCOL,
                    f"source {self.source.name!r} gave an answer that cannot be recorded: {error}",
                ) from error
        except SourceFailed as error:
            return self._ended(query, error.failure, error.detail, began)
        except ToolFailed as error:
            return self._rejected(query, error.failure, error.detail, began)
        finally:
            self._give_slot()
        if len(body) > self.limits.max_answer_bytes:
            return self._rejected(
                query,
                ToolFailure.ANSWER_TOO_LARGE,
                f"the answer of source {self.source.name!r} is {len(body)} bytes, the limit is"
                f" {self.limits.max_answer_bytes}",
                began,
            )
        elapsed = self._monotonic() - began
        if self._failures_in_a_row:
            self._settled()
        self._metrics.ok(elapsed, len(body))
        asked = Asked(
            query=query,
            answer_sha256=sha256_hex(body),
            answer_bytes=len(body),
            elapsed_ms=elapsed * 1000,
        )
        return Answered(asked, answer, body)

    async def _wait_for_slot(self, timeout_s: float) -> bool:
        """Whether a slot was handed over in time. Cancelled in the very moment of the hand-over,
        it passes the slot on."""
        handed = asyncio.get_running_loop().create_future()
        self._waiting.append(handed)
        taken = False
        try:
            async with asyncio.timeout(timeout_s):
                await handed
            taken = True
        except TimeoutError:
            return False
        finally:
            if not taken and handed.done() and not handed.cancelled():
                self._give_slot()
        return True

    def _give_slot(self) -> None:
        while self._waiting:
            handed = self._waiting.popleft()
            if not handed.done():
                handed.set_result(None)
                return
        self._free += 1

    def _settled(self) -> None:
        was_open = self.breaker_is_open
        self._failures_in_a_row = 0
        if was_open:
            self._metrics.breaker(is_open=False)

    def _refused(self, query: Query) -> Unanswered:
        self._metrics.failed(SourceFailure.BREAKER_OPEN.value, 0.0)
        return _unanswered(
            query,
            SourceFailure.BREAKER_OPEN,
            f"source {self.source.name!r} failed {self._failures_in_a_row} times in a row and is"
            " left alone for a moment",
            0,
        )

    def _rejected(
        self, query: Query, failure: ToolFailure, detail: str, began: float
    ) -> Unanswered:
        # The source answered, so it is healthy whatever it thinks of the query.
        if self._failures_in_a_row:
            self._settled()
        elapsed = self._monotonic() - began
        self._metrics.failed(failure.value, elapsed)
        asked = Asked(
            query=query,
            elapsed_ms=elapsed * 1000,
            failure=Failure(reason=failure.value, detail=detail),
        )
        return Unanswered(asked, tool_at_fault=True)

    def _ended(self, query: Query, failure: SourceFailure, detail: str, began: float) -> Unanswered:
        elapsed = self._monotonic() - began
        self._metrics.failed(failure.value, elapsed)
        if failure is not SourceFailure.UNRECORDED:
            self._failures_in_a_row += 1
            if self.breaker_is_open:
                self._open_until = self._monotonic() + self.limits.breaker_reset_s
                self._metrics.breaker(is_open=True)
        return _unanswered(query, failure, detail, elapsed)


def out_of_time(query: Query) -> Unanswered:
    """What a query ended as when the attempt's deadline cut it off."""
    return _unanswered(query, SourceFailure.DEADLINE, "cut off by the attempt's deadline", 0)


def unknown_source(query: Query, detail: str) -> Unanswered:
    """A query for a source that nobody configured."""
    failure = Failure(reason=ToolFailure.UNDECLARED_SOURCE.value, detail=detail)
    return Unanswered(Asked(query=query, failure=failure), tool_at_fault=True)


def _unanswered(query: Query, failure: SourceFailure, detail: str, elapsed: float) -> Unanswered:
    asked = Asked(
        query=query,
        elapsed_ms=elapsed * 1000,
        failure=Failure(reason=failure.value, detail=detail),
    )
    return Unanswered(asked, tool_at_fault=False)
