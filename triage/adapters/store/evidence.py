"""Bodies of answers by digest, kept once however many decisions rest on them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from sqlalchemy import bindparam, delete, select, update

from triage.adapters.store.schema import EVIDENCE, insert_new
from triage.adapters.store.transaction import Transaction

_LEVEL = 1  # JSON to about a fifth at 100 MB/s; higher levels cost three times that for a tenth
_SMALL_BYTES = 16 * 1024
_TOUCH_AFTER_US = 3_600_000_000  # an hour: a body used by every alert is not rewritten by each

_NEW = insert_new(EVIDENCE)
_TOUCH = (
    update(EVIDENCE)
    .where(
        EVIDENCE.c.answer_sha256 == bindparam("wanted"), EVIDENCE.c.last_used_at < bindparam("seen")
    )
    .values(last_used_at=bindparam("now"))
)
_BODY = select(EVIDENCE.c.body).where(EVIDENCE.c.answer_sha256 == bindparam("wanted"))
_LONGEST_UNUSED = (
    select(EVIDENCE.c.answer_sha256, EVIDENCE.c.size, EVIDENCE.c.last_used_at)
    .order_by(EVIDENCE.c.last_used_at)
    .limit(bindparam("at_most"))
)
_DELETE = delete(EVIDENCE).where(EVIDENCE.c.answer_sha256 == bindparam("wanted"))


def pack(body: bytes) -> bytes:
    """As `zlib.decompress` reads it. Measured on 3 KB of answers: clearing the usual window of
    32 KiB costs three times the compressing, and a small one packs as tightly."""
    if len(body) > _SMALL_BYTES:
        return zlib.compress(body, _LEVEL)
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, wbits=12, memLevel=5)
    return packer.compress(body) + packer.flush()


def store_evidence(transaction: Transaction, packed: Sequence[tuple[str, bytes]], now: int) -> None:
    for digest, body in packed:
        size = len(body)
        added = transaction.run(
            _NEW, answer_sha256=digest, body=body, size=size, stored_at=now, last_used_at=now
        )
        if added > 0:
            transaction.count("evidence_bytes", size)
        else:
            transaction.run(_TOUCH, wanted=digest, seen=now - _TOUCH_AFTER_US, now=now)


def load_evidence(transaction: Transaction, digest: str) -> bytes | None:
    found = transaction.row(_BODY, wanted=digest)
    return None if found is None else zlib.decompress(found[0])


def purge_some(transaction: Transaction, before: int, max_bytes: int, limit: int) -> int:
    """Delete up to `limit` bodies that are too old or too many; returns how many."""
    kept = transaction.counted("evidence_bytes")
    purged = 0
    for digest, size, last_used_at in transaction.rows(_LONGEST_UNUSED, at_most=limit):
        if last_used_at >= before and kept <= max_bytes:
            break
        transaction.run(_DELETE, wanted=digest)
        transaction.count("evidence_bytes", -size)
        kept -= size
        purged += 1
    return purged
