"""Values on their way between the host and the sandbox."""

from __future__ import annotations

from typing import Any

import orjson

_WEIGHT = 8  # bytes a value is taken for, text aside
_DEPTH = 64
_ENVELOPE = 4096  # bytes around an answer that is itself as large as may be
_INTEGERS = 2**63  # JSON has larger ones, most of its readers do not
_AS_THEY_ARE = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


class TooLarge(Exception):
    """What a host function is given, or gives, is over the limit."""


def argument(name: str, value: object, *, most_bytes: int) -> tuple[Any, int]:
    """A copy of JSON types only, and its size in bytes, roughly. Numbers may be NaN or infinite.

    Raises TooLarge, and TypeError or ValueError for the code that gave it. Bounded in work by
    `most_bytes`: a list of a list of a list, each ten times the same, is small where it was made.
    """
    copier = _Copier(name, most_bytes)
    return copier.copy(value, 1), most_bytes - copier.left


class _Copier:
    def __init__(self, name: str, most_bytes: int) -> None:
        self._name = name
        self._most_bytes = most_bytes
        self.left = most_bytes

    def copy(self, value: object, depth: int) -> Any:
        if depth > _DEPTH:
            raise ValueError(f"{self._name} is nested deeper than {_DEPTH} levels")
        match value:
            case str():
                self._spend(len(value))
                return clean_text(value)
            case None | bool() | float():
                self._spend(_WEIGHT)
                return value
            case int():
                self._spend(_WEIGHT)
                if not -_INTEGERS <= value < _INTEGERS:
                    raise ValueError(f"{self._name} holds a whole number of more than 64 bits")
                return value
            case list() | tuple():
                self._spend(_WEIGHT * (1 + len(value)))
                return [self.copy(item, depth + 1) for item in value]
            case dict():
                self._spend(_WEIGHT * (1 + len(value)))
                return {self._key(key): self.copy(item, depth + 1) for key, item in value.items()}
            case _:
                raise TypeError(
                    f"{self._name} holds a value of type {type(value).__name__}: give text, "
                    "numbers, booleans, None, lists and dicts only"
                )

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise TypeError(f"{self._name} holds a dict with a key that is not text")
        self._spend(len(key))
        return clean_text(key)

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooLarge(f"{self._name} is larger than {self._most_bytes:,} bytes")


def returned(value: Any, *, most_bytes: int) -> Any:
    """As the sandbox may have it. Raises TooLarge, and TypeError for what is not JSON."""
    try:
        size = len(orjson.dumps(value, option=_AS_THEY_ARE))
    except orjson.JSONEncodeError:
        # Half a surrogate pair, which JSON can spell and UTF-8 cannot, or not JSON at all.
        value = clean(value)
        size = len(orjson.dumps(value, option=_AS_THEY_ARE))
    if size > most_bytes + _ENVELOPE:
        raise TooLarge(f"its answer of {size:,} bytes is larger than {most_bytes:,}: ask for less")
    return value


def clean(value: Any) -> Any:
    """With every text fit to be UTF-8."""
    match value:
        case str():
            return clean_text(value)
        case list() | tuple():
            return [clean(item) for item in value]
        case dict():
            return {clean(key): clean(item) for key, item in value.items()}
        case _:
            return value


def clean_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
