"""Shadows: how often each agreed with the active version, and in full where it did not."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from sqlalchemy import BigInteger, Select, bindparam, case, or_, select, update

from triage.adapters.store.cursor import decode_cursor, encode_cursor
from triage.adapters.store.evidence import pack
from triage.adapters.store.readers import Readers
from triage.adapters.store.schema import (
    SHADOW_COMPARISONS,
    SHADOW_TALLIES,
    from_us,
    insert_new,
    to_us,
)
from triage.adapters.store.transaction import Transaction
from triage.adapters.store.writer import Writer
from triage.errors import PayloadError
from triage.model.alert import AlertId
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import NodeId
from triage.ports import Compared, Comparison, ComparisonPage, Pair, Tally

PAGE_LIMIT = 1000
PAIR_ID_CHARS = 32
_LAST = 2**63 - 1
_ANY = "any"

_SINCE, _UNTIL = (bindparam(name, type_=BigInteger) for name in ("since", "until"))
_MORE, _OTHER = (bindparam(name, type_=BigInteger) for name in ("more", "more_other"))
_NEW = insert_new(SHADOW_COMPARISONS)
_NEW_TALLY = insert_new(SHADOW_TALLIES)
_COUNT = (
    update(SHADOW_TALLIES)
    .where(
        SHADOW_TALLIES.c.pair_id == bindparam("its_pair"),
        SHADOW_TALLIES.c.result == bindparam("its_result"),
        SHADOW_TALLIES.c.shard == bindparam("its_shard"),
    )
    .values(
        count=SHADOW_TALLIES.c.count + _MORE,
        other_clauses=SHADOW_TALLIES.c.other_clauses + _OTHER,
        first_at=case(
            (SHADOW_TALLIES.c.first_at < _SINCE, SHADOW_TALLIES.c.first_at), else_=_SINCE
        ),
        last_at=case((SHADOW_TALLIES.c.last_at > _UNTIL, SHADOW_TALLIES.c.last_at), else_=_UNTIL),
    )
)
_TALLIES = select(
    SHADOW_TALLIES.c.pair_id,
    SHADOW_TALLIES.c.node,
    SHADOW_TALLIES.c.shadow_version,
    SHADOW_TALLIES.c.shadow_sha256,
    SHADOW_TALLIES.c.active_version,
    SHADOW_TALLIES.c.active_sha256,
    SHADOW_TALLIES.c.result,
    SHADOW_TALLIES.c.count,
    SHADOW_TALLIES.c.other_clauses,
    SHADOW_TALLIES.c.first_at,
    SHADOW_TALLIES.c.last_at,
).order_by(SHADOW_TALLIES.c.pair_id)
_TALLIES_OF_NODE = _TALLIES.where(SHADOW_TALLIES.c.node == bindparam("its_node"))


def _page(*, of_result: bool) -> Select[Any]:
    row = SHADOW_COMPARISONS.c
    return (
        select(row.alert_id, row.result, row.at, row.body)
        .where(
            row.pair_id == bindparam("its_pair"),
            *([row.result == bindparam("its_result")] if of_result else []),
            row.body.is_not(None),
            row.at <= bindparam("from_at"),
            or_(row.at < bindparam("from_at"), row.alert_id < bindparam("from_id")),
        )
        .order_by(row.at.desc(), row.alert_id.desc())
        .limit(bindparam("at_most"))
    )


_PAGES = {of_result: _page(of_result=of_result) for of_result in (False, True)}


def pair_id(pair: Pair) -> str:
    return sha256_hex(canonical_json(list(pair)))[:PAIR_ID_CHARS]


# --- counting ---------------------------------------------------------------------------------


class _Row(NamedTuple):
    pair_id: str
    alert_id: AlertId
    result: Compared
    at: int
    body: bytes | None
    comparison: Comparison


@dataclass(slots=True)
class _Sum:
    """What one transaction adds to a pair's count of one result."""

    pair: Pair
    since: int
    until: int
    count: int = 0
    other_clauses: int = 0

    def add(self, row: _Row) -> None:
        self.count += 1
        self.other_clauses += row.comparison.other_clauses
        self.since, self.until = min(self.since, row.at), max(self.until, row.at)


@dataclass(slots=True)
class _Compare:
    """The operation behind `compared`."""

    comparisons: Sequence[Comparison]
    _rows: list[_Row] = field(default_factory=list)

    def prepare(self) -> None:
        ids = {one.pair: pair_id(one.pair) for one in self.comparisons}
        rows = [
            _Row(ids[one.pair], one.alert_id, one.result, to_us(one.at), _body(one), one)
            for one in self.comparisons
        ]
        # In order: two processes with the same alerts must not wait for each other.
        self._rows = sorted(rows, key=lambda row: row[:2])

    def __call__(self, transaction: Transaction) -> None:
        sums: dict[tuple[str, Compared], _Sum] = {}
        for row in self._rows:
            if row.result is not Compared.DROPPED and not _is_new(transaction, row):
                continue
            key = (row.pair_id, row.result)
            if key not in sums:
                sums[key] = _Sum(row.comparison.pair, row.at, row.at)
            sums[key].add(row)
        for (its_pair, result), added in sorted(sums.items(), key=lambda item: item[0]):
            _count(transaction, its_pair, result, added)


