"""The host's side of one session of the sandbox: hands settings over, and takes what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from triage.errors import SourceFailed, ToolFailed, ToolFailure
from triage.evaluation.judge import (
    MAX_PARAMS,
    MAX_QUERIES,
    MAX_QUERY_TEXT,
    check_count,
    check_query,
    checked,
)
from triage.fallback.host import one_line
from triage.fallback.masking import Mask
from triage.model.query import Query
from triage.model.verdict import Verdict
from triage.model.verdict_bounds import MAX_CLAUSES, MAX_TEXT
from triage.ports import SandboxError
from triage.trial import outcome
from triage.trial.asking import Asking, Failed, Reply, first_failure
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate, Ease, Setting, Told, Tried
from triage.trial.source import Source
from triage.trial.spelling import (
    Unreadable,
    answer_document,
    query_of,
    setting_document,
    verdict_of,
)

SPOILING = frozenset({"limit", "crash"})
"""Kinds of error after which a session of the sandbox is of no use."""

_DISAGREE = "`evaluate` and `dynamic` disagree"
_FUNCTION = "function"

Document = dict[str, Any]


class Shared(NamedTuple):
    """What all sessions of one call of `run` share."""

    candidate: Candidate
    source: Source
    limits: TrialLimits
    mask: Mask
    monotonic: Callable[[], float]
    ease: Ease
    """Awaited before each step of the host's, on nobody's time."""


class _Current:
    """The setting that is being tried. `failed` is the first thing that went wrong: whatever the
    tool makes of it, it counts. `left` are answers that did not fit into one reply."""

    def __init__(self, setting: Setting, answers: Answers, shared: Shared) -> None:
        self.setting = setting
        self.asking = Asking(
            answers, limits=shared.limits, mask=shared.mask, monotonic=shared.monotonic
        )
        self.failed: Failed | None = None
        self.asks = 0
        self.used_s = 0.0
        self.left: list[Reply] = []

    def first(self, failed: Failed | None) -> Failed | None:
        """`failed`, unless something went wrong before."""
        self.failed = self.failed or failed
        return self.failed


class Exchange:
    """`tried` are the settings that are over, in order, and `strikes` how many of them a limit
    ended. `fault` is an error of the answers' that is no failure, for the caller to raise;
    `broken` is what every setting comes to, because the file does not load.
    """

    def __init__(self, shared: Shared, settings: Sequence[tuple[Setting, Answers]]) -> None:
        self.tried: list[Tried] = []
        self.strikes = 0
        self.fault: Exception | None = None
        self.broken: Tried | None = None
        self._shared = shared
        self._settings = settings
        self._loaded = False
        self._current: _Current | None = None
        self._timer: asyncio.Timeout | None = None
        self._run_s = 0.0
        self._since: float | None = None
        self._waiting = 0
        self._has_served = False

    @property
    def is_over(self) -> bool:
        ended = self.fault is not None or self.broken is not None
        return ended or len(self.tried) == len(self._settings)

    # --- one run of the session

    def begin_run(self, timer: asyncio.Timeout) -> None:
        """`timer`, which has been entered, ends the run when a time is over."""
        self._timer = timer
        self._run_s = 0.0
        self._waiting = 0
        self._has_served = False
        self._start_clock()

    def end_run(self, error: SandboxError | None, *, overtime: bool) -> None:
        """`error` is what the run ended with; with `overtime` the timer ended it. A setting that a
        limit ended is left untried when the session served others before it: what those used up
        must not be held against it."""
        self._timer = None  # it is over
        self._stop_clock()
        if overtime:
            error = SandboxError("limit", self._too_long())
        if not self._loaded and self.broken is None and error is not None:
            self.broken = self._after(error, None)
            return
        current = self._current
        if current is None and (error is None or self.is_over):
            return
        error = error or SandboxError("crash", "the run ended before the tool did")
        if overtime or error.kind not in SPOILING or not self.tried:
            self.strikes += error.kind in SPOILING
            self.tried.append(self._after(error, current))

    async def close(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current.asking.close()

    def _after(self, error: SandboxError, current: _Current | None) -> Tried:
        mask = self._shared.mask
        told, used_ms = ((), 0.0) if current is None else _record(current)
        if error.kind in SPOILING:
            return outcome.stopped(error, mask, told, used_ms)
        if current is not None and current.failed is not None:
            return outcome.failed(current.failed, mask, told, used_ms)
        return outcome.raised(error, mask, told, used_ms)

    def _too_long(self) -> str:
        limits = self._shared.limits
        if self._current is None:
            return f"loading took longer than {limits.load_s:g} s"
        return f"the evaluation took longer than {limits.evaluate_s:g} s"

    def _start_clock(self) -> None:
        if self._timer is None:
            return
        self._since = self._shared.monotonic()
        limits, current = self._shared.limits, self._current
        left_s = limits.load_s if current is None else limits.evaluate_s - current.used_s
        self._timer.reschedule(asyncio.get_running_loop().time() + max(left_s, 0.0))

    def _stop_clock(self) -> None:
        if self._since is None:
            return
        used_s, self._since = self._shared.monotonic() - self._since, None
        self._run_s += used_s
        if self._current is not None:
            self._current.used_s += used_s
        if self._timer is not None:
            self._timer.reschedule(None)

    # --- the host function

    async def exchange(self, *, step: Any, said: Any) -> Any:
        """Raises nothing; cancelled, it passes that on. Called by our own code in the sandbox."""
        self._stop_clock()
        self._waiting += 1
        await self._shared.ease()
        try:
            reply = await self._reply(step, said)
        except Exception as fault:  # noqa: BLE001 - raised by whoever drives the run
            self.fault = fault
            reply = _refusal("the trial is over")
        self._waiting -= 1
        if not self._waiting:
            self._start_clock()
        return reply

    async def _reply(self, step: Any, said: Any) -> Any:
        current = self._current
        match step:
            case "load":
                reply: Any = self._load()
            case "loaded":
                reply = self._check(said)
            case "next":
                reply = await self._next(said)
            case _ if current is None or self.fault is not None:
                reply = _refusal("the trial is over")
            case "queries":
                reply = await self._answer(current, said)
            case "more":
                reply = self._some(current)
            case _:
                reply = await self._ask(current, said)
        return reply

    def _load(self) -> Document:
        source = self._shared.source
        return {
            "source": source.code,
            "names": list(source.names),
            "dynamic": self._shared.candidate.dynamic,
            "text": MAX_QUERY_TEXT,
            "items": MAX_PARAMS,
            "words": MAX_TEXT,
            "clauses": MAX_CLAUSES,
            "queries": MAX_QUERIES,
        }

    def _check(self, kinds: Any) -> Document:
        """`kinds` are the types of `queries` and `evaluate` once the file has loaded."""
        self._loaded = True
        queries, evaluate = kinds
        if evaluate != _FUNCTION:
            problem = ToolFailed(ToolFailure.INVALID_RESULT, "`evaluate` is not a function")
        elif queries != _FUNCTION and not self._shared.candidate.dynamic:
            problem = ToolFailed(ToolFailure.INVALID_QUERIES, "`queries` is not a function")
        else:
            return {}
        self.broken = outcome.failed(problem, self._shared.mask)
        return {}

    async def _next(self, said: Any) -> Document | None:
        """The setting after the one that `said` ends, None when the run is to end."""
        current = self._current
        if current is not None and self.fault is None:
            told, used_ms = _record(current)
            try:
                tried = outcome.judged(_verdict(current, said), told, used_ms)
            except (ToolFailed, SourceFailed) as failed:
                tried = outcome.failed(failed, self._shared.mask, told, used_ms)
            self.tried.append(tried)
        await self.close()
        if self.is_over or (self._has_served and self._run_s >= self._shared.limits.run_s):
            return None
        self._has_served = True
        setting, answers = self._settings[len(self.tried)]
        self._current = _Current(setting, answers, self._shared)
        return setting_document(setting, self._shared.candidate.reads_parents)

    async def _answer(self, current: _Current, said: Any) -> Document:
        try:
            queries = [self._query(one) for one in said]
        except ToolFailed as failed:
            current.failed = failed
        else:
            current.left = await current.asking.ask(queries)
            current.failed = first_failure(current.left)
        return self._some(current)

    def _some(self, current: _Current) -> Document:
        """As many of the answers as a host function may give at once."""
        if current.failed is not None:
            return self._refused(current.failed)
        size, taken = 0, 0
        for reply in current.left:
            size += len(reply.told.body)
            if taken and size > self._shared.limits.answer_bytes:
                break
            taken += 1
        some, current.left = current.left[:taken], current.left[taken:]
        return _answers(some, more=bool(current.left))

    async def _ask(self, current: _Current, said: Any) -> Document:
        """For a dynamic tool, which may ask several at once."""
        current.asks += 1
        replies: list[Reply] = []
        failed = current.failed
        if failed is None:
            try:
                check_count(current.asks)
                query = self._query(said)
            except ToolFailed as error:
                failed = current.first(error)
            else:
                replies = await current.asking.ask([query])
                failed = current.first(first_failure(replies))
        return _answers(replies) if failed is None else self._refused(failed)

    def _query(self, document: Any) -> Query:
        """Raises ToolFailed."""
        try:
            query = query_of(document)
        except Unreadable as error:
            raise ToolFailed(
                ToolFailure.INVALID_QUERIES, f"a query that cannot be read: {error}"
            ) from None
        check_query(query, self._shared.candidate.sources)
        return query

    def _refused(self, failed: Failed) -> Document:
        return _refusal(one_line(self._shared.mask, str(failed)))


def _answers(replies: Sequence[Reply], *, more: bool = False) -> Document:
    documents = [answer_document(reply.answer) for reply in replies]
    return {"failed": "", "answers": documents, "more": more}


def _refusal(why: str) -> Document:
    return {"failed": why, "answers": [], "more": False}


def _record(current: _Current) -> tuple[tuple[Told, ...], float]:
    """What was asked, and the time used in milliseconds."""
    return current.asking.told, current.used_s * 1000


def _verdict(current: _Current, said: Any) -> Verdict:
    """Raises ToolFailed and SourceFailed."""
    if current.failed is not None:
        raise current.failed
    match said:
        case {"queries": int(count)}:
            problem = f"queries() returned {count} queries, the limit is {MAX_QUERIES}"
            raise ToolFailed(ToolFailure.INVALID_QUERIES, problem)
        case {"queries": kind}:
            problem = f"queries() returned {kind}, not a list of queries"
            raise ToolFailed(ToolFailure.INVALID_QUERIES, problem)
        case {"coroutine": _}:
            raise ToolFailed(ToolFailure.INVALID_RESULT, _DISAGREE)
        case _:
            try:
                return checked(verdict_of(said))
            except Unreadable as error:
                problem = f"a verdict that cannot be read: {error}"
                raise ToolFailed(ToolFailure.INVALID_RESULT, problem) from None
