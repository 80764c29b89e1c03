"""Decisions with what they rest on: one transaction to write, pages to read."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import bindparam, insert, select, update

from triage.adapters.store.cursor import decode_cursor, encode_cursor
from triage.adapters.store.evidence import load_evidence, pack, store_evidence
from triage.adapters.store.gaps import GapRow, gap_rows, store_gaps
from triage.adapters.store.outbox import post
from triage.adapters.store.pages import find_page
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import ALERTS, DECISIONS, from_us, to_us
from triage.adapters.store.storms import coalesced_count
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Writer
from triage.errors import StoreError
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json
from triage.model.decision import Decision, Outcome, decision_document
from triage.model.gap import Gap
from triage.ports import (
    AlertStatus,
    Clock,
    CommitStatus,
    DecisionFilter,
    DecisionPage,
    Message,
)

PAGE_LIMIT = 1000
NOT_IN_HEAD = ("nodes", "edges", "dropped_actions")
_LARGE_BYTES = 128 * 1024  # above this, compressing would keep other commits waiting: 1 ms and more

_STATE = select(ALERTS.c.status, ALERTS.c.resolved_at).where(
    ALERTS.c.alert_id == bindparam("wanted")
)
# A resolve that another process is about to commit is waited for, one that comes later waits.
_STATE_TO_CHANGE = _STATE.with_for_update()
_DECIDED = (
    update(ALERTS)
    .where(ALERTS.c.alert_id == bindparam("wanted"))
    .values(status=AlertStatus.DECIDED.value)
)
_NEW_DECISION = insert(DECISIONS)
_GET = select(DECISIONS.c.body, DECISIONS.c.decided_at).where(
    DECISIONS.c.alert_id == bindparam("wanted")
)
_FIRST = -(2**63)
_LAST = 2**63 - 1


@dataclass(slots=True)
class Commit:
    """The operation behind `DecisionLog.commit`."""

    decision: Decision
    evidence: Mapping[str, bytes]
    messages: Sequence[Message]
    clock: Clock
    gaps: Sequence[Gap] = ()
    _head: str = ""
    _body: bytes = b""
    _packed: list[tuple[str, bytes]] = field(default_factory=list)
    _gap_rows: list[GapRow] = field(default_factory=list)
    _prepared: bool = False

    def prepare(self) -> None:
        if self._prepared:
            return
        document = decision_document(self.decision)
        self._body = pack(canonical_json(document))
        for name in NOT_IN_HEAD:
            document.pop(name)
        self._head = canonical_json(document).decode()
        self._packed = [(digest, pack(body)) for digest, body in self.evidence.items()]
        self._gap_rows = gap_rows(self.gaps)
        self._prepared = True

    def __call__(self, transaction: Transaction) -> CommitStatus:
        decision = self.decision
        now = to_us(self.clock.now())
        state = transaction.row(_STATE_TO_CHANGE, wanted=decision.alert_id)
        if state is None:
            raise StoreError(f"alert {decision.alert_id} was never accepted: nothing to decide")
        status, resolved_at = state
        if status != AlertStatus.PENDING.value:
            return CommitStatus.ALREADY_DECIDED
        if resolved_at is not None and decision.outcome is not Outcome.RESOLVED:
            return CommitStatus.RESOLVED_MEANWHILE
        transaction.run(_DECIDED, wanted=decision.alert_id)
        transaction.run(
            _NEW_DECISION,
            alert_id=decision.alert_id,
            outcome=decision.outcome.value,
            degraded=int(decision.degraded),
            alarm=decision.alarm,
            site=decision.site,
            entity=decision.entity,
            decision_sha256=decision.decision_sha256,
            decided_at=now,
            head=self._head,
            body=self._body,
        )
        store_evidence(transaction, self._packed, now)
        post(transaction, decision.alert_id, self.messages, now)
        store_gaps(transaction, self._gap_rows)
        transaction.count("pending", -1)
        transaction.count("decided", 1)
        return CommitStatus.COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDecisionLog:
    """See `triage.ports.DecisionLog`."""

    writer: Writer
    readers: Readers
    clock: Clock

    async def commit(
        self,
        decision: Decision,
        evidence: Mapping[str, bytes],
        messages: Sequence[Message],
        gaps: Sequence[Gap] = (),
    ) -> CommitStatus:
        """Raises StoreError, also for an alert that was never accepted."""
        operation = Commit(
            decision=decision, evidence=evidence, messages=messages, clock=self.clock, gaps=gaps
        )
        # A trace holds all that a model wrote: up to some hundred kilobytes.
        if sum(map(len, evidence.values())) > _LARGE_BYTES or any(
            result.trace is not None for result in decision.nodes
        ):
            await asyncio.to_thread(operation.prepare)
        return await self.writer.run(operation, durable=True)

    async def get(self, alert_id: AlertId) -> Mapping[str, Any] | None:
        def load(transaction: Transaction) -> Mapping[str, Any] | None:
            found = transaction.row(_GET, wanted=alert_id)
            if found is not None:
                document = _dated(zlib.decompress(found[0]), found[1])
                if repeats := coalesced_count(transaction, alert_id):
                    document["coalesced"] = repeats
                return document
            state = transaction.row(_STATE, wanted=alert_id)
            return None if state is None else {"status": state[0]}

        return await self.readers.run(load)

    async def page(self, wanted: DecisionFilter, *, cursor: str, limit: int) -> DecisionPage:
        """Newest first; `since` is inclusive, `until` is not; at most PAGE_LIMIT at once."""
        limit = max(1, min(limit, PAGE_LIMIT))

        def load(transaction: Transaction) -> DecisionPage:
            from_at, from_id = decode_cursor(transaction, cursor) if cursor else (_LAST, "")
            until = _LAST if wanted.until is None else to_us(wanted.until)
            found = find_page(
                transaction,
                {"alarm": wanted.alarm, "site": wanted.site, "outcome": wanted.outcome},
                since=_FIRST if wanted.since is None else to_us(wanted.since),
                newest=min(from_at, until - 1),
                after=(from_at, from_id),
                limit=limit + 1,
            )
            shown = found[:limit]
            more = len(found) > limit
            return DecisionPage(
                decisions=tuple(_dated(head, decided_at) for head, decided_at, _ in shown),
                cursor=encode_cursor(transaction, shown[-1][1], shown[-1][2]) if more else "",
            )

        return await self.readers.run(load)

    async def evidence(self, answer_sha256: str) -> bytes | None:
        return await self.readers.run(lambda transaction: load_evidence(transaction, answer_sha256))


def _dated(document: str | bytes, decided_at: int) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(document)
    moment = from_us(decided_at)
    loaded["decided_at"] = moment.isoformat()
    waited = moment - datetime.fromisoformat(loaded["accepted_at"])
    loaded["accepted_to_decided_ms"] = round(waited.total_seconds() * 1000, 3)
    return loaded
