"""Where a page ended, in a form that only this database can have made."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from sqlalchemy import bindparam, select

from triage.adapters.store.schema import SECRETS
from triage.adapters.store.transaction import Transaction
from triage.errors import PayloadError, StoreError

CURSOR_SECRET = "cursor"  # noqa: S105 - the name of a key, not the key
_MAC_BYTES = 12
_AT_BYTES = 8

_SECRET = select(SECRETS.c.value).where(SECRETS.c.name == bindparam("wanted"))


def encode_cursor(transaction: Transaction, at: int, key: str) -> str:
    payload = at.to_bytes(_AT_BYTES, "big", signed=True) + key.encode()
    return base64.urlsafe_b64encode(_mac(transaction, payload) + payload).decode()


def decode_cursor(transaction: Transaction, cursor: str) -> tuple[int, str]:
    """Time and key of the last row shown. Raises PayloadError."""
    try:
        decoded = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    mac, payload = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
    if len(payload) <= _AT_BYTES or not hmac.compare_digest(mac, _mac(transaction, payload)):
        raise PayloadError("cursor", "not a cursor of this store: start again without one")
    return int.from_bytes(payload[:_AT_BYTES], "big", signed=True), payload[_AT_BYTES:].decode()


def _mac(transaction: Transaction, payload: bytes) -> bytes:
    found = transaction.row(_SECRET, wanted=CURSOR_SECRET)
    if found is None:
        raise StoreError("the store has no key for cursors: its migrations did not run to the end")
    return hmac.new(found[0], payload, hashlib.sha256).digest()[:_MAC_BYTES]
