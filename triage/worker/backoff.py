"""Waiting while the store or a broker is in trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from triage.errors import QueueError, StoreError

TROUBLE = (StoreError, QueueError)
"""What passes by itself: the store is the record, and whatever a queue lost is published again."""


class Backoff:
    """The n-th wait in a row is `first_s * 2**(n-1)`, at most `last_s`, half of it at random: what
    came back must not meet every replica at once."""

    def __init__(
        self,
        *,
        first_s: float = 0.2,
        last_s: float = 5.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._jitter = jitter
        self._failures = 0

    @property
    def is_waiting(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def next_s(self) -> float:
        """Seconds to wait after one more failure."""
        whole = min(self._last_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return whole / 2 + whole / 2 * self._jitter()

    def reset(self) -> None:
        self._failures = 0


async def pause(seconds: float, until: asyncio.Event) -> None:
    """Sleep, but not past the event."""
    try:
        async with asyncio.timeout(seconds):
            await until.wait()
    except TimeoutError:
        return
