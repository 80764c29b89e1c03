"""The clock that is not injected by a test."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Implements `ports.Clock`."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
