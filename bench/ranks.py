"""Percentiles of what was measured, without a value that was never measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, nan


def nearest_rank(values: Sequence[float], q: float) -> float:
    """The least of `values` that at least the share `q`, in (0, 1], of them do not exceed; NaN of
    nothing."""
    ordered = sorted(values)
    return ordered[max(1, ceil(q * len(ordered))) - 1] if ordered else nan
