"""The hand-written loop: what a careful engineer writes around the same tools and sources.

It walks the same procedure by the same rules, asks a layer's queries at once and each only once,
and decides the same. It leaves out what the engine adds: deadlines, bounds, retries, a look at
what tools and sources return, evidence, metrics, and a decision that can be stored and explained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from triage.app.procedure import Loaded
from triage.evaluation.context import ToolContext
from triage.model.alert import Alert
from triage.model.decision import NodeId
from triage.model.query import Answer, Query
from triage.model.verdict import Verdict
from triage.ports import Source
from triage.sop.procedure import SiteProfile, Sop

PATIENCE_S = 30.0

Within = Callable[[str, str], bool]
Reached = tuple[str, str]
"""An action and its subject."""


class Walked(NamedTuple):
    """What a walk came to: every node's verdict, and the actions that stand."""

    verdicts: Mapping[NodeId, Verdict]
    actions: frozenset[Reached]


class Floor:
    """Sources are open, and no tool is dynamic or reads its parents."""

    def __init__(self, loaded: Loaded, sources: Mapping[str, Source]) -> None:
        self._sop = loaded.sop
        self._sites = loaded.sites
        self._tools = loaded.library.tools
        self._sources = sources

    async def walk(self, alert: Alert) -> Walked:
        profile = self._sites.profile(alert.site)
        answers: dict[Query, Answer] = {}
        verdicts: dict[NodeId, Verdict] = {}
        frontier = self._sop.entry(alert.alarm) or ()
        while frontier:
            contexts = [ToolContext(alert, profile) for _ in frontier]
            missing: dict[Query, None] = {}
            for node, context in zip(frontier, contexts, strict=True):
                queries = self._tools[node].queries
                assert queries is not None
                for query in queries(profile.site.name, alert.fired_at, context):
                    if query not in answers:
                        missing[query] = None
            answered = await asyncio.gather(*map(self._ask, missing))
            answers.update(zip(missing, answered, strict=True))
            for node, context in zip(frontier, contexts, strict=True):
                context.open_for_judging({}, answers)
                verdicts[node] = self._tools[node].evaluate(
                    profile.site.name, alert.fired_at, context
                )
            frontier = self._following(frontier, verdicts)
        return Walked(verdicts, settled(self._sop, profile, alert.entity, verdicts))

    async def _ask(self, query: Query) -> Answer:
        return await self._sources[query.source].ask(query, timeout_s=PATIENCE_S)

    def _following(
        self, frontier: Collection[NodeId], verdicts: Mapping[NodeId, Verdict]
    ) -> tuple[NodeId, ...]:
        following: dict[NodeId, None] = {}
        for node in frontier:
            for target in self._sop.nodes[node].targets[verdicts[node].value.word]:
                if target in self._sop.nodes and target not in verdicts:
                    following[NodeId(target)] = None
        return tuple(following)


def settled(
    sop: Sop, profile: SiteProfile, entity: str, verdicts: Mapping[NodeId, Verdict]
) -> frozenset[Reached]:
    """Which of the actions that the verdicts reach stand: those that none cancels, and yielding
    ones only where there is no other, then of the highest rank."""
    actions = {str(name): action for name, action in sop.actions.items()}
    reached = {
        (target, verdict.subject or entity)
        for node, verdict in verdicts.items()
        for target in sop.nodes[node].targets[verdict.value.word]
        if target in actions
    }
    standing = {
        (action, subject)
        for action, subject in reached
        if not any(
            action in actions[other].cancels and profile.within(subject, place)
            for other, place in reached
        )
    }
    if firm := {one for one in standing if not actions[one[0]].yields}:
        return frozenset(firm)
    highest = max((actions[action].rank for action, _ in standing), default=0)
    return frozenset(one for one in standing if actions[one[0]].rank == highest)
