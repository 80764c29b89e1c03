"""The answers of one setting: each query asked once, whatever comes of it a value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.fallback.host import one_line
from triage.fallback.masking import Mask
from triage.model.query import Answer, Query, encode_answer
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Told

Failed = ToolFailed | SourceFailed


class Reply(NamedTuple):
    """`answer` means nothing when it `failed`."""

    told: Told
    answer: Answer = None
    failed: Failed | None = None


class Asking:
    """Of one setting of one tool. `close` must be awaited, whatever ended it.

    An error of `answers` that is neither SourceFailed nor ToolFailed is no fault of the tool's: it
    is raised by whoever asks.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        limits: TrialLimits,
        mask: Mask,
        monotonic: Callable[[], float],
    ) -> None:
        self._answers = answers
        self._limits = limits
        self._mask = mask
        self._monotonic = monotonic
        self._tasks: dict[Query, asyncio.Task[Reply]] = {}
        self._left_s = limits.answers_s

    @property
    def told(self) -> tuple[Told, ...]:
        """Of what was answered or refused, each query once, in the order asked."""
        return tuple(
            task.result().told
            for task in self._tasks.values()
            if task.done() and not task.cancelled() and task.exception() is None
        )

    async def ask(self, queries: Sequence[Query]) -> list[Reply]:
        """All at once, one reply a query. May be cancelled."""
        began = self._monotonic()
        tasks = [self._want(query) for query in queries]
        if tasks:
            await asyncio.wait(tasks)
        self._left_s -= self._monotonic() - began
        return [task.result() for task in tasks]

    def _want(self, query: Query) -> asyncio.Task[Reply]:
        task = self._tasks.get(query)
        if task is None:
            task = self._tasks[query] = asyncio.create_task(
                self._reply(query, max(self._left_s, 0.0)), name=query.source
            )
        return task

    async def _reply(self, query: Query, left_s: float) -> Reply:
        timer = asyncio.timeout(left_s)
        try:
            async with timer:
                answer = await self._answers.answer(query, timeout_s=left_s)
            body = self._encoded(query, answer)
        except (ToolFailed, SourceFailed) as failed:
            return self._failed(query, failed)
        except TimeoutError:
            if not timer.expired():
                raise
            detail = f"no answer within {self._limits.answers_s:g} s for all that was asked"
            return self._failed(query, SourceFailed(SourceFailure.DEADLINE, detail))
        return Reply(Told(query, body), answer)

    def _encoded(self, query: Query, answer: Answer) -> bytes:
        try:
            body = encode_answer(answer)
        except TypeError as error:
            raise SourceFailed(
                SourceFailure.PROTOCOL,
                f"source {query.source!r} gave an answer that cannot be recorded: {error}",
            ) from error
        if len(body) > self._limits.answer_bytes:
            raise ToolFailed(
                ToolFailure.ANSWER_TOO_LARGE,
                f"the answer of source {query.source!r} is {len(body)} bytes, the limit is"
                f" {self._limits.answer_bytes}",
            )
        return body

    def _failed(self, query: Query, failed: Failed) -> Reply:
        detail = one_line(self._mask, failed.detail)
        return Reply(Told(query, b"", failed.reason, detail), None, failed)

    async def close(self) -> None:
        """Ends what is still being asked."""
        running = [task for task in self._tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for task in self._tasks.values():
            if not task.cancelled():
                task.exception()  # whoever asked was told of it


def first_failure(replies: Sequence[Reply]) -> Failed | None:
    """What a tool fails for whose queries were answered so. A source that is down outweighs a
    rejected query, as it does for an alert; of equals the first asked counts."""
    failures = [reply.failed for reply in replies if reply.failed is not None]
    down = [failed for failed in failures if isinstance(failed, SourceFailed)]
    return next(iter([*down, *failures]), None)
