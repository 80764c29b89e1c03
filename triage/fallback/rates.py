"""How often a tool of a source may be called, by all agents together."""

from __future__ import annotations

from collections.abc import Callable

MAX_WAIT_S = 2.0
"""How long a call may wait for its turn; one that would wait longer is refused at once."""


class Rates:
    """A token bucket for each (source, tool), a second's worth of calls deep and full at first.

    `monotonic` gives seconds. Belongs to one event loop.
    """

    def __init__(
        self, per_second: float, *, monotonic: Callable[[], float], max_wait_s: float = MAX_WAIT_S
    ) -> None:
        self._interval_s = 1 / per_second
        # A bucket that holds less than one call would never give any.
        self._depth_s = max(1.0, self._interval_s) - self._interval_s
        self._monotonic = monotonic
        self._max_wait_s = max_wait_s
        self._full_at: dict[tuple[str, str], float] = {}

    def reserve(self, source: str, tool: str) -> float | None:
        """Seconds to wait before the call, which is counted; None when it is not to be made."""
        now = self._monotonic()
        full_at = max(self._full_at.get((source, tool), now), now)
        wait_s = max(0.0, full_at - now - self._depth_s)
        if wait_s > self._max_wait_s:
            return None
        self._full_at[source, tool] = full_at + self._interval_s
        return wait_s
