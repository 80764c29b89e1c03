"""Back-testing: stored decisions made again with the answers of their time, and compared."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import orjson

from triage.adapters.recorded import Recording
from triage.app.difference import Difference, Document, compare, compare_known
from triage.app.procedure import Loaded
from triage.app.redecide import Redecider
from triage.app.replayed import Missing, Replayed, Skip, Status, Why
from triage.engine.engine import UNROUTED, EngineOptions, as_resolved
from triage.errors import SourceFailure, ToolFailure
from triage.model.alert import Alert, AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import AnsweredBy, Outcome, decision_document
from triage.ports import AlertView, Clock, DecisionFilter, DecisionLog

PAGE = 200  # heads in memory at once
DEADLINE_S = 600.0  # of one decision: a slow machine must not cut off what a recording answers
OPTIONS = EngineOptions(deadline_s=DEADLINE_S, fallback_deadline_s=DEADLINE_S)

_TOOL_FAILURES = frozenset(failure.value for failure in ToolFailure)


class Replay:
    """Makes the decisions of a store again with `loaded`. Changes nothing there."""

    def __init__(
        self, loaded: Loaded, clock: Clock, *, decisions: DecisionLog, alerts: AlertView
    ) -> None:
        self._sop = loaded.sop
        self._redecider = Redecider(loaded, clock, options=OPTIONS)
        self._decisions = decisions
        self._alerts = alerts

    async def run(
        self, wanted: DecisionFilter, *, limit: int | None
    ) -> AsyncGenerator[Replayed, None]:
        """Newest first, one after the other; holds a page of heads and one decision. Raises
        StoreError."""
        cursor, left = "", limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self._decisions.page(wanted, cursor=cursor, limit=size)
            for head in page.decisions:
                yield await self._again(head)
            if left is not None:
                left -= len(page.decisions)
            cursor = page.cursor
            if not cursor:
                return

    async def _again(self, head: Document) -> Replayed:
        alert_id = AlertId(head["alert_id"])
        old = await self._decisions.get(alert_id)
        stored = await self._alerts.stored(alert_id)
        if old is None or stored is None:
            return _skipped(head, Skip.NO_ALERT)
        if not _is_readable(old):
            return _skipped(head, Skip.UNREADABLE)
        if old["outcome"] == Outcome.RESOLVED and not old["nodes"]:
            return _skipped(head, Skip.RESOLVED)
        recording = await self._recording(old)
        return self._compared(old, await self._redecide(old, stored.alert, recording))

    async def _recording(self, old: Document) -> Recording:
        """With every body read: an error of the store must not pass for a tool's."""
        digests = {
            asked["answer_sha256"]
            for node in old["nodes"]
            for asked in node["asked"]
            if asked["answer_sha256"]
        }
        bodies = {digest: await self._decisions.evidence(digest) for digest in sorted(digests)}

        async def evidence(answer_sha256: str) -> bytes | None:
            return bodies.get(answer_sha256)

        return Recording(old, evidence)

    async def _redecide(self, old: Document, alert: Alert, recording: Recording) -> Document:
        # It was firing when it was walked, whatever was heard of it since.
        firing = replace(alert, resolved_at=None, unmatched_resolve=False)
        decision = (await self._redecider.decide(firing, recording)).decision
        if old["outcome"] == Outcome.RESOLVED:
            decision = as_resolved(decision)
        # As a store would give it back: NaN, for one, has no JSON form.
        document: Document = orjson.loads(canonical_json(decision_document(decision)))
        return document

    def _compared(self, old: Document, new: Document) -> Replayed:
        missing = tuple(_missing(old, new))
        if not missing:
            difference = compare(old, new)
            status = Status.EQUAL if difference.same else Status.CHANGED
            return Replayed(status=status, old=old, new=new, difference=difference)
        if old["reason"] == UNROUTED:
            # Nothing of it was ever walked, so there is nothing that a walk could be held against.
            difference = Difference()
        else:
            difference = compare_known(old, new, self._sop, {one.node for one in missing})
        return Replayed(
            status=Status.UNRECORDED if difference.same else Status.CHANGED,
            old=old,
            new=new,
            difference=difference,
            missing=missing,
        )


def _skipped(head: Document, why: Skip) -> Replayed:
    return Replayed(status=Status.SKIPPED, old=head, skip=why)


def _is_readable(document: Document) -> bool:
    """Whether it holds what is compared."""
    try:
        compare(document, document)
        _missing(document, document)
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _missing(old: Document, new: Document) -> list[Missing]:
    """What the new decision could not be told, by node."""
    before = {node["node"]: node for node in old["nodes"]}
    answered = {
        asked["query_sha256"]
        for node in old["nodes"]
        for asked in node["asked"]
        if asked["answer_sha256"]
    }
    missing = []
    for node in new["nodes"]:
        failure = node["failure"]
        if failure is None:
            continue
        was = before.get(node["node"])
        if failure["reason"] == SourceFailure.UNRECORDED:
            missing += [
                Missing(
                    node=node["node"],
                    why=Why.PURGED if asked["query_sha256"] in answered else Why.NOT_ASKED,
                    query=asked["query"],
                )
                for asked in node["asked"]
                if asked["failure"] and asked["failure"]["reason"] == SourceFailure.UNRECORDED
            ] or [Missing(node=node["node"], why=Why.NOT_ASKED)]
        elif (
            failure["reason"] in _TOOL_FAILURES
            and was is not None
            and was["answered_by"] == AnsweredBy.FALLBACK
        ):
            missing.append(Missing(node=node["node"], why=Why.FALLBACK))
    return missing
