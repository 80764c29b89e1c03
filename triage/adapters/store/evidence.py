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
_LAST_USED = select(EVIDENCE.c.last_used_at).where(EVIDENCE.c.answer_sha256 == bindparam("wanted"))
_TOUCH = (
    update(EVIDENCE)
    .where(EVIDENCE.c.answer_sha256 == bindparam("wanted"))
    .values(last_used_at=bindparam("now"))
)
_BODY = select(EVIDENCE.c.body).where(EVIDENCE.c.answer_sha256 == bindparam("wanted"))
_LONGEST_UNUSED = (
    select(EVIDENCE.c.answer_sha256, EVIDENCE.c.size, EVIDENCE.c.last_used_at)
    .order_by(EVIDENCE.c.last_used_at)
    .limit(bindparam("at_most"))
)
# Not what another process has used since it was looked at.
_DELETE = delete(EVIDENCE).where(
    EVIDENCE.c.answer_sha256 == bindparam("wanted"), EVIDENCE.c.last_used_at == bindparam("seen")
)


def pack(body: bytes) -> bytes:
    """As `zlib.decompress` reads it. Measured on 3 KB of answers: clearing the usual window of
    32 KiB costs three times the compressing, and a small one packs as tightly."""
    if len(body) > _SMALL_BYTES:
        return zlib.compress(body, _LEVEL)
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, wbits=12, memLevel=5)
    return packer.compress(body) + packer.flush()


def store_evidence(transaction: Transaction, packed: Sequence[tuple[str, bytes]], now: int) -> None:
    # In order: two processes with the same new bodies must not wait for each other.
    for digest, body in sorted(packed):
        if not _store(transaction, digest, body, now) and not _touch(transaction, digest, now):
            # Another process purged it in between.
            _store(transaction, digest, body, now)


def _store(transaction: Transaction, digest: str, body: bytes, now: int) -> bool:
    size = len(body)
    added = transaction.run(
        _NEW, answer_sha256=digest, body=body, size=size, stored_at=now, last_used_at=now
    )
    if added > 0:
        transaction.count("evidence_bytes", size)
    return added > 0


def _touch(transaction: Transaction, digest: str, now: int) -> bool:
    """False when it is gone."""
    found = transaction.row(_LAST_USED, wanted=digest)
    if found is None:
        return False
    return found[0] >= now - _TOUCH_AFTER_US or transaction.run(_TOUCH, wanted=digest, now=now) > 0


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
        if not transaction.run(_DELETE, wanted=digest, seen=last_used_at):
            continue
        transaction.count("evidence_bytes", -size)
        kept -= size
        purged += 1
    return purged
