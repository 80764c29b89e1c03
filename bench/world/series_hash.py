"""Numbers that look random and are a function of where they stand alone.

A counter goes through splitmix64 with a key for the stream it belongs to, so that any stretch of a
stream is made without the rest of it, with the same bits on every machine.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_STEP_64, _FIRST_64, _SECOND_64 = np.uint64(_STEP), np.uint64(_FIRST), np.uint64(_SECOND)
_BY_30, _BY_27, _BY_31 = np.uint64(30), np.uint64(27), np.uint64(31)
_HIGH, _MIDDLE, _LOW_24 = np.uint64(40), np.uint64(16), np.uint64(0xFFFFFF)
_LOW_16 = np.uint64(0xFFFF)
_UNIT = 2.0**-24


def stream(seed: int, *place: int | str) -> int:
    """The key of a stream. Words count by their CRC, so a catalogue may grow and be reordered."""
    key = _mixed(seed & _MASK)
    for part in place:
        number = crc32(part.encode()) if isinstance(part, str) else part
        key = _mixed(((key ^ (number & _MASK)) + _STEP) & _MASK)
    return key


def drawn(key: int, counter: int) -> int:
    """One number of a stream: what `hashes` gives for it."""
    return _mixed((counter * _STEP + key) & _MASK)


def hashes(keys: Hashes, counters: Hashes) -> Hashes:
    """64 bits for each counter; `keys` and `counters` are arrays that broadcast."""
    mixed: Hashes = counters * _STEP_64 + keys
    mixed ^= mixed >> _BY_30
    mixed *= _FIRST_64
    mixed ^= mixed >> _BY_27
    mixed *= _SECOND_64
    mixed ^= mixed >> _BY_31
    return mixed


def unit(numbers: Hashes) -> NDArray[np.float64]:
    """In [0, 1), from the upper 24 bits."""
    return (numbers >> _HIGH).astype(np.float64) * _UNIT


def other_unit(numbers: Hashes) -> NDArray[np.float64]:
    """In [0, 1), from 24 bits that `unit` and `below` leave alone."""
    return ((numbers >> _MIDDLE) & _LOW_24).astype(np.float64) * _UNIT


def below(numbers: Hashes, of_65536: int) -> NDArray[np.bool_]:
    """True for `of_65536` in 65,536, from the lower 16 bits."""
    return (numbers & _LOW_16) < np.uint64(of_65536)


def _mixed(number: int) -> int:
    number = ((number ^ (number >> 30)) * _FIRST) & _MASK
    number = ((number ^ (number >> 27)) * _SECOND) & _MASK
    return number ^ (number >> 31)
