"""Findings about tools, open until they no longer hold, and what their watchers learned."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Select, bindparam, select, update

from triage.adapters.store.evidence import pack
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import (
    WATCH_FINDINGS,
    WATCH_STATES,
    from_us,
    insert_new,
    storable,
    to_us,
)
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple, Writer
from triage.model.canonical import canonical_json
from triage.model.decision import NodeId
from triage.ports import Clock, WatchFinding, WatchKind

MOST = 1000  # findings at once
SUBJECT_CHARS = 2_000
DETAIL_CHARS = 4_000

_ONE = WATCH_FINDINGS.c.finding_id == bindparam("wanted")
_NEW = insert_new(WATCH_FINDINGS)
_KNOWN = (
    select(WATCH_FINDINGS.c.first_at, WATCH_FINDINGS.c.last_at, WATCH_FINDINGS.c.closed_at)
    .where(_ONE)
    .with_for_update()
)
_COUNT = (
    update(WATCH_FINDINGS)
    .where(_ONE)
    .values(
        count=WATCH_FINDINGS.c.count + bindparam("more"),
        first_at=bindparam("since"),
        last_at=bindparam("until"),
    )
)
_RENEW = (
    update(WATCH_FINDINGS)
    .where(_ONE)
    .values(detail=bindparam("its_detail"), evidence=bindparam("its_evidence"))
)
_REOPEN = update(WATCH_FINDINGS).where(_ONE).values(closed_at=None)
_CLOSE = (
    update(WATCH_FINDINGS)
    .where(_ONE, WATCH_FINDINGS.c.closed_at.is_(None))
    .values(closed_at=bindparam("now"))
)
_NEW_STATE = insert_new(WATCH_STATES)
_SAVE_STATE = (
    update(WATCH_STATES)
    .where(
        WATCH_STATES.c.watcher == bindparam("its_watcher"),
        WATCH_STATES.c.node == bindparam("its_node"),
    )
    .values(saved_at=bindparam("now"), body=bindparam("its_body"))
)
_STATES = select(WATCH_STATES.c.node, WATCH_STATES.c.body).where(
    WATCH_STATES.c.watcher == bindparam("its_watcher")
)


def _list(*, closed: bool, of_node: bool) -> Select[Any]:
    row = WATCH_FINDINGS.c
    at = row.closed_at if closed else row.last_at
    return (
        select(*WATCH_FINDINGS.columns)
        .where(
            *([row.node == bindparam("its_node")] if of_node else []),
            row.closed_at.is_not(None) if closed else row.closed_at.is_(None),
        )
        .order_by(at.desc(), row.finding_id.desc())
        .limit(MOST)
    )


_LISTS = {
    (closed, of_node): _list(closed=closed, of_node=of_node)
    for closed in (False, True)
    for of_node in (False, True)
}


class _Row(NamedTuple):
    finding: WatchFinding
    first_at: int
    last_at: int
    detail: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWatchLog:
    """See `triage.ports.WatchLog`."""

    writer: Writer
    readers: Readers
    clock: Clock

    async def found(self, findings: Sequence[WatchFinding]) -> None:
        """Each adds its `count`. One from before the closing of a finding, of a watcher that was
        slow, is only counted."""
        rows = [_row(finding) for finding in findings]

        def keep(transaction: Transaction) -> None:
            # In order: two processes with the same findings must not wait for each other.
            for row in sorted(rows, key=lambda row: row.finding.finding_id):
                if not _begin(transaction, row):
                    _renew(transaction, row)

        if rows:
            await self.writer.run(Simple(keep), durable=True, background=True)

    async def ended(self, finding_ids: Sequence[str], *, at: datetime) -> None:
        """One that is closed already stays as it was closed."""
        now = to_us(at)
        ending = [{"wanted": finding_id, "now": now} for finding_id in sorted(finding_ids)]
        if ending:
            await self.writer.run(
                Simple(lambda transaction: transaction.run_each(_CLOSE, ending)),
                durable=True,
                background=True,
            )

    async def findings(self, *, node: str = "", closed: bool = False) -> Sequence[WatchFinding]:
        """The open ones by when they were last seen, with `closed` the closed ones instead, by
        when they were closed."""

        def load(transaction: Transaction) -> list[WatchFinding]:
            statement = _LISTS[closed, bool(node)]
            found = transaction.rows(statement, **({"its_node": node} if node else {}))
            return [_finding(row) for row in found]

        return await self.readers.run(load)

    async def save_state(self, watcher: str, states: Mapping[NodeId, bytes]) -> None:
        """Nodes that are not among `states` keep what was saved of them."""
        now = to_us(self.clock.now())
        packed = [(node, pack(body)) for node, body in sorted(states.items())]

        def save(transaction: Transaction) -> None:
            for node, body in packed:
                values = {"its_watcher": watcher, "its_node": node, "now": now, "its_body": body}
                if transaction.run(_SAVE_STATE, **values) > 0:
                    continue
                added = transaction.run(
                    _NEW_STATE, watcher=watcher, node=node, saved_at=now, body=body
                )
                if added <= 0:
                    transaction.run(_SAVE_STATE, **values)

        if packed:
            await self.writer.run(Simple(save), durable=False, background=True)

    async def load_state(self, watcher: str) -> Mapping[NodeId, bytes]:
        def load(transaction: Transaction) -> dict[NodeId, bytes]:
            found = transaction.rows(_STATES, its_watcher=watcher)
            return {NodeId(node): zlib.decompress(body) for node, body in found}

        return await self.readers.run(load)


def _row(finding: WatchFinding) -> _Row:
    return _Row(
        finding=finding,
        first_at=to_us(finding.first_at),
        last_at=to_us(finding.last_at),
        detail=storable(" ".join(finding.detail.split()), DETAIL_CHARS),
        evidence=canonical_json(dict(finding.evidence)).decode(),
    )


def _begin(transaction: Transaction, row: _Row) -> bool:
    """False when it is there already."""
    finding = row.finding
    added = transaction.run(
        _NEW,
        finding_id=finding.finding_id,
        kind=finding.kind.value,
        node=finding.node,
        subject=storable(finding.subject, SUBJECT_CHARS),
        tool_sha256=finding.tool_sha256,
        detail=row.detail,
        first_at=row.first_at,
        last_at=row.last_at,
        count=finding.count,
        evidence=row.evidence,
        closed_at=None,
    )
    return added > 0


def _renew(transaction: Transaction, row: _Row) -> None:
    its_id = row.finding.finding_id
    known = transaction.row(_KNOWN, wanted=its_id)
    if known is None:
        # Another process purged it in between.
        _begin(transaction, row)
        return
    first_at, last_at, closed_at = known
    transaction.run(
        _COUNT,
        wanted=its_id,
        more=row.finding.count,
        since=min(first_at, row.first_at),
        until=max(last_at, row.last_at),
    )
    if row.last_at >= last_at:
        transaction.run(_RENEW, wanted=its_id, its_detail=row.detail, its_evidence=row.evidence)
    if closed_at is not None and row.last_at >= closed_at:
        transaction.run(_REOPEN, wanted=its_id)


def _finding(row: tuple[Any, ...]) -> WatchFinding:
    return WatchFinding(
        finding_id=row[0],
        kind=WatchKind(row[1]),
        node=NodeId(row[2]),
        subject=row[3],
        tool_sha256=row[4],
        detail=row[5],
        first_at=from_us(row[6]),
        last_at=from_us(row[7]),
        count=row[8],
        evidence=orjson.loads(row[9]),
        closed_at=None if row[10] is None else from_us(row[10]),
    )
