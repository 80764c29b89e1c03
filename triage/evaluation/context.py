"""What a tool sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from triage.model.alert import Alert
from triage.model.query import Answer, Query
from triage.model.site import ParamValue, Site
from triage.model.verdict import Verdict
from triage.sop.procedure import SiteProfile


class ToolContext:
    """Implements `tool_api.Context` for one node of one attempt.

    `parents` is closed while queries are collected: with prefetch they are asked before any
    parent has answered, so a tool that read them there would ask differently by mode.
    """

    __slots__ = ("_alert", "_answers", "_ask", "_parents", "_profile")

    def __init__(self, alert: Alert, profile: SiteProfile) -> None:
        self._alert = alert
        self._profile = profile
        self._parents: Mapping[str, Verdict] | None = None
        self._answers: Mapping[Query, Answer] = {}
        self._ask: Callable[[Query], Awaitable[Answer]] | None = None

    def open_for_judging(
        self,
        parents: Mapping[str, Verdict],
        answers: Mapping[Query, Answer],
        ask: Callable[[Query], Awaitable[Answer]] | None = None,
    ) -> None:
        self._parents = parents
        self._answers = answers
        self._ask = ask

    @property
    def params(self) -> Mapping[str, ParamValue]:
        return self._profile.params

    @property
    def site(self) -> Site:
        return self._profile.site

    @property
    def entity(self) -> str:
        return self._alert.entity

    @property
    def labels(self) -> Mapping[str, str]:
        return self._alert.labels

    @property
    def parents(self) -> Mapping[str, Verdict]:
        if self._parents is None:
            raise RuntimeError(
                "queries() reads context.parents: it is called before any parent has answered"
            )
        return self._parents

    def answer(self, query: Query) -> Answer:
        try:
            return self._answers[query]
        except KeyError:
            raise LookupError(f"queries() did not return {query!r}") from None

    async def ask(self, query: Query) -> Answer:
        if self._ask is None:
            raise RuntimeError("only a dynamic tool may ask: say so in its manifest")
        return await self._ask(query)

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(self._profile.site.zone), fold=fold)
        return moment.astimezone(UTC)

    def wall_clock(self, moment: datetime) -> datetime:
        return moment.astimezone(ZoneInfo(self._profile.site.zone)).replace(tzinfo=None)
