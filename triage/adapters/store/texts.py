"""Text of senders as every database takes it, or a refusal that says which field is at fault."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from triage.errors import PayloadError
from triage.model.alert import Arrival

_WORDS = (
    "integration",
    "tenant",
    "fingerprint",
    "event",
    "alarm",
    "site",
    "entity",
    "delivery_key",
)


def check_words(arrival: Arrival) -> None:
    """Raises PayloadError for text that has no UTF-8 form, or a NUL in it."""
    words = "".join([getattr(arrival, name) for name in _WORDS])
    if "\0" not in words and _is_unicode(words):
        return
    for name in _WORDS:
        word = getattr(arrival, name)
        if not _is_unicode(word):
            raise PayloadError(name, "text that is not valid Unicode: send it as UTF-8")
        if "\0" in word:
            # PostgreSQL's text has none. SQLite's has, and could then never be moved there.
            raise PayloadError(name, "a NUL character: leave it out")


def as_json(name: str, words: Mapping[str, str]) -> str:
    """Labels as they are stored; a NUL in one is an escape of six characters here. Raises
    PayloadError."""
    try:
        return orjson.dumps(dict(words)).decode()
    except TypeError as error:
        raise PayloadError(name, f"text that is not valid Unicode: {error}") from error


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