def _body(comparison: Comparison) -> bytes | None:
    if comparison.result in (Compared.AGREES, Compared.DROPPED):
        return None
    return pack(
        canonical_json(
            {
                "site": comparison.site,
                "active": dict(comparison.active),
                "shadow": dict(comparison.shadow),
                "evidence": list(comparison.evidence),
            }
        )
    )


def _is_new(transaction: Transaction, row: _Row) -> bool:
    added = transaction.run(
        _NEW,
        pair_id=row.pair_id,
        alert_id=row.alert_id,
        result=row.result.value,
        at=row.at,
        body=row.body,
    )
    return added > 0


def _count(transaction: Transaction, its_pair: str, result: Compared, added: _Sum) -> None:
    counting = {
        "its_pair": its_pair,
        "its_result": result.value,
        "its_shard": transaction.shard,
        "more": added.count,
        "more_other": added.other_clauses,
        "since": added.since,
        "until": added.until,
    }
    if transaction.run(_COUNT, **counting) > 0:
        return
    begun = transaction.run(
        _NEW_TALLY,
        pair_id=its_pair,
        result=result.value,
        shard=transaction.shard,
        **added.pair._asdict(),
        count=added.count,
        other_clauses=added.other_clauses,
        first_at=added.since,
        last_at=added.until,
    )
    if begun <= 0:
        # Another process that found no shard of its own began it in between.
        transaction.run(_COUNT, **counting)


# --- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreShadowLog:
    """See `triage.ports.ShadowLog`.

    What was dropped is counted, and nothing of it is kept. A crash may lose the newest comparisons:
    nobody waits for them to be on disk.
    """

    writer: Writer
    readers: Readers

    async def compared(self, comparisons: Sequence[Comparison]) -> None:
        if comparisons:
            await self.writer.run(_Compare(comparisons), durable=False, background=True)

    async def tallies(self, node: str = "") -> Sequence[Tally]:
        """By node, and of a node the one first that was compared last."""

        def load(transaction: Transaction) -> list[Tally]:
            if node:
                return _tallies(transaction.rows(_TALLIES_OF_NODE, its_node=node))
            return _tallies(transaction.rows(_TALLIES))

        return await self.readers.run(load)

    async def comparison_page(
        self, pair: Pair, *, result: Compared | None, cursor: str, limit: int
    ) -> ComparisonPage:
        """At most PAGE_LIMIT at once."""
        limit = max(1, min(limit, PAGE_LIMIT))
        its_pair = pair_id(pair)
        kind = f"{its_pair} {result.value if result is not None else _ANY}"

        def load(transaction: Transaction) -> ComparisonPage:
            from_at, from_id = _after(transaction, cursor, kind) if cursor else (_LAST, "")
            found = transaction.rows(
                _PAGES[result is not None],
                its_pair=its_pair,
                **({"its_result": result.value} if result is not None else {}),
                from_at=from_at,
                from_id=from_id,
                at_most=limit + 1,
            )
            shown = [_comparison(pair, row) for row in found[:limit]]
            if len(found) <= limit:
                return ComparisonPage(comparisons=shown, cursor="")
            last_id, _, last_at, _ = found[limit - 1]
            return ComparisonPage(
                comparisons=shown, cursor=encode_cursor(transaction, last_at, f"{kind} {last_id}")
            )

        return await self.readers.run(load)


def _after(transaction: Transaction, cursor: str, kind: str) -> tuple[int, str]:
    at, key = decode_cursor(transaction, cursor)
    its_kind, _, alert_id = key.rpartition(" ")
    if its_kind != kind:
        raise PayloadError("cursor", "not a cursor of this list: start again without one")
    return at, alert_id


def _tallies(rows: Sequence[tuple[Any, ...]]) -> list[Tally]:
    by_pair: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_pair.setdefault(row[0], []).append(row)
    found = [_tally(parts) for parts in by_pair.values()]
    found.sort(key=lambda one: (one.last_at, one.first_at, one.pair), reverse=True)
    found.sort(key=lambda one: one.pair.node)
    return found


def _tally(parts: Sequence[tuple[Any, ...]]) -> Tally:
    node, shadow_version, shadow_sha256, active_version, active_sha256 = parts[0][1:6]
    counts = dict.fromkeys(Compared, 0)
    for part in parts:
        counts[Compared(part[6])] += part[7]
    return Tally(
        pair=Pair(NodeId(node), shadow_version, shadow_sha256, active_version, active_sha256),
        counts=counts,
        first_at=from_us(min(part[9] for part in parts)),
        last_at=from_us(max(part[10] for part in parts)),
        other_clauses=sum(part[8] for part in parts),
    )


def _comparison(pair: Pair, row: tuple[Any, ...]) -> Comparison:
    alert_id, result, at, body = row
    document = orjson.loads(zlib.decompress(body))
    return Comparison(
        pair=pair,
        result=Compared(result),
        alert_id=AlertId(alert_id),
        at=from_us(at),
        site=document["site"],
        active=document["active"],
        shadow=document["shadow"],
        evidence=tuple(document["evidence"]),
    )
