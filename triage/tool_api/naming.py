"""One spelling for an asset, however people and systems write it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PAIR = re.compile(r"([A-Za-z]+)[ _-]?([0-9]+)")


def asset_id(text: str, *, words: Mapping[str, str], width: Mapping[str, int]) -> str:
    """The first asset named in `text`, in its one spelling; `text` as it is when it names none.

    An asset is letters and a number, with a space, `-`, `_` or nothing between: `words` maps what
    the letters may say in upper case to the id's prefix (CHUTE to CH), `width` a prefix to the
    digits of its number (CH to 3; 1 where it says nothing). `ch7`, `Chute 7` and `CH-007` are then
    all `CH-007`.
    """
    found = _PAIR.search(text)
    return _spelled(found[1], found[2], words, width) if found is not None else text


def asset_ids(text: str, *, words: Mapping[str, str], width: Mapping[str, int]) -> tuple[str, ...]:
    """Every asset named in free text, as `asset_id` spells it, in order."""
    return tuple(_spelled(found[1], found[2], words, width) for found in _PAIR.finditer(text))


def _spelled(letters: str, digits: str, words: Mapping[str, str], width: Mapping[str, int]) -> str:
    prefix = words.get(letters.upper(), letters.upper())
    return f"{prefix}-{int(digits):0{width.get(prefix, 1)}d}"
