"""Texts with slots. What is put in is never read again: it may hold slots of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")
_NAME = re.compile(r"\{([a-z_]+)\}")
FENCE = "~"
LEAST_FENCE = 3

_RUNS = re.compile(rf"{FENCE}+")


def filled(template: str, values: Mapping[str, str]) -> str:
    """`{{slot}}` by `values`. Raises KeyError for a slot without a value."""
    return _SLOT.sub(lambda slot: values[slot[1]], template)


def phrased(text: str, values: Mapping[str, str]) -> str:
    """`{name}` by `values`. Raises KeyError for a name without a value."""
    return _NAME.sub(lambda slot: values[slot[1]], text)


def fenced(data: str) -> str:
    """Between two rows of tildes that are longer than any in the data, which so cannot end it."""
    longest = max((len(run) for run in _RUNS.findall(data)), default=0)
    row = FENCE * max(LEAST_FENCE, longest + 1)
    return f"{row}\n{data}\n{row}"
