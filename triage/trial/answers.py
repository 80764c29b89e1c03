"""Where a trial's answers come from: live sources, a labelled case, a decision's evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.evaluation.answers import Fetcher
from triage.evaluation.guard import Answered, Reply, unknown_source
from triage.model.case import LabelledCase
from triage.model.query import Answer, Query, decode_answer, query_digest
from triage.sop.procedure import SiteProfile
from triage.trial.model import Answers, Setting

_TOOL_FAILURES = frozenset(failure.value for failure in ToolFailure)
_SOURCE_FAILURES = frozenset(failure.value for failure in SourceFailure)


def setting_of(case: LabelledCase, profile: SiteProfile) -> Setting:
    """`profile` is of the case's warehouse; the case's params override the site's."""
    return Setting(
        site=profile.site,
        params={**profile.params, **case.params},
        timestamp=case.timestamp,
        entity=case.entity,
        labels=case.labels,
        parents=case.parents,
    )


class LiveAnswers:
    """Asks the sources as a tool's queries are asked: bounded, with one retry, and counted.

    `timeout_s` is of one query; whoever asks may give less. Holds nothing of what was asked.
    """

    def __init__(
        self,
        sources: Mapping[str, Fetcher],
        *,
        monotonic: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self._sources = sources
        self._monotonic = monotonic
        self._timeout_s = timeout_s

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        source = self._sources.get(query.source)
        if source is None:
            problem = f"no source is configured under the name {query.source!r}"
            return _answer(unknown_source(query, problem))
        until = self._monotonic() + min(timeout_s, self._timeout_s)
        return _answer(await source.fetch(query, until))


class CaseAnswers:
    """The recorded answers of a labelled case. A failure that was recorded is raised again.

    A query that was not recorded goes to `beyond`, and without that fails as `unrecorded`.
    """

    def __init__(self, case: LabelledCase, beyond: Answers | None = None) -> None:
        self._case_id = case.case_id
        self._recorded = {recorded.digest: recorded for recorded in case.answers}
        self._beyond = beyond

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        recorded = self._recorded.get(query_digest(query))
        if recorded is None:
            if self._beyond is not None:
                return await self._beyond.answer(query, timeout_s=timeout_s)
            raise _unrecorded(query, f"case {self._case_id} holds no answer to {_shown(query)}")
        if recorded.failure:
            detail = f"source {query.source!r} failed when case {self._case_id} was recorded"
            raise failure_of(recorded.failure, detail)
        return _decoded(query, recorded.body)


class DecisionAnswers:
    """What a decision's tools were told, by the SHA-256 of the query: `bodies` are encoded answers,
    `failures` the reason and detail of queries that had none. What is in neither fails as
    `unrecorded`: a shadow must not ask a live source."""

    def __init__(
        self,
        bodies: Mapping[str, bytes],
        failures: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._bodies = bodies
        self._failures = failures or {}

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:  # noqa: ARG002 - nothing is waited for
        digest = query_digest(query)
        body = self._bodies.get(digest)
        if body is not None:
            return _decoded(query, body)
        if digest in self._failures:
            raise failure_of(*self._failures[digest])
        raise _unrecorded(query, f"the decision holds no answer to {_shown(query)}")


class Remembering:
    """Asks `answers` for each query once, as long as it lives. A rejected query is remembered too;
    a source that failed is asked again. Nothing is ever forgotten: make one for one piece of
    work."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._known: dict[Query, Answer] = {}
        self._rejected: dict[Query, ToolFailed] = {}

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        if query in self._known:
            return self._known[query]
        if query in self._rejected:
            raise ToolFailed(self._rejected[query].failure, self._rejected[query].detail)
        try:
            answer = await self._answers.answer(query, timeout_s=timeout_s)
        except ToolFailed as rejected:
            self._rejected[query] = rejected
            raise
        self._known[query] = answer
        return answer


def failure_of(reason: str, detail: str) -> ToolFailed | SourceFailed:
    """A failure from its stored reason; one of a reason that this version does not know is
    `unrecorded`."""
    if reason in _TOOL_FAILURES:
        return ToolFailed(ToolFailure(reason), detail)
    if reason in _SOURCE_FAILURES:
        return SourceFailed(SourceFailure(reason), detail)
    return SourceFailed(SourceFailure.UNRECORDED, f"it failed as {reason!r}: {detail}")


def _answer(reply: Reply) -> Answer:
    if isinstance(reply, Answered):
        return reply.data
    failure = reply.asked.failure
    assert failure is not None
    raise failure_of(failure.reason, failure.detail)


def _decoded(query: Query, body: bytes) -> Answer:
    try:
        return decode_answer(body)
    except (ValueError, TypeError) as error:
        raise _unrecorded(
            query, f"the recorded answer to {_shown(query)} cannot be read"
        ) from error


def _unrecorded(query: Query, problem: str) -> SourceFailed:
    return SourceFailed(SourceFailure.UNRECORDED, f"{query.source}: {problem}")


def _shown(query: Query) -> str:
    return f"query {query_digest(query)[:12]}"
