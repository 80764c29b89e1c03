"""Reading JSON that a stranger wrote: what is wrong becomes a PayloadError that names the field.

Limits are in characters of text, but for `MAX_RAW_BYTES`. A number is told as text the way JSON
writes it. NUL and lone surrogates are refused wherever text is kept, because not every store can
hold them; they may stand in the raw document, where JSON escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from triage.errors import PayloadError
from triage.model.canonical import canonical_json, sha256_hex

MAX_NAME = 256  # alarm, site, entity
MAX_KEY = 512  # fingerprints and what they are made from
MAX_LABELS = 128
MAX_LABEL_NAME = 256
MAX_LABEL_VALUE = 4_096
MAX_ANNOTATION_VALUE = 16_384
MAX_RAW_BYTES = 256 * 1024

_MAX_STEP = 64
"""A key longer than this is cut where an error names it: the message goes into logs."""

Document = dict[str, Any]


def under(place: str, key: str) -> str:
    """The dotted path of `key` in what lies at `place`; keys are cut and made printable."""
    step = key if len(key) <= _MAX_STEP else key[:_MAX_STEP] + "…"
    if not step:
        return f'{place}.""' if place else '""'
    if not step.isprintable():
        step = "".join(c if c.isprintable() else "�" for c in step)
    return f"{place}.{step}" if place else step


def load(body: bytes | str, field: str) -> Any:
    """The decoded JSON. Raises PayloadError for anything else, or nesting beyond 1024 levels."""
    if not body or not body.strip():
        raise PayloadError(field, "is empty: send the alert as JSON")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise PayloadError(field, f"is not JSON: {error}") from error


def as_object(value: object, field: str) -> Document:
    if not isinstance(value, dict):
        raise PayloadError(field, "expected a JSON object")
    return value


def as_list(value: object, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise PayloadError(field, "expected a JSON array")
    return value


def dump(document: object, field: str) -> bytes:
    """The document as JSON, to be kept. Raises PayloadError over `MAX_RAW_BYTES`, and for nesting
    that can be read but not written again (beyond 254 levels)."""
    try:
        raw = orjson.dumps(document)
    except TypeError as error:
        raise PayloadError(field, "is nested too deeply: at most 254 levels are kept") from error
    if len(raw) > MAX_RAW_BYTES:
        raise PayloadError(
            field, f"is {len(raw)} bytes long: at most {MAX_RAW_BYTES} bytes an alert are kept"
        )
    return raw


def scalar_text(value: object) -> str | None:
    """Text of a string, number or boolean; None for null, objects and arrays."""
    match value:
        case str():
            return value
        case bool() | int() | float():
            return orjson.dumps(value).decode()
        case _:
            return None


def bounded_text(value: str, field: str, limit: int) -> str:
    """`value` itself. Raises PayloadError when it is too long or cannot be stored."""
    if len(value) > limit:
        raise PayloadError(field, f"is {len(value)} characters long: at most {limit} are taken")
    if "\0" in value:
        raise PayloadError(field, "holds a NUL character, which cannot be stored: leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise PayloadError(field, "holds half a surrogate pair: send valid Unicode") from error
    return value


def key_text(value: object, field: str) -> str:
    """Text that identity hangs on, "" when absent.

    Floats are refused: an integer beyond 64 bits arrives as one, and two different keys could
    become the same.
    """
    match value:
        case None:
            return ""
        case str() | int() if not isinstance(value, bool):
            return bounded_text(str(value), field, MAX_KEY)
        case _:
            raise PayloadError(field, "expected a string")


def text_map(
    value: object, field: str, *, limit: int = MAX_LABEL_VALUE, what: str = "labels"
) -> dict[str, str]:
    """An object's values as text: numbers and booleans as JSON writes them, nested values as
    JSON, nulls left out. Absent or null is empty. Raises PayloadError naming the key at fault."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise PayloadError(field, "expected a JSON object")
    texts = {}
    for key, each in value.items():
        if each is None:
            continue
        place = under(field, key)
        text = scalar_text(each)
        if text is None:
            text = dump(each, place).decode()
        texts[bounded_text(key, place, MAX_LABEL_NAME)] = bounded_text(text, place, limit)
    return at_most(texts, field, what)


def annotation_map(value: object, field: str) -> dict[str, str]:
    """As `text_map`, with room for prose."""
    return text_map(value, field, limit=MAX_ANNOTATION_VALUE, what="annotations")


def at_most(texts: dict[str, str], field: str, what: str) -> dict[str, str]:
    """`texts` itself. Raises PayloadError when there are more than `MAX_LABELS`."""
    if len(texts) > MAX_LABELS:
        raise PayloadError(field, f"{len(texts)} {what}: at most {MAX_LABELS} are taken")
    return texts


def digest(*parts: object) -> str:
    """A stable key from JSON values: SHA-256 hex of their canonical form."""
    return sha256_hex(canonical_json(list(parts)))
