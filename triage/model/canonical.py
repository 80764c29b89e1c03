"""One byte form per value, so that equal values have equal digests on every machine.

The form is JSON with sorted keys and no white space, as RFC 8785 has it but for the float
format, which is `orjson`'s shortest round-trip one. NaN and infinities have no JSON form and are
refused by the callers that could meet them (`query.encode_answer` spells them as strings).
"""

from __future__ import annotations

import hashlib

import orjson


def canonical_json(value: object) -> bytes:
    """`value` (JSON types only, string keys) as canonical bytes. Raises TypeError otherwise."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def sha256_hex(body: bytes) -> str:
    """Lower-case hex SHA-256 of `body`, 64 characters."""
    return hashlib.sha256(body).hexdigest()
