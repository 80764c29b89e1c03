"""What no tool could answer: written with its decision, grouped by kind, until it is closed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Select, bindparam, func, or_, select, update

from triage.adapters.store.cursor import decode_cursor, encode_cursor
from triage.adapters.store.evidence import pack
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import GAP_CASES, GAPS, from_us, insert_new, storable, to_us
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Simple, Writer
from triage.errors import PayloadError
from triage.model.canonical import canonical_json
from triage.model.decision import NodeId
from triage.model.gap import CLOSED_BY_CHARS, NOTE_CHARS, Gap, gap_document, read_gap
from triage.ports import GapGroup, GapPage

PAGE_LIMIT = 1000
HISTORY_CHARS = 4 * NOTE_CHARS  # of all closings together: the oldest are cut off

_NEW_CASE = insert_new(GAP_CASES)
_NEW_GAP = insert_new(GAPS)
_KNOWN = select(
    GAPS.c.first_at, GAPS.c.last_at, GAPS.c.closed_at, GAPS.c.closed_by, GAPS.c.note
).where(GAPS.c.gap_id == bindparam("wanted"))
_KNOWN_TO_CHANGE = _KNOWN.with_for_update()
_ONE = GAPS.c.gap_id == bindparam("wanted")
_COUNT = (
    update(GAPS)
    .where(_ONE)
    .values(count=GAPS.c.count + 1, first_at=bindparam("since"), last_at=bindparam("until"))
)
_LATEST = (
    update(GAPS)
    .where(_ONE)
    .values(tool_version=bindparam("its_version"), latest=bindparam("its_case"))
)
_REOPEN = (
    update(GAPS).where(_ONE).values(closed_at=None, closed_by="", note=bindparam("its_history"))
)
_CLOSE = (
    update(GAPS)
    .where(_ONE)
    .values(closed_at=bindparam("now"), closed_by=bindparam("who"), note=bindparam("why"))
)
_OPEN = select(func.count()).select_from(GAPS).where(GAPS.c.closed_at.is_(None))
_GET = select(*GAPS.columns).where(_ONE)
_CASES = (
    select(GAP_CASES.c.body)
    .where(GAP_CASES.c.gap_id == bindparam("wanted"))
    .order_by(GAP_CASES.c.at.desc(), GAP_CASES.c.alert_id.desc())
    .limit(bindparam("at_most"))
)
_LAST = 2**63 - 1


def _page(*, closed: bool, of_node: bool) -> Select[Any]:
    at = GAPS.c.closed_at if closed else GAPS.c.last_at
    return (
        select(*GAPS.columns)
        .where(
            *([GAPS.c.node == bindparam("its_node")] if of_node else []),
            GAPS.c.closed_at.is_not(None) if closed else GAPS.c.closed_at.is_(None),
            at <= bindparam("from_at"),
            or_(at < bindparam("from_at"), GAPS.c.gap_id < bindparam("from_id")),
        )
        .order_by(at.desc(), GAPS.c.gap_id.desc())
        .limit(bindparam("at_most"))
    )


_PAGES = {
    (closed, of_node): _page(closed=closed, of_node=of_node)
    for closed in (False, True)
    for of_node in (False, True)
}


# --- with a decision --------------------------------------------------------------------------


class GapRow(NamedTuple):
    """`case` is the gap as JSON text."""

    gap: Gap
    at: int
    case: str
    body: bytes


def gap_rows(gaps: Sequence[Gap]) -> list[GapRow]:
    """What needs no transaction."""
    rows = []
    for gap in gaps:
        case = canonical_json(gap_document(gap))
        rows.append(GapRow(gap=gap, at=to_us(gap.at), case=case.decode(), body=pack(case)))
    return rows


def store_gaps(transaction: Transaction, rows: Sequence[GapRow]) -> None:
    """A case that is stored already changes nothing. One later than the closing of its gap opens
    it again; one from before, of an attempt that was slow to end, is only counted."""
    # In order: two processes with the same gaps must not wait for each other.
    for row in sorted(rows, key=lambda row: row.gap.gap_id):
        gap_id = row.gap.gap_id
        added = transaction.run(
            _NEW_CASE, gap_id=gap_id, alert_id=row.gap.alert_id, at=row.at, body=row.body
        )
        if added <= 0:
            continue
        known = transaction.row(_KNOWN_TO_CHANGE, wanted=gap_id)
        if known is None and _begin(transaction, row):
            continue
        # Another process began it in between.
        known = known or transaction.row(_KNOWN_TO_CHANGE, wanted=gap_id)
        assert known is not None, f"gap {gap_id} vanished although a case of it is stored"
        first_at, last_at, closed_at, closed_by, note = known
        transaction.run(
            _COUNT, wanted=gap_id, since=min(first_at, row.at), until=max(last_at, row.at)
        )
        if row.at >= last_at:
            version = row.gap.tool_version
            transaction.run(_LATEST, wanted=gap_id, its_version=version, its_case=row.case)
        if closed_at is not None and row.at > closed_at:
            closed = f"closed {from_us(closed_at).isoformat()} by {closed_by}: {note}"
            transaction.run(_REOPEN, wanted=gap_id, its_history=closed[:HISTORY_CHARS])


def _begin(transaction: Transaction, row: GapRow) -> bool:
    """False when it is there already."""
    added = transaction.run(
        _NEW_GAP,
        gap_id=row.gap.gap_id,
        node=row.gap.node,
        reason=row.gap.reason,
        tool_version=row.gap.tool_version,
        tool_sha256=row.gap.tool_sha256,
        count=1,
        first_at=row.at,
        last_at=row.at,
        closed_at=None,
        closed_by="",
        note="",
        latest=row.case,
    )
    return added > 0


# --- to read and to close ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreGapLog:
    """See `triage.ports.GapLog`."""

    writer: Writer
    readers: Readers

    async def gap_page(self, *, closed: bool, node: str, cursor: str, limit: int) -> GapPage:
        """Open gaps by their last case, closed ones by when they were closed; at most PAGE_LIMIT
        at once. An open gap that comes back while pages are read moves before them."""
        limit = max(1, min(limit, PAGE_LIMIT))
        kind = "closed" if closed else "open"

        def load(transaction: Transaction) -> GapPage:
            from_at, from_id = _after(transaction, cursor, kind) if cursor else (_LAST, "")
            found = transaction.rows(
                _PAGES[closed, bool(node)],
                **({"its_node": node} if node else {}),
                from_at=from_at,
                from_id=from_id,
                at_most=limit + 1,
            )
            shown = [_group(row) for row in found[:limit]]
            if len(found) <= limit:
                return GapPage(gaps=tuple(shown), cursor="")
            last = shown[-1]
            at = last.closed_at if closed else last.last_at
            assert at is not None, "a gap that is open was listed as closed"
            key = f"{kind} {last.gap_id}"
            return GapPage(gaps=tuple(shown), cursor=encode_cursor(transaction, to_us(at), key))

        return await self.readers.run(load)

    async def gap(self, gap_id: str) -> GapGroup | None:
        def load(transaction: Transaction) -> GapGroup | None:
            found = transaction.row(_GET, wanted=gap_id)
            return None if found is None else _group(found)

        return await self.readers.run(load)

    async def gap_cases(self, gap_id: str, *, limit: int) -> Sequence[Gap]:
        """At most PAGE_LIMIT."""
        at_most = max(1, min(limit, PAGE_LIMIT))

        def load(transaction: Transaction) -> list[Gap]:
            found = transaction.rows(_CASES, wanted=gap_id, at_most=at_most)
            return [read_gap(orjson.loads(zlib.decompress(body))) for (body,) in found]

        return await self.readers.run(load)

    async def close_gap(self, gap_id: str, *, by: str, note: str, at: datetime) -> bool:
        """`by` and `note` become one line each. What was noted at earlier closings stays below
        the new note, the newest first."""
        who = storable(" ".join(by.split()), CLOSED_BY_CHARS)
        why = storable(" ".join(note.split()), NOTE_CHARS)
        now = to_us(at)

        def close(transaction: Transaction) -> bool:
            known = transaction.row(_KNOWN_TO_CHANGE, wanted=gap_id)
            if known is None or known[2] is not None:
                return False
            noted = f"{why}\n{known[4]}" if known[4] else why
            transaction.run(_CLOSE, wanted=gap_id, now=now, who=who, why=noted[:HISTORY_CHARS])
            return True

        return await self.writer.run(Simple(close), durable=True)

    async def open_gaps(self) -> int:
        def count(transaction: Transaction) -> int:
            found = transaction.row(_OPEN)
            assert found is not None
            return int(found[0])

        return await self.readers.run(count)


def _after(transaction: Transaction, cursor: str, kind: str) -> tuple[int, str]:
    at, key = decode_cursor(transaction, cursor)
    its_kind, _, gap_id = key.partition(" ")
    if its_kind != kind:
        raise PayloadError("cursor", f"not a cursor of {kind} gaps: start again without one")
    return at, gap_id


def _group(row: Sequence[Any]) -> GapGroup:
    return GapGroup(
        gap_id=row[0],
        node=NodeId(row[1]),
        reason=row[2],
        tool_version=row[3],
        tool_sha256=row[4],
        count=row[5],
        first_at=from_us(row[6]),
        last_at=from_us(row[7]),
        closed_at=None if row[8] is None else from_us(row[8]),
        closed_by=row[9],
        note=row[10],
        latest=read_gap(orjson.loads(row[11])),
    )
