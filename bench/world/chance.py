"""Chance that is a function of its name: shares and small numbers from the counter-based hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.series_hash import drawn, hashes, stream

__all__ = ["below", "belows", "stream", "uniform", "uniforms"]

_SPARE = 11  # bits that a float's mantissa cannot hold
_UNIT = 2.0**-53


def uniform(key: int, counter: int = 0) -> float:
    """In [0, 1)."""
    return (drawn(key, counter) >> _SPARE) * _UNIT


def below(limit: int, key: int, counter: int = 0) -> int:
    """In [0, limit)."""
    return int(uniform(key, counter) * limit)


def uniforms(key: int, counters: NDArray[Any]) -> NDArray[np.float64]:
    """`uniform` of each counter, in their shape."""
    numbers = hashes(np.full(1, key, dtype=np.uint64), counters.astype(np.uint64).ravel())
    share: NDArray[np.float64] = (numbers >> np.uint64(_SPARE)).astype(np.float64) * _UNIT
    return share.reshape(counters.shape)


def belows(limit: int, key: int, counters: NDArray[Any]) -> NDArray[np.int64]:
    """`below` of each counter, in their shape."""
    return (uniforms(key, counters) * limit).astype(np.int64)
